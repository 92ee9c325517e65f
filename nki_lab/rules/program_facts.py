"""The facts about a specialised kernel that rules read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose
from nki_lab.isa import enums
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.coverage import Coverage, cover
from nki_lab.kernel_runtime.ir import Accesses, Program, Variant, access_columns
from nki_lab.kernel_runtime.issue.source_location import placed, span_of, title
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.path import Path
from nki_lab.kernel_runtime.schedule import Schedule, schedule
from nki_lab.kernel_runtime.tensor import Buffer

Mask = NDArray[np.bool_]
Column = NDArray[np.int64]
T = TypeVar("T")


class Events(NamedTuple):
    """Accesses in order of (buffer, op, reads before writes), as columns; `start[b]` is the first one of buffer b."""

    op: Column
    view: Column
    buffer: Column
    is_out: Mask
    start: Column


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramFacts:
    """A specialised kernel and what is worked out about it, each thing when it is first asked for.

    `doubtful` are numbers of buffers that something outside of the program may have read or written. A program is
    `complete` where the kernel issues nothing but what is in it; of one that is not, nothing follows from what it does
    not do. `path` is the way through its device loops, where that is known. The last three are what is there already.
    """

    program: Program
    doubtful: frozenset[int] = frozenset()
    complete: bool = True
    path: Path | None = None
    known_coverage: Coverage | None = None
    known_allocation: Allocation | None = None
    known_schedule: Schedule | None = None
    _known: dict[object, object] = field(default_factory=dict, init=False, repr=False)

    @property
    def options(self) -> Options:
        return self.program.options

    @cached_property
    def coverage(self) -> Coverage:
        """Uninitialised reads, and to what each matmul adds."""
        return self.known_coverage or cover(self.program, self.doubtful)

    @cached_property
    def allocation(self) -> Allocation:
        """Return addresses and lifetimes."""
        return self.known_allocation or allocate(self.program)

    @cached_property
    def schedule(self) -> Schedule:
        """Queues and dependencies, of the program as it stands: the bodies of device loops once."""
        return self.known_schedule or schedule(self.program, self.allocation)

    @cached_property
    def accesses(self) -> Accesses:
        """Return the accesses of all ops, one row each, in program order."""
        return access_columns(self.program)

    @cached_property
    def events(self) -> Events:
        """Return the accesses buffer by buffer."""
        return _events(self.program, self.accesses)

    @cached_property
    def overwrites(self) -> Mask:
        """Return the ops that leave nothing of what was in their results: no accumulation, no merging, no row left
        out.
        """
        program = self.program
        out = ~program.variants_where(_leaves_some)[self.variant]
        out[[op for op, added in self.coverage.add.items() if added is False]] = True
        return out

    @cached_property
    def can_accumulate(self) -> Mask:
        """Return the ops of instructions that can add up in a result, as matmuls do."""
        return self.program.variants_where(lambda item: item.instruction.accumulation is not None)[self.variant]

    @cached_property
    def in_loop(self) -> Mask:
        """Return the ops that stand in the body of a device loop."""
        out = np.zeros(len(self.program), bool)
        for region in self.program.regions:
            out[region.first : region.end] = True
        return out

    @cached_property
    def variant(self) -> Column:
        """Return the variant of each op."""
        return np.frombuffer(self.program.op_variant, np.uint32).astype(np.int64)

    @cached_property
    def site(self) -> Column:
        """Return the site of each op."""
        return np.frombuffer(self.program.op_site, np.uint32).astype(np.int64)

    def once(self, analysis: Callable[[ProgramFacts], T]) -> T:
        """Return the result of an analysis of these facts, which runs when it is first asked for."""
        if analysis not in self._known:
            self._known[analysis] = analysis(self)
        known: T = self._known[analysis]  # type: ignore[assignment]
        return known

    # -- words for findings ----------------------------------------------------------------------------------------

    def line(self, op: int) -> int:
        """Return the source line of an op."""
        return self.program.sites[self.program.op_site[op]].line

    def span(self, op: int) -> Span | None:
        """Return the place of an op in the source."""
        site = self.program.sites[self.program.op_site[op]]
        return span_of(site) if site.file else None

    def name(self, op: int) -> str:
        """Return the instruction of an op."""
        return self.program.variants[self.program.op_variant[op]].instruction.name

    def title(self, buffer: Buffer) -> str:
        """Return a tensor as users know it."""
        return title(self.program, buffer)

    def made(self, buffer: Buffer) -> tuple[Related, ...]:
        """Return the place where a tensor is allocated, if that is known."""
        site = self.program.sites[buffer.site] if buffer.site >= 0 else None
        if site is None or not site.file:
            return ()
        return (Related(f"{self.title(buffer)} is allocated here", span_of(site)),)

    def report(
        self,
        code: str,
        op: int,
        message: str,
        *,
        operand: str = "",
        note: str = "",
        limit: str = "",
        use: str = "",
        related: Iterable[Related] = (),
        gain: float = 0.0,
    ) -> Diagnostic:
        """Return a finding at an op, or at one of its operands; `use` is what to do instead, `gain` what that saves."""
        item = diagnose(code, message, operand=operand, note=note, limit=limit, help=use, related=related)
        item = replace(item, gain=gain)
        return placed(item, self.program.sites[self.program.op_site[op]])


def _events(program: Program, accesses: Accesses) -> Events:
    order = np.argsort((accesses.buffer * max(len(program), 1) + accesses.op) * 2 + accesses.is_out, kind="stable")
    buffer = accesses.buffer[order]
    start = np.searchsorted(buffer, np.arange(len(program.buffers) + 1))
    return Events(accesses.op[order], accesses.view[order], buffer, accesses.is_out[order], start)


def _leaves_some(variant: Variant) -> bool:
    """Return whether an instruction may leave elements of its result as they were, or add to them."""
    return variant.use.attrs.get("oob_mode") is enums.oob_mode.skip or variant.instruction.updates(variant.use)


def distinct(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield the first item of each key, such as the first op of each place of the source."""
    seen = set()
    for item in items:
        if (found := key(item)) not in seen:
            seen.add(found)
            yield item
