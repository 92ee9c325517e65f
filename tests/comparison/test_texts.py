"""Lines of two versions of a text are paired by content, through edits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nki_lab.comparison.texts import aligned as alignment

LINES = st.lists(
    st.sampled_from(["a = 1", "b = f(a)", "", "    c = g(b, 2)", "c = g(b, 3)", ")", "d", "a = 2"]), max_size=14
)


def aligned(before: list[str], after: list[str]) -> dict[int, int]:
    return alignment(before, after).pairs


def test_equal_lines_pair_where_lines_were_added_above_them() -> None:
    before = ["x = load(a)", "y = twice(x)", "store(y)"]
    assert aligned(before, ["# new", "z = 0", *before]) == {1: 3, 2: 4, 3: 5}


def test_indentation_does_not_count() -> None:
    assert aligned(["x = load(a)"], ["for i in r:", "    x  =  load(a)"]) == {1: 2}


def test_a_changed_line_pairs_with_its_later_version() -> None:
    before = ["begin()", "nisa.dma_copy(dst=x, src=a)", "end()"]
    after = ["begin()", "y = 1", "nisa.dma_copy(dst=x, src=b)", "end()"]
    assert aligned(before, after) == {1: 1, 2: 3, 3: 4}


def test_a_line_that_shares_few_words_with_another_pairs_with_none() -> None:
    assert aligned(["begin()", "nisa.dma_copy(dst=y, src=b)", "end()"],
                   ["begin()", "nisa.nc_matmul(acc, stationary=w, moving=x)", "end()"]) == {1: 1, 3: 3}  # fmt: skip


def test_a_line_that_moved_is_found() -> None:
    assert aligned(["one()", "two()", "three()", "four()"], ["two()", "three()", "four()", "one()"])[1] == 4


def test_a_line_that_moved_is_told() -> None:
    assert alignment(["one()", "two()", "three()"], ["two()", "three()", "one()"]).moved == {1}
    assert not alignment(["one()", "two()"], ["zero()", "one()", "two()"]).moved


def test_equal_lines_pair_in_their_order() -> None:
    assert aligned(["f()", "f()", "f()"], ["f()", "f()"]) == {1: 1, 2: 2}


@given(LINES, LINES)
def test_exchanging_the_versions_gives_the_same_pairs(before: list[str], after: list[str]) -> None:
    pairs = aligned(before, after)
    assert {b: a for a, b in pairs.items()} == aligned(after, before)
    assert len(set(pairs.values())) == len(pairs)


@given(LINES)
def test_a_text_pairs_with_itself_line_by_line(text: list[str]) -> None:
    assert aligned(text, text) == {number: number for number, line in enumerate(text, 1) if line.strip()}


def test_long_texts_without_anchors_end_soon() -> None:
    before, after = ["f(x)", "g(x)"] * 4000, ["g(x)", "h(x)", "f(x)"] * 3000
    pairs = aligned(before, after)
    assert all(before[a - 1] == after[b - 1] for a, b in pairs.items())
