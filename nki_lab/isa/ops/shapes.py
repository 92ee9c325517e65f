"""Shapes of operands for arithmetic, and limits of dtypes, sizes, places and operators that instructions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nki_lab.isa.spec import PSUM, Fault, Predicate, Use

Test = Callable[[Use], Fault]


def by_partition(use: Use) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each operand as partitions by elements of a partition."""
    return {name: (view.shape[0], view.free_size) for name, view in use.types.items() if view is not None}


def float32_or_bits(*names: str) -> Callable[[Use], str]:
    """Return the precision of operators: of bits where any named one is a bit operator, else float32."""
    return lambda use: "bits" if any(op and op.category == "bitvec" for op in map(use.attrs.get, names)) else "float32"


def native_or_float32(dst: str, src: str) -> Callable[[Use], str]:
    """Return the precision of a copy: bit by bit between equal dtypes, else through float32."""
    return lambda use: "native" if use.dtypes[dst] is use.dtypes[src] else "float32"


def one_dtype(dst: str, src: str) -> Test:
    """Test that two operands have one dtype; a number in place of one has any."""

    def test(use: Use) -> Fault:
        into, of = use.dtypes[dst], use.dtypes[src]
        if into is None or of is None or into is of:
            return None
        return f"{src} is {of.name} and {dst} is {into.name}"

    return test


def same_dtype(dst: str, src: str, refuses: str) -> Predicate:
    """Limit: an input has the dtype of the result, since it is copied bit by bit; `refuses` is one that has not."""
    return Predicate(
        "NKI207",
        f"{src} and {dst} have one dtype",
        one_dtype(dst, src),
        operand=src,
        help=f"cast {src} with nisa.tensor_copy first",
        refuses={src: refuses},
    )


def sizes(left: str, right: str, expected: Callable[[int], int] = int) -> Test:
    """Test that an operand has as many elements per partition as `expected` of those of another."""

    def test(use: Use) -> Fault:
        have, other = use.types[left].free_size, use.types[right].free_size
        if have == expected(other):
            return None
        return f"{left} has {have} elements per partition and {right} has {other}"

    return test


def only(name: str, *allowed: str, why: str = "") -> Test:
    """Test that an operator is one of some; None counts as the operator "None"."""

    def test(use: Use) -> Fault:
        op = use.attrs[name]
        if op is None:
            return None if "None" in allowed else f"{name} is None"
        return None if op.name in allowed else f"{name}=nl.{op.name}{why}"

    return test


def partitions_of(operand: str, unit: int, verb: str = "has") -> Test:
    """Test that an operand has a multiple of `unit` partitions."""

    def test(use: Use) -> Fault:
        rows = use.types[operand].shape[0]
        return None if rows % unit == 0 or rows > use.arch.pmax else f"{operand} {verb} {rows} partitions"

    return test


def one_in_sbuf(first: str, second: str, dtype: str = "float32") -> Predicate:
    """Limit: not both operands are in PSUM. The second is a tile of `dtype` in the instruction's example."""

    def test(use: Use) -> Fault:
        if use.space(first) == PSUM and use.space(second) == PSUM:
            return f"{first} and {second} are both in PSUM, the engine reads one of them from there"
        return None

    tiles = {first: "psum float32 128x512", second: f"psum {dtype} 128x512"}
    return Predicate(
        "NKI223",
        f"{first} and {second} are not both in PSUM",
        test,
        operand=second,
        help="copy one of them to SBUF first",
        accepts={second: tiles[second]},
        refuses=tiles,
    )
