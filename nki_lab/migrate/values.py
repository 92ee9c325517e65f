"""The values that a kernel's expressions have, as the checker evaluates them: shapes, dtypes, memories, integers.

Nothing is inferred a second time: the kernels of the file are evaluated as `nki-lab check` does, with every signature
that it finds, and an observer keeps what each expression was worth.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.beta1.assignment import LoopReduction
from nki_lab.kernel_runtime.beta1.blocks import BlockTensor
from nki_lab.kernel_runtime.beta1.index import Grid, Index, Mask
from nki_lab.kernel_runtime.interpreter import UNKNOWN, observed
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.kernels import evaluated
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.source import SyntaxFacts

_MOST: Final = 256
"""Most different values kept of one expression."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The known facts of a tensor: sizes, dtype, memory, and how many of its dimensions count blocks."""

    shape: tuple[int, ...]
    dtype: DType
    space: str
    blocks: int = 0

    @property
    def on_chip(self) -> bool:
        """Return whether it lies in SBUF or PSUM."""
        return self.space in ("sbuf", "psum")


@dataclass(slots=True)
class Seen:
    """Everything that one expression was worth. `kinds` are "tensor", "index", "grid", "mask", "number", "other".

    `tiles` and `numbers` come from known arguments; where there are none, from assumed ones (`is_assumed`): then the
    sizes say nothing. Of code that the evaluation did not come to, the text alone tells that something is a tensor, and
    that `marked` of its dimensions count blocks.
    """

    kinds: set[str] = field(default_factory=set)
    tiles: dict[Tile, None] = field(default_factory=dict)
    numbers: dict[Any, None] = field(default_factory=dict)
    marked: int = 0
    is_assumed: bool = True

    @property
    def is_tensor(self) -> bool:
        """Return whether the expression is a tensor every time."""
        return self.kinds == {"tensor"}

    def dtype(self) -> DType | None:
        """Return the dtype, where it is always the same and comes from known arguments."""
        kinds = {tile.dtype for tile in self.tiles}
        return next(iter(kinds)) if len(kinds) == 1 and not self.is_assumed else None

    def space(self) -> str:
        """Return the memory, where it is always the same; else ""."""
        spaces = {tile.space for tile in self.tiles}
        return next(iter(spaces)) if len(spaces) == 1 else ""

    def rank(self) -> int | None:
        """Return the number of dimensions, where it is always the same."""
        ranks = {len(tile.shape) for tile in self.tiles}
        return next(iter(ranks)) if len(ranks) == 1 else None

    def sizes(self) -> tuple[int, ...] | None:
        """Return the shape, where it is always the same and comes from known arguments."""
        shapes = {tile.shape for tile in self.tiles}
        return next(iter(shapes)) if len(shapes) == 1 and not self.is_assumed else None

    def blocks(self) -> int:
        """Return the number of block dimensions; 0 for a tile."""
        return max((tile.blocks for tile in self.tiles), default=self.marked)

    def number(self) -> Any:
        """Return the number, where it is always the same and comes from known arguments; else None."""
        return next(iter(self.numbers)) if len(self.numbers) == 1 and not self.is_assumed else None


NOTHING: Final = Seen()


@dataclass(slots=True)
class Values:
    """The values of a text's expressions, and the findings of the check that gave them."""

    seen: dict[int, Seen] = field(default_factory=dict)
    findings: Sequence[Diagnostic] = ()
    guess: Callable[[ast.expr], Seen] | None = None

    def of(self, node: ast.expr | None) -> Seen:
        """Return what is known of an expression."""
        known = self.seen.get(id(node)) if node is not None else NOTHING
        if known is None and self.guess is not None and node is not None:
            known = self.seen[id(node)] = NOTHING  # of a name that is bound to itself
            known = self.seen[id(node)] = self.guess(node)
        return known or NOTHING

    def note(self, node: ast.expr, value: Any, is_assumed: bool) -> None:
        """Keep one value of an expression."""
        if value is UNKNOWN:
            return
        seen = self.seen.get(id(node))
        if seen is None:
            seen = self.seen[id(node)] = Seen()
        if is_assumed and not seen.is_assumed:
            return
        if seen.is_assumed and not is_assumed:
            seen.is_assumed = False
            seen.tiles.clear()
            seen.numbers.clear()
        kind = _kind(value)
        seen.kinds.add(kind)
        if kind == "mask" and not is_assumed and _is_empty(value):
            seen.kinds.add("empty")
        if kind == "tensor" and len(seen.tiles) < _MOST:
            blocks = len(value.blocks) if isinstance(value, BlockTensor) else 0
            seen.tiles[Tile(tuple(value._shape), value._dtype, value._buffer.space.value, blocks)] = None
        elif kind == "number" and len(seen.numbers) < _MOST:
            seen.numbers[value] = None


def _is_empty(mask: Mask) -> bool:
    """Return whether a mask leaves nothing."""
    return not mask.refusal and any(term.span()[1] < 0 for term in mask.terms)


def _kind(value: Any) -> str:
    if isinstance(value, NkiTensor):
        return "tensor"
    if isinstance(value, LoopReduction):
        return "reduction"
    if isinstance(value, Index):
        return "index"
    if isinstance(value, Mask):
        return "mask"
    if isinstance(value, Grid):
        return "grid"
    return "number" if isinstance(value, bool | int | float) else "other"


def values_of(facts: SyntaxFacts, request: EvaluationRequest) -> Values:
    """Evaluate the kernels of a text whose tree nothing has evaluated, and return what their expressions are worth."""
    values = Values()
    with observed(facts.tree, values.note):
        values.findings = evaluated(facts, request, EvaluationCache()).findings
    return values
