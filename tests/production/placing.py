"""Allocators of a kernel library's own: a stack of SBUF bytes with scopes, and a ring of PSUM banks."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional

import nki.isa as nisa
import nki.language as nl
from nki.language import NKIObject

BANK_BYTES = 2048
RESERVED = 16 * 1024


class Side(Enum):
    LEFT = 0
    RIGHT = 1


def bytes_of(dtype: Any) -> int:
    """Bytes of an element, by the dtype's name: kernels cannot ask NumPy."""
    name = str(dtype)
    if name in ("float32", "int32", "uint32", "float8_e4m3fn_x4", "float8_e5m2_x4"):
        return 4
    if name in ("bfloat16", "float16", "int16", "uint16", "float4_e2m1fn_x4"):
        return 2
    return 1


def free_elements(shape: tuple) -> int:
    count = 1
    for size in shape[1:]:
        count *= size
    return count


@dataclass
class Scope(NKIObject):
    name: str = ""
    left: int = 0
    right: int = 0
    rings: Optional[int] = None
    turn: int = 0


class Stack(NKIObject):
    """SBUF from both ends: tiles of one scope are given back together; a scope with `rings` cycles through copies."""

    low: int
    high: int
    scopes: list
    verbose = False

    def __init__(self, low: int = 0, high: Optional[int] = None, verbose: bool = False):
        self.low = low
        self.high = nl.tile_size.total_available_sbuf_size - RESERVED if high is None else high
        self.left, self.right = self.low, self.high
        self.scopes = []
        self.verbose = verbose
        self.peak = 0
        self.names = {}

    def open(self, name: str = "", rings: Optional[int] = None) -> None:
        self.scopes.append(Scope(name=name, left=self.left, right=self.right, rings=rings))

    def close(self) -> None:
        assert len(self.scopes) > 0, "close() without open()"
        scope = self.scopes.pop()
        self.left, self.right = scope.left, scope.right

    def alloc(
        self, shape, dtype, name: Optional[str] = None, base_partition: int = 0, side: Side = Side.LEFT, align=None
    ):
        size = free_elements(shape) * bytes_of(dtype)
        step = max(align if align is not None else 1, bytes_of(dtype))
        if side == Side.LEFT:
            start = (self.left + step - 1) // step * step
            self.left = start + size
        else:
            start = (self.right - size) // step * step
            self.right = start
        assert self.left <= self.right, f"SBUF is full: {size} bytes for {name}, {self.right - self.left} left over"
        self.peak = max(self.peak, self.left + (self.high - self.right))
        unique = self._unique(name if name is not None else "tile")
        if self.verbose:
            print(f"{unique}: {shape} {dtype} at {base_partition, start}")
        return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=unique, address=(base_partition, start))

    def _unique(self, name: str) -> str:
        turn = self.names.setdefault(name, 0)
        self.names[name] = turn + 1
        return name if turn == 0 else f"{name}_{turn}"


class Banks(NKIObject):
    """PSUM bank after bank."""

    turn: int = 0

    def take(self, shape, dtype=nl.float32):
        assert free_elements(shape) * bytes_of(dtype) <= BANK_BYTES, f"{shape} is no bank"
        place = (0, (self.turn % nl.tile_size.psum_num_banks) * BANK_BYTES)
        self.turn += 1
        return nl.ndarray(shape, dtype=dtype, buffer=nl.psum, address=place)


def ceil_div(value: int, by: int) -> int:
    return (value + by - 1) // by


def spread(dst, src, turn: int) -> None:
    """Copy on whichever engine's turn it is; the Scalar Engine of the first generation only activates."""
    if turn % 2 == 0:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.vector_engine)
    elif nisa.get_nc_version() >= nisa.nc_version.gen3:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.scalar_engine)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)
