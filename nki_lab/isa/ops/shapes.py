"""How operands are shown to arithmetic, and tests of dtypes and places, as several instructions use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nki_lab.isa.spec import PSUM, Predicate, Use, predicate


def by_partition(use: Use) -> Mapping[str, tuple[int, ...]]:
    """Each operand as partitions by elements of a partition."""
    return {name: (view.shape[0], view.free_size) for name, view in use.types.items() if view is not None}


def one_dtype(dst: str, src: str) -> Callable[[Use], str | None]:
    """Test: two operands have one dtype; a number in place of one has any."""

    def test(use: Use) -> str | None:
        into, of = use.dtypes[dst], use.dtypes[src]
        if into is None or of is None or into is of:
            return None
        return f"{src} is {of.name} and {dst} is {into.name}"

    return test


def one_in_sbuf(first: str, second: str, dtype: str = "float32") -> Predicate:
    """Limit: not both operands are in PSUM. The second is a tile of `dtype` in the instruction's example."""

    def test(use: Use) -> str | None:
        if use.space(first) == PSUM and use.space(second) == PSUM:
            return f"{first} and {second} are both in PSUM, the engine reads one of them from there"
        return None

    tiles = {first: "psum float32 128x512", second: f"psum {dtype} 128x512"}
    return predicate("NKI223", f"{first} and {second} are not both in PSUM", test, operand=second,
                     help="copy one of them to SBUF first", accepts={second: tiles[second]},
                     refuses=tiles)  # fmt: skip
