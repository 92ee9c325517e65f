"""`neuronxcc.nki.compiler`: buffers with allocators, which say where each tile of a tensor lies.

Tiles that an allocator puts on the same bytes share them, as on the chip.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nki_lab.isa.arch import V3
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.kernel_runtime.issue.source_location import user_frame
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.late_annotations import signature_of
from nki_lab.source_files import line_of

Place = Callable[[tuple[int, ...], int, int], tuple[int, int]]

PSUM_BANK_BYTES: Final = V3.psum_bank_bytes
"""Bytes of a PSUM bank in one partition, the same on every generation that Beta 1 knows."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A memory, and where the tiles of a tensor lie in it.

    `place(block index, partitions, bytes per partition)` gives (partition, byte); None leaves it to the compiler.
    """

    region: MemoryRegion
    place: Place | None = None


_PARAMETERS: Final = ("idx", "pdim_size", "fdim_size")


def _callback(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's function of an allocation that takes its three arguments by position.

    The compiler of Beta 1 passed them by the names of its documentation: a function has them in any order, or behind
    others that `functools.partial` gave. One with other names gets them by position.
    """
    try:
        names = signature_of(func).parameters
    except (TypeError, ValueError):  # a callable without a signature
        return func
    if not set(_PARAMETERS) <= set(names):
        return func
    return lambda *given: func(**dict(zip(_PARAMETERS, given, strict=True)))


def _linear(index: Sequence[int], tiles: Sequence[int], size: int) -> int:
    """Row-major number of `index` modulo `tiles`, times `size`; missing tiles or indices count as one of each."""
    number = 0
    for k, count in enumerate(tiles):
        number = number * count + (index[k] % count if k < len(index) else 0)
    return number * size


@dataclass(slots=True)
class _Addresses:
    """The addresses that one call of an allocator got in the first iteration of the loops around it, in their order."""

    first: tuple[Any, ...]
    now: tuple[Any, ...]
    known: list[int] = field(default_factory=list)
    turn: int = 0


def _in_first_iteration(address: int) -> int:
    """Return an address as it was when the loops around the call were in their first iteration.

    Beta 1 traced the bodies of affine_range and sequential_range once: a sum that grows in one of them, as stack
    pointers of kernels do, grew once.
    """
    builder, frame = local.builder, user_frame(2)
    table: dict[tuple[tuple[int, int], ...], _Addresses] | None = getattr(builder, "first_addresses", None)
    if builder is None or frame is None or table is None or builder.iterations.root is None:
        return address
    calls: list[tuple[int, int]] = []
    values: list[Any] = []
    while frame is not None and frame is not builder.iterations.root:
        calls.append((id(frame.f_code), frame.f_lasti))
        values += [
            frame.f_locals.get(loop.variable)
            for loop in builder.iterations.place_of(frame).loops
            if _ONCE.search(line_of(loop.site.file, loop.site.line))
        ]
        frame = frame.f_back
    if not values:
        return address
    now = tuple(values)
    found = table.setdefault(tuple(calls), _Addresses(now, now))
    if now != found.now:
        found.now, found.turn = now, 0
    if now == found.first:
        found.known.append(address)
    found.turn += 1
    return found.known[found.turn - 1] if found.turn <= len(found.known) else address


_ONCE: Final = re.compile(r"\b(?:affine_range|sequential_range)\s*\(")  # ranges that were traced once


class _Sbuf:
    """Allocators of SBUF tensors."""

    def alloc(self, func: Callable[..., tuple[int, int]]) -> Placement:
        """`func(block index, partitions, bytes per partition)` gives (start partition, byte)."""
        return Placement(MemoryRegion.sbuf, _callback(func))

    def mod_alloc(
        self,
        *,
        base_addr: int,
        base_partition: int = 0,
        num_par_tiles: Sequence[int] = (),
        num_free_tiles: Sequence[int] = (),
    ) -> Placement:
        """Tiles side by side from `base_addr`; block indices wrap around at the given numbers of physical tiles."""

        first = _in_first_iteration(base_addr)

        def place(index: tuple[int, ...], rows: int, width: int) -> tuple[int, int]:
            return base_partition + _linear(index, num_par_tiles, rows), first + _linear(index, num_free_tiles, width)

        return Placement(MemoryRegion.sbuf, place)

    def auto_alloc(self) -> Placement:
        """The compiler places the tiles."""
        return Placement(MemoryRegion.sbuf)


class _Psum:
    """Allocators of PSUM tensors, by bank."""

    def alloc(self, func: Callable[..., tuple[int, int, int]]) -> Placement:
        """`func(block index, partitions, bytes per partition)` gives (bank, start partition, byte in the bank)."""
        func = _callback(func)

        def place(index: tuple[int, ...], rows: int, width: int) -> tuple[int, int]:
            bank, partition, byte = func(index, rows, width)
            return partition, bank * PSUM_BANK_BYTES + byte

        return Placement(MemoryRegion.psum, place)

    def mod_alloc(
        self,
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: Sequence[int] = (),
        num_par_tiles: Sequence[int] = (),
        num_free_tiles: Sequence[int] = (),
    ) -> Placement:
        """Tiles bank after bank from `base_bank`; block indices wrap around at the given numbers of tiles."""

        def place(index: tuple[int, ...], rows: int, width: int) -> tuple[int, int]:
            byte = (base_bank + _linear(index, num_bank_tiles, 1)) * PSUM_BANK_BYTES + base_addr
            return base_partition + _linear(index, num_par_tiles, rows), byte + _linear(index, num_free_tiles, width)

        return Placement(MemoryRegion.psum, place)

    def auto_alloc(self) -> Placement:
        """The compiler places the tiles."""
        return Placement(MemoryRegion.psum)


sbuf: Final = _Sbuf()
psum: Final = _Psum()


def _plain(func: Any = None, **_options: object) -> Any:
    """The kernel itself: a choice of the compiler that does not change results."""
    return func if func is not None else lambda kernel: kernel


def _nothing(*_args: object, **_options: object) -> None:
    """A hint to the compiler that does not change results."""


def names() -> dict[str, Any]:
    """Everything `neuronxcc.nki.compiler` exports, by name."""
    decorators = ("enable_stack_allocator", "force_auto_alloc", "skip_middle_end_transformations")
    return (
        {"sbuf": sbuf, "psum": psum}
        | dict.fromkeys(decorators, _plain)
        | dict.fromkeys(("multi_buffer", "no_reorder"), _nothing)
    )
