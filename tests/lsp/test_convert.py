"""Positions in code units, and findings as editors show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from nki_lab.diagnostic import Related, Span, diagnose
from nki_lab.lsp.convert import diagnostic_of, ended_lines, from_units, plain, range_of, replace_range, to_units

ENCODINGS = ["utf-8", "utf-16", "utf-32"]
LINE = "\tx = '😀é日' # ü"


@pytest.mark.parametrize(
    ("encoding", "units"),
    [("utf-8", [0, 1, 6, 10, 12, 15]), ("utf-16", [0, 1, 6, 8, 9, 10]), ("utf-32", [0, 1, 6, 7, 8, 9])],
)
def test_units_before_a_character(encoding: str, units: list[int]) -> None:
    assert [to_units(LINE, column, encoding) for column in (0, 1, 6, 7, 8, 9)] == units


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=st.text(st.characters(exclude_characters="\r\n")), column=st.integers(0, 30))
def test_units_and_characters_agree(encoding: str, line: str, column: int) -> None:
    inside = min(column, len(line))
    assert from_units(line, to_units(line, inside, encoding), encoding) == inside
    assert from_units(line, 10_000, encoding) == len(line)
    assert from_units(line, -3, encoding) == 0


def test_a_position_inside_a_character_is_its_start() -> None:
    assert from_units("a😀b", 2, "utf-16") == 1
    assert [from_units("a😀b", units, "utf-8") for units in range(1, 6)] == [1, 1, 1, 1, 2]


def test_half_a_surrogate_pair_counts_as_a_unit() -> None:
    assert to_units("\ud800x", 2, "utf-16") == 2
    assert from_units("\ud800x", 1, "utf-16") == 1


def test_lines_end_where_the_protocol_says() -> None:
    assert ended_lines("a\r\nb\rc\nd\x0ce\u2028f") == ["a\r\n", "b\r", "c\n", "d\x0ce\u2028f"]
    assert ended_lines("a\n") == ["a\n", ""]


@pytest.mark.parametrize(
    ("line", "character", "offset"), [(0, 0, 0), (0, 99, 2), (1, 1, 5), (1, 2, 5), (9, 0, 7), (1, 3, 6)]
)
def test_positions_outside_are_drawn_in(line: int, character: int, offset: int) -> None:
    text, place = "ab\r\nx😀", lsp.Position(line, character)
    lines = ended_lines(text)
    replace_range(lines, lsp.Range(place, place), "|", "utf-16")
    assert "".join(lines).index("|") == min(offset, len(text))


def test_a_range_never_ends_before_it_starts() -> None:
    found = range_of(Span("k.py", 1, 5, 1, 2), lambda line: "abcdef", "utf-16")
    assert (found.start.character, found.end.character) == (4, 4)


def place_of(span: Span) -> lsp.Location | None:
    return (
        lsp.Location("file:///k.py", range_of(span, lambda line: "x" * 80, "utf-16")) if span.file == "k.py" else None
    )


FOUND = diagnose(
    "NKI213",
    "nc_matmul: moving has 600 columns, the tensor engine takes at most 512",
    span=Span("k.py", 3, 5, 3, 9),
    note="x: (128, 600) bfloat16 in SBUF, made at line 2",
    limit="N <= 512",
    help="loop over N",
    related=[
        Related("with these arguments", Span("k.py", 9, 1, 9, 4)),
        Related("made elsewhere", Span("other.py", 1, 1, 1, 2)),
    ],
)


def test_a_finding_is_shown_whole() -> None:
    uri, shown = diagnostic_of(FOUND, place_of, related=True) or ("", None)
    assert uri == "file:///k.py"
    assert shown is not None
    assert shown.message.split("\n") == [
        FOUND.message,
        FOUND.note,
        "made elsewhere (line 1)",
        "limit: N <= 512",
        "help: loop over N",
    ]
    assert (shown.code, shown.source, shown.severity) == ("NKI213", "nki-lab", lsp.DiagnosticSeverity.Error)
    assert [item.message for item in shown.related_information or ()] == ["with these arguments"]
    assert shown.data == {"code": "NKI213", "title": "The moving tile has more columns than one matmul streams"}
    assert shown.code_description is None  # nothing of ours is on the web


def test_an_editor_that_shows_no_other_places_reads_them() -> None:
    _, shown = diagnostic_of(FOUND, place_of, related=False) or ("", None)
    assert shown is not None
    assert shown.related_information is None
    assert "with these arguments (line 9)" in shown.message


@pytest.mark.parametrize("related", [True, False])
def test_of_many_other_places_an_editor_gets_the_first(related: bool) -> None:
    others = [Related(f"kernel_{number} too", Span("k.py", number + 2, 1, number + 2, 2)) for number in range(3000)]
    found = diagnose("NKI121", "here", span=Span("k.py", 1, 1, 1, 2), related=others)
    _, shown = diagnostic_of(found, place_of, related=related) or ("", None)
    assert shown is not None
    assert len(shown.related_information or ()) == (12 if related else 0)
    assert shown.message.count(" too (line") == (0 if related else 12)
    assert "and 2,988 more such places" in shown.message


def test_a_finding_of_no_open_text_is_not_shown() -> None:
    assert diagnostic_of(diagnose("NKI213", "x", span=Span("other.py", 1, 1, 1, 2)), place_of, related=True) is None
    assert diagnostic_of(diagnose("NKI213", "x"), place_of, related=True) is None


def test_deprecated_spellings_are_struck_through() -> None:
    _, shown = diagnostic_of(diagnose("NKI604", "x", span=Span("k.py", 1, 1, 1, 2)), place_of, related=True) or (
        "",
        None,
    )
    assert shown is not None
    assert shown.tags == [lsp.DiagnosticTag.Deprecated]


def test_settings_come_as_dictionaries() -> None:
    class Thing:
        def _asdict(self) -> dict[str, object]:
            return {"target": "trn2", "list": [1, {"x": 2}]}

    assert plain(Thing()) == {"target": "trn2", "list": [1, {"x": 2}]}
    assert plain({"a": Thing()}) == {"a": {"target": "trn2", "list": [1, {"x": 2}]}}
    assert plain(None) is None
