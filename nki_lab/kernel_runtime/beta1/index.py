"""Index expressions of Beta 1: `nl.arange`, `nl.mgrid`, and what integers, sums and comparisons make of them.

An `Index` is a grid of integers that is affine in its position: `offset + sum(steps[k] * i[k])`. Shapes broadcast as
in NumPy. Each range that a user writes is an axis with an identity of its own, which index arithmetic keeps; masks
find the dimensions they bound by it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.kernel_runtime.beta1.user_code import branches_on_it
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.pattern import extent

Axes = frozenset[int]

_axis_numbers = itertools.count()
_NO_AXES: Axes = frozenset()


@dataclass(slots=True, eq=False, repr=False)
class Mask:
    """A predicate over index grids: all `terms` are >= 0.

    `source` is the comparison as written, (left - right, operator), where the mask is a single one; `refusal` says why
    the mask has no form as bounds. A mask is true in `a and b`, which is b then: AWS's own kernels rely on it. What
    Python branches on it is not.
    """

    terms: tuple[Index, ...]
    source: tuple[Index, str] | None = None
    refusal: str = ""
    __array_ufunc__ = None

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Mask):
            return Mask(self.terms + other.terms, refusal=self.refusal or other.refusal)
        if isinstance(other, (bool, np.bool_)):
            return self if other else False
        return NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        if isinstance(other, Mask):
            return Mask((), refusal="| joins parts that are no single box")
        if isinstance(other, (bool, np.bool_)):
            return True if other else self
        return NotImplemented

    __ror__ = __or__

    def __invert__(self) -> Mask:
        if len(self.terms) == 1:
            return Mask((-self.terms[0] - 1,))
        return Mask((), refusal=self.refusal or "~ of a conjunction leaves no single box")

    def __bool__(self) -> bool:
        if branches_on_it() is not False:  # unknown without source text: a wrong branch would be silent
            raise self.refuse_condition()
        return True

    def refuse_condition(self) -> NkiError:
        """The error of branching on a mask."""
        return coded_error(
            "NKI017",
            "a comparison of index expressions is used as a condition",
            limit="an index stands for all its values at once: there is no one answer for `if` or `not`",
            help="pass the comparison as mask= to the instructions, joined with &",
        )

    def __repr__(self) -> str:
        return f"<mask {' and '.join(f'{term!r} >= 0' for term in self.terms) or self.refusal}>"


def _comparison(
    name: str, rounding: Callable[[float], int], terms: Callable[[Any], tuple[Index, ...]], refusal: str = ""
) -> Any:
    """Return the method of Index that compares with an integer, a float or an Index, and gives a Mask."""

    def compare(self: Index, other: object) -> Any:
        bound = (
            other if isinstance(other, Index) else integer_of(rounding(other) if isinstance(other, float) else other)
        )
        if bound is None:
            return NotImplemented
        difference = self - bound
        return Mask(terms(difference), (difference, name), refusal)

    return compare


class Index:
    """An affine grid of integers; `axes[k]` holds the ranges that dimension k walks."""

    __slots__ = ("axes", "offset", "shape", "steps")
    __array_ufunc__ = None  # NumPy integers leave arithmetic with an Index to the Index

    def __init__(self, shape: tuple[int, ...], steps: tuple[int, ...], offset: int, axes: tuple[Axes, ...]) -> None:
        self.shape = shape
        self.steps = tuple([0 if size == 1 else step for size, step in zip(shape, steps, strict=True)])
        self.offset = offset
        self.axes = axes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def constant(self) -> bool:
        """True if every element has the same value."""
        return not any(self.steps)

    def span(self) -> tuple[int, int]:
        """Lowest and highest value."""
        return extent(self.offset, self.shape, self.steps)

    def padded(self, rank: int) -> Index:
        """The index with leading size-1 dimensions up to `rank`."""
        return _of_dimensions(_dimensions(self, rank), self.offset)

    def restricted(self, dim: int, low: int, high: int) -> Index:
        """The part from position `low` to `high`, both included, of one dimension."""
        return Index(
            (*self.shape[:dim], high - low + 1, *self.shape[dim + 1 :]),
            self.steps,
            self.offset + low * self.steps[dim],
            self.axes,
        )

    def __getitem__(self, key: Any) -> Index:
        """New size-1 dimensions by None, as in `nl.arange(n)[:, None]`; plain slices cut a dimension."""
        if key.__class__ is tuple and len(key) == 2 and len(self.shape) == 1:  # what kernels write most
            first, second = key
            if second is None and first.__class__ is slice and first == _ALL:
                return _made((*self.shape, 1), (*self.steps, 0), self.offset, (*self.axes, _NO_AXES))
            if first is None and second.__class__ is slice and second == _ALL:
                return _made((1, *self.shape), (0, *self.steps), self.offset, (_NO_AXES, *self.axes))
        keys = key if isinstance(key, tuple) else (key,)
        if any(item is Ellipsis for item in keys):
            at = next(i for i, item in enumerate(keys) if item is Ellipsis)
            fill = self.ndim - sum(item is not None and item is not Ellipsis for item in keys)
            keys = (*keys[:at], *(slice(None),) * fill, *keys[at + 1 :])
        rest = _dimensions(self, self.ndim)
        result: list[_Dimension] = []
        offset = self.offset
        for item in keys:
            if item is None:
                result.append(_NEW)
                continue
            if not rest:
                raise _not_affine(f"{len(keys)} keys for an index of {self.ndim} dimension(s)")
            size, step, axes = rest.pop(0)
            if isinstance(item, slice):
                start, stop, stride = item.indices(size)
                result.append((len(range(start, stop, stride)), step * stride, axes))
                offset += start * step
            elif (position := integer_of(item)) is not None:
                offset += (position % size) * step
            else:
                raise _not_affine(f"an index is indexed by a {type(item).__name__}")
        return _of_dimensions([*result, *rest], offset)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise coded_error(
            "NKI304",
            "an index expression is assigned to",
            limit="indices and masks are compile-time values",
            help="make a tile of it with nisa.iota, and write to that",
        )

    def __iter__(self) -> Iterator[Index]:
        raise _not_affine("an index expression is iterated over")

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: int) -> Any:
        if isinstance(other, Index):
            return _sum(self, other, sign)
        number = integer_of(other)
        if number is None:
            return _refused(self, other, "+" if sign > 0 else "-")
        return _made(self.shape, self.steps, self.offset + sign * number, self.axes)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1)

    def __neg__(self) -> Index:
        return self * -1  # type: ignore[no-any-return]

    def __pos__(self) -> Index:
        return self

    def __mul__(self, other: Any) -> Any:
        number = integer_of(other)
        if number is None and isinstance(other, Index) and other.constant:
            number = other.offset
        if number is None:
            return _refused(self, other, "*")
        return Index(self.shape, tuple([step * number for step in self.steps]), self.offset * number, self.axes)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        number = integer_of(other)
        if number and not any(step % number for step in self.steps):
            return Index(self.shape, tuple([step // number for step in self.steps]), self.offset // number, self.axes)
        if number and self._stays_within(number):
            return self._constant(self.span()[0] // number)
        return _refused(self, other, "//")

    def __mod__(self, other: Any) -> Any:
        number = integer_of(other)
        if number and self._stays_within(number):
            return self - self.span()[0] // number * number
        if number and not any(step % number for step in self.steps):
            return self._constant(self.offset % number)
        return _refused(self, other, "%")

    def _constant(self, value: int) -> Index:
        return Index(self.shape, (0,) * self.ndim, value, self.axes)

    def _stays_within(self, number: int) -> bool:
        """Whether all values lie between two neighbouring multiples of `number`."""
        low, high = self.span()
        return low // number == high // number

    # -- comparisons -----------------------------------------------------------------------------------------------

    __lt__ = _comparison("less", math.ceil, lambda difference: (-difference - 1,))
    __le__ = _comparison("less_equal", math.floor, lambda difference: (-difference,))
    __gt__ = _comparison("greater", math.floor, lambda difference: (difference - 1,))
    __ge__ = _comparison("greater_equal", math.ceil, lambda difference: (difference,))
    __eq__ = _comparison("equal", math.floor, lambda difference: (difference, -difference))
    __ne__ = _comparison("not_equal", math.floor, lambda _: (), "!= leaves no contiguous part")
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise coded_error(
            "NKI017",
            "an index expression is used as a condition",
            limit="indices walk all their values at once; Python decides once, at specialisation time",
            help="pass the condition as mask=, or branch on loop variables and shapes",
        )

    def __index__(self) -> int:
        if self.constant and math.prod(self.shape) == 1:
            return self.offset
        raise _not_affine("an index expression is used as one integer")

    def __repr__(self) -> str:
        terms = [f"{step}*i{dim}" for dim, step in enumerate(self.steps) if step]
        return f"<index {self.shape}: {' + '.join([*terms, str(self.offset)])}>"


_ALL: Final = slice(None)


def _made(shape: tuple[int, ...], steps: tuple[int, ...], offset: int, axes: tuple[Axes, ...]) -> Index:
    """Return an index whose steps are 0 already in dimensions of size 1."""
    index = Index.__new__(Index)
    index.shape, index.steps, index.offset, index.axes = shape, steps, offset, axes
    return index


_Dimension = tuple[int, int, Axes]
"""Size, step and axes of one dimension of an index."""
_NEW: _Dimension = (1, 0, _NO_AXES)


def _dimensions(index: Index, rank: int) -> list[_Dimension]:
    """Return the dimensions of an index, behind new ones of size 1 up to `rank`."""
    return [*[_NEW] * (rank - index.ndim), *zip(index.shape, index.steps, index.axes, strict=True)]


def _of_dimensions(dimensions: Iterable[_Dimension], offset: int) -> Index:
    shape, steps, axes = tuple(zip(*dimensions, strict=True)) or ((), (), ())
    return Index(shape, steps, offset, axes)


def _sum(a: Index, b: Index, sign: int) -> Index:
    rank = max(a.ndim, b.ndim)
    result: list[_Dimension] = []
    for (size_a, step_a, axes_a), (size_b, step_b, axes_b) in zip(
        _dimensions(a, rank), _dimensions(b, rank), strict=True
    ):
        if size_a != size_b and 1 not in (size_a, size_b):
            raise coded_error(
                "NKI203",
                f"indices of shapes {a.shape} and {b.shape} do not broadcast",
                limit="each dimension has equal sizes, or size 1 on one side",
                help="give every index its own dimension: nl.arange(n)[:, None] and nl.arange(m)[None, :]",
            )
        result.append((max(size_a, size_b), step_a + sign * step_b, axes_a | axes_b))
    return _of_dimensions(result, a.offset + sign * b.offset)


def _refused(index: Index, other: Any, sign: str) -> Any:
    """NotImplemented where `other` may know better (a tile), an error for what no index can be combined with."""
    if isinstance(other, (Index, float, bool)) or integer_of(other) is not None:
        raise _not_affine(f"{index!r} {sign} {other!r} is not affine")
    return NotImplemented


def _not_affine(message: str) -> NkiError:
    return coded_error(
        "NKI304",
        message,
        limit="indices are sums of nl.arange, nl.mgrid and integers, times integers",
        help="compute other values in a tile that nisa.iota fills, and index with the tile",
    )


def arange(*bounds: Any) -> Index:
    """The integers of range(*bounds) as a one-dimensional index; give it a place with `[:, None]` or `[None, :]`."""
    if len(bounds) == 1 and bounds[0].__class__ is int and bounds[0] > 1:
        return _made((bounds[0],), (1,), 0, (frozenset((next(_axis_numbers),)),))
    numbers = [integer_of(bound) for bound in bounds]
    if not 1 <= len(numbers) <= 3 or None in numbers:
        raise coded_error(
            "NKI012",
            f"nl.arange{bounds!r}",
            operand="start",
            limit="nl.arange(stop) or nl.arange(start, stop)",
            help="bounds are integers known at specialisation time",
        )
    return _of_range(range(*numbers))  # type: ignore[arg-type]


def _of_range(walk: range) -> Index:
    if len(walk) == 0:
        raise coded_error(
            "NKI307",
            f"an index range from {walk.start} to {walk.stop} is empty",
            operand="stop",
            limit="start < stop",
            help="check the bounds",
        )
    return Index((len(walk),), (walk.step,), walk.start, (frozenset((next(_axis_numbers),)),))


def position_of(key: object) -> int | None:
    """Return a key that is one integer; None for a walk."""
    return (key.offset if key.constant else None) if isinstance(key, Index) else integer_of(key)


@dataclass(slots=True, eq=False, repr=False)
class Grid:
    """`nl.mgrid[a:b, c:d]`: one full-sized index for each range; `.p .x .y .z` name the first four."""

    indices: tuple[Index, ...]

    def __iter__(self) -> Iterator[Index]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Index:
        return self.indices[position]

    def __getattr__(self, name: str) -> Index:
        place = "pxyz".find(name) if len(name) == 1 else -1
        if 0 <= place < len(self.indices):
            return self.indices[place]
        raise AttributeError(f"a grid of {len(self.indices)} range(s) has no {name}")


class _Mgrid:
    def __getitem__(self, key: Any) -> Grid:
        keys = key if isinstance(key, tuple) else (key,)
        walks = [_of_range(_walk(item)) for item in keys]
        shape = tuple(walk.shape[0] for walk in walks)
        axes = tuple(walk.axes[0] for walk in walks)
        rank = len(walks)
        return Grid(
            tuple(
                Index(shape, (*(0,) * k, walk.steps[0], *(0,) * (rank - k - 1)), walk.offset, axes)
                for k, walk in enumerate(walks)
            )
        )


def _walk(item: Any) -> range:
    if isinstance(item, slice):
        start = 0 if item.start is None else integer_of(item.start)
        stop, step = integer_of(item.stop), 1 if item.step is None else integer_of(item.step)
        if start is not None and stop is not None and step:
            return range(start, stop, step)
    raise coded_error(
        "NKI304",
        f"nl.mgrid is indexed by {item!r}",
        limit="nl.mgrid[start:stop, ...] with integers",
        help="for example nl.mgrid[0:128, 0:512]",
    )


mgrid = _Mgrid()
