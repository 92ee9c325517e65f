"""What a change of the text leaves true of an examination: nothing that a fresh one would say otherwise."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, Examination
from nki_lab.query.still_true import MOST_LINES, StillTrue, still_true

TEXT = """\
import nki
import nki.isa as nisa
import nki.language as nl

WIDTH = 64
OTHER = 16


def make(width, rows=128):
    made = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=made, value=0.0)
    return made


def alone(tile):
    wide = nl.ndarray((tile.shape[0], OTHER), dtype=nl.bfloat16, buffer=nl.sbuf)
    return wide


alias = alone


class Maker:
    def __init__(self, width):
        self.width = width

    def one(self):
        inside = nl.ndarray((128, self.width), dtype=nl.float32, buffer=nl.sbuf)
        return inside


@nki.jit
def first(x: nki.typing.tensor[128, 64]):
    tile = nl.load(x)
    for i in range(2):
        half = make(WIDTH // 2)
        size = half.shape[1]
    last = make(size)
    return x


@nki.jit
def second(x: nki.typing.tensor[128, 32]):
    # a comment
    tile = nl.load(x)
    narrow = alias(tile)
    thing = Maker(narrow.shape[1]).one()
    return x


@nki.jit
def third(x: nki.typing.tensor[64, 8]):
    tile = nl.load(x)
    size = tile.shape[1]
    return x


def host():
    third(first(None))
"""
LINES = TEXT.split("\n")
NEW = (
    "WIDTH = 32", "OTHER = 8", "    size = 16", "    tile = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)",
    "    width = 2", "    # nothing", "", "        half = make(5)", "    third(first(None))", "def make(width, rows=64):",
    "    def one(self, width=3):", "        size = 3", "    x = make(", "    narrow = make(7)", '    """', "    return",
    "alias = make", "def alone(tile):", "first = second", "    rows = 7", "@nki.jit", "    self.width = 4", "    return 1",
    "from nki.language import sbuf as alone", "import os", "from os import *", "@make", "def make(*a): return None",
    "    y: nki.typing.tensor[64, 8] = 3", "def first(x: nki.typing.tensor[128, 16]):",
)  # fmt: skip
EDITS = st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 2), st.sampled_from(NEW))


def examined(document: Document, lines: list[str]) -> Examination:
    document.update("\n".join(lines))
    return document.examine(EvaluationRequest(arch=arch_of("trn2")))


def edited(lines: list[str], at: int, removed: int, new: str) -> list[str]:
    at = min(at, len(lines))
    return [*lines[:at], new, *lines[at + removed :]]


def after(before: list[str], now: list[str]) -> tuple[StillTrue, Examination]:
    """What is left of the examination of a text, and the examination of the text after it."""
    known, document = examined(Document("k.py"), before), Document("k.py")
    fresh = examined(document, now)
    assert document.facts is not None
    return still_true(known, before, document.facts), fresh


@settings(max_examples=40)
@given(first=EDITS, second=EDITS)
@example(first=(37, 1, "    size = 16"), second=(0, 0, ""))
@example(first=(4, 1, "WIDTH = 32"), second=(0, 0, ""))
def test_nothing_stays_that_a_fresh_examination_denies(
    first: tuple[int, int, str], second: tuple[int, int, str]
) -> None:
    before = edited(LINES, *first)
    left, fresh = after(before, edited(before, *second))
    for name in ("variables", "issued", "expressions"):
        now = getattr(fresh, name)
        for place, value in getattr(left.known, name).items():
            assert now.get(place) == value, (name, place)


def shown(left: StillTrue) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for (line, _), item in sorted(left.known.variables.items()):
        found.setdefault(item.name, []).append(line)
    return found


def test_functions_that_have_nothing_to_do_with_the_change_keep_their_values() -> None:
    at = LINES.index("    size = tile.shape[1]")
    left, _ = after(LINES, edited(LINES, at, 1, "    size = 3"))
    assert left.known.variables.keys() >= {(LINES.index("    thing = Maker(narrow.shape[1]).one()") + 1, 4)}
    assert left.at(at + 1) == Examination()


def test_a_constant_opens_all_that_may_come_from_it() -> None:
    left, fresh = after(LINES, edited(LINES, LINES.index("OTHER = 16"), 1, "OTHER = 8"))
    assert "wide" not in shown(left)
    assert "narrow" not in shown(left)
    assert "wide" in {item.name for item in fresh.variables.values()}
    assert "half" in shown(left)


def test_a_kernel_that_nobody_calls_keeps_what_stands_above_the_change() -> None:
    at = LINES.index("    thing = Maker(narrow.shape[1]).one()")
    left, _ = after(LINES, edited(LINES, at, 0, "    later = 1"))
    assert "narrow" in shown(left)
    assert "thing" not in shown(left)


def test_a_comment_changes_nothing() -> None:
    before, _ = after(LINES, LINES)
    left, fresh = after(LINES, edited(LINES, LINES.index("    # a comment"), 1, "    # another\n    # and one more"))
    assert len(left.known.variables) == len(before.known.variables) == len(fresh.variables)
    assert left.known.variables == fresh.variables


def test_nothing_is_left_after_a_change_of_half_a_long_text() -> None:
    many = [*LINES, *("x = 1" for _ in range(MOST_LINES + 1))]
    left, _ = after(many, [f"{line} " if line.startswith("x =") else line for line in many])
    assert left == StillTrue()
