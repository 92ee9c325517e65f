from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from typing import ClassVar, Dict, List, NamedTuple, Optional, Tuple

import nki.language as nl

from .sizes import MAX_PARTITIONS, div_ceil, pick_tile

__all__ = ["Activation", "Block", "Config", "Layout", "MoreConfig", "QuantKind", "Range"]


class Activation(Enum):
    NONE = "none"
    EXP = "exp"
    RELU = "relu"

    @classmethod
    def parse(cls, text: str) -> "Activation":
        return cls(text.lower())

    @property
    def op(self):
        return _OPS[self]

    def is_linear(self) -> bool:
        return self in (Activation.NONE,)


_OPS = {Activation.EXP: nl.exp, Activation.RELU: nl.relu}


class Layout(IntEnum):
    ROWS = 0
    COLUMNS = 1

    def other(self) -> "Layout":
        return Layout(1 - self)


class QuantKind(enum.Flag):
    NONE = 0
    ROW = auto()
    STATIC = auto()


class Range(NamedTuple):
    start: int
    size: int = 128

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True)
class Block:
    index: int
    rows: Range

    @staticmethod
    def split(total: int, size: int) -> List["Block"]:
        return [Block(i, Range(i * size, min(size, total - i * size))) for i in range(div_ceil(total, size))]

    @property
    def slice(self):
        return nl.ds(self.rows.start, self.rows.size)


@dataclass
class Config:
    rows: int
    columns: int
    activation: Activation = Activation.NONE
    scale: Optional[float] = None
    names: List[str] = field(default_factory=list)
    extra: Dict[str, int] = field(default_factory=lambda: {"depth": 2})
    tile: int = field(init=False, default=0)
    LIMIT: ClassVar[int] = 4096

    def __post_init__(self):
        self.tile = pick_tile(self.columns)
        if self.columns > self.LIMIT:
            raise ValueError(f"{self.columns} columns are more than {self.LIMIT}")
        self.names += [f"tile_{i:02d}" for i in range(self.count)]

    @property
    def count(self) -> int:
        return div_ceil(self.columns, self.tile)

    @classmethod
    def of(cls, x, **options) -> Config:
        rows, columns = x.shape
        return cls(rows, columns, **options)

    def blocks(self) -> List[Block]:
        return Block.split(self.rows, MAX_PARTITIONS)

    def scaled(self, factor: float) -> Config:
        return replace(self, scale=factor, names=[])


@dataclass
class MoreConfig(Config):
    transposed: bool = False
    padding: Tuple[int, int] = (0, 0)

    def __post_init__(self):
        super().__post_init__()
        self.padding = tuple(reversed(self.padding))
