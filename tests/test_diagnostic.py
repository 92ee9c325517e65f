"""How a diagnostic is shown, and the errors that carry one."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import json
import linecache
import pickle
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import codes
from nki_lab.diagnostic import (
    Diagnostic,
    NkiError,
    Related,
    Span,
    character_at,
    diagnose,
    error_class,
    error_of,
    line_of,
    render,
)
from tests.every import for_each

ALL = codes.all_codes()
EVERY = for_each(ALL)


def lines_of(text: str) -> Callable[[str, int], str]:
    """A source of lines that stands for any file."""
    lines = text.split("\n")
    return lambda _file, line: f"{lines[line - 1]}\n" if 0 < line <= len(lines) else ""


def shown(text: str, diagnostic: Diagnostic) -> str:
    return render(diagnostic, source_line=lines_of(text))


def golden(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def moving(span: Span | None, **rest: str) -> Diagnostic:
    return diagnose("NKI213", "nc_matmul: moving has 600 columns", span=span, **rest)


# Rendering


def test_a_full_diagnostic_reads_from_cause_to_remedy() -> None:
    source = "\n" * 40 + "    nisa.nc_matmul(dst=acc, stationary=wT, moving=x)\n"
    found = diagnose(
        "NKI213",
        "nc_matmul: moving has 600 columns, the tensor engine takes at most 512",
        span=Span("softmax.py", 41, 44, 41, 52),
        operand="moving",
        note="x: (128, 600) bfloat16 in SBUF",
        limit="N <= gemm_moving_fmax (512)",
        help="loop over N in steps of 512",
        related=[Related("x was made here", Span("softmax.py", 33, 5, 33, 6)), Related("target: trn2")],
    )
    assert shown(source, found) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns, the tensor engine takes at most 512
          --> softmax.py:41:44
           |
        41 |     nisa.nc_matmul(dst=acc, stationary=wT, moving=x)
           |                                            ^^^^^^^^ x: (128, 600) bfloat16 in SBUF
           = note:  x was made here (softmax.py:33:5)
           = note:  target: trn2
           = limit: N <= gemm_moving_fmax (512)
           = help:  loop over N in steps of 512
           = more:  nki-lab explain NKI213
        """
    )


@pytest.mark.parametrize(
    ("count", "told", "more"), [(12, 12, ""), (13, 12, "1 more such place"), (5000, 12, "4,988 more such places")]
)
def test_of_many_other_places_the_first_are_told(count: int, told: int, more: str) -> None:
    others = [Related(f"kernel_{number} too", Span("k.py", number + 2, 5, number + 2, 6)) for number in range(count)]
    notes = [line for line in shown("", diagnose("NKI121", "here", related=others)).split("\n") if "= note:" in line]
    last = [f"  = note:  and {more}"] if more else []
    assert notes == [*(f"  = note:  kernel_{number} too (k.py:{number + 2}:5)" for number in range(told)), *last]
    assert len(diagnose("NKI121", "here", related=others).as_dict()["related"]) == count


def test_without_a_place_there_is_no_arrow() -> None:
    assert shown("", moving(None, limit="N <= 512")) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
          = limit: N <= 512
          = more:  nki-lab explain NKI213
        """
    )


def test_tabs_become_four_columns_and_the_carets_follow() -> None:
    assert shown("\tf(a,\tmoving=x)", moving(Span("k.py", 1, 7, 1, 15), note="600")) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> k.py:1:7
          |
        1 |     f(a,    moving=x)
          |             ^^^^^^^^ 600
          = more:  nki-lab explain NKI213
        """
    )


def test_wide_text_behind_the_place_is_shown_as_it_is() -> None:
    assert shown("y = f(x)  # 日本語 😀", moving(Span("k.py", 1, 5, 1, 9), note="日本")) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> k.py:1:5
          |
        1 | y = f(x)  # 日本語 😀
          |     ^^^^ 日本
          = more:  nki-lab explain NKI213
        """
    )


def test_accented_text_before_the_place_counts_by_the_letter() -> None:
    assert shown("größe = f(höhe)", moving(Span("k.py", 1, 11, 1, 15))) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> k.py:1:11
          |
        1 | größe = f(höhe)
          |           ^^^^
          = more:  nki-lab explain NKI213
        """
    )


def test_wide_text_before_the_place_takes_two_columns() -> None:
    assert shown("s = '日本😀'; y = f(x)", moving(Span("k.py", 1, 16, 1, 20))) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> k.py:1:16
          |
        1 | s = '日本😀'; y = f(x)
          |                   ^^^^
          = more:  nki-lab explain NKI213
        """
    )


def test_a_line_given_with_its_windows_end_is_shown_without() -> None:
    text = render(moving(Span("k.py", 1, 1, 2, 2)), source_line=lambda _file, _line: "f(\r\n")
    assert "\r" not in text
    assert "\n  | ^^\n" in text


def test_a_file_with_windows_line_ends_shows_clean_lines(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(b"import nki\r\nnisa.f(\r\n    x)\r\n")
    linecache.checkcache(str(file))
    assert render(moving(Span(str(file), 2, 1, 3, 7))) == golden(
        f"""
        NKI213 nc_matmul: moving has 600 columns
         --> {file}:2:1
          |
        2 | nisa.f(
          | ^^^^^^^
          = more:  nki-lab explain NKI213
        """
    )


def test_a_place_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    assert shown("x = f(\n    a,\n)", moving(Span("k.py", 1, 5, 3, 2), note="three lines")) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> k.py:1:5
          |
        1 | x = f(
          |     ^^ three lines
          = more:  nki-lab explain NKI213
        """
    )


def test_a_missing_file_leaves_the_place_and_the_note() -> None:
    assert render(moving(Span("no/such/file.py", 7, 3, 7, 9), note="600 columns", help="tile it")) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
         --> no/such/file.py:7:3
          = note:  600 columns
          = help:  tile it
          = more:  nki-lab explain NKI213
        """
    )


@pytest.mark.parametrize("span", [Span("k.py", 2, 1, 2, 1), Span("k.py", 99, 1, 99, 4)], ids=["blank", "past the end"])
def test_a_line_without_text_is_not_drawn(span: Span) -> None:
    assert "|" not in shown("x = 1\n   \n", moving(span))
    assert f"--> k.py:{span.line}:1" in shown("x = 1\n   \n", moving(span))


def test_long_line_numbers_push_the_margin() -> None:
    assert shown("\n" * 9999 + "f(x)", moving(Span("k.py", 10000, 3, 10000, 4))) == golden(
        """
        NKI213 nc_matmul: moving has 600 columns
             --> k.py:10000:3
              |
        10000 | f(x)
              |   ^
              = more:  nki-lab explain NKI213
        """
    )


@pytest.mark.parametrize(
    ("span", "carets"),
    [
        (Span("k.py", 1, 3, 1, 3), "          ^"),  # empty: one caret where something is missing
        (Span("k.py", 1, 5, 1, 6), "            ^"),  # just behind the line
        (Span("k.py", 1, 50, 1, 60), "            ^"),  # the file was edited since: still on the line
    ],
)
def test_a_place_always_has_a_caret(span: Span, carets: str) -> None:
    assert f"\n  | {carets.removeprefix('        ')}\n" in shown("f(x)", moving(span))


def test_str_is_the_rendering() -> None:
    assert str(moving(None)) == render(moving(None))


@given(
    st.text(),
    st.tuples(st.integers(1, 6), st.integers(1, 50), st.integers(1, 6), st.integers(1, 50)),
    st.text(max_size=20),
)
def test_anything_can_be_rendered(source: str, place: tuple[int, int, int, int], note: str) -> None:
    lines = source.split("\n")
    text = render(
        moving(Span("k.py", *place), note=note), source_line=lambda _file, line: "".join(lines[line - 1 : line])
    )
    assert text.startswith("NKI213 nc_matmul: moving has 600 columns\n --> k.py:")
    assert text.endswith("= more:  nki-lab explain NKI213")


# Spans


@pytest.mark.parametrize(
    ("source", "byte", "column"),
    [("x = 1", 4, 5), ("é = 1", 5, 5), ("日本 = 1", 9, 6), ("'😀' + x", 9, 7), ("\tx", 1, 2), ("é", 1, 1), ("", 0, 1)],
)
def test_byte_columns_become_characters(source: str, byte: int, column: int) -> None:
    """A byte inside a character belongs to it; a place behind the last character is one further."""
    span = Span.from_bytes("k.py", 1, byte, 1, byte, source=source)
    assert span == Span("k.py", 1, column, 1, column)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs", "M"]), max_size=12), st.data())
def test_every_character_is_found_by_its_byte(line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    byte = len(line[:at].encode())
    assert Span.from_bytes("k.py", 2, byte, 2, byte, source=f"first\n{line}\nlast").column == at + 1


def test_lines_of_a_file_are_read_when_no_source_is_given(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("é = f(ü)\n", encoding="utf-8")
    linecache.checkcache(str(file))
    assert Span.from_bytes(str(file), 1, 5, 1, 10) == Span(str(file), 1, 5, 1, 9)


def test_a_form_feed_ends_no_line() -> None:
    assert Span.from_bytes("k.py", 2, 3, 2, 4, source="a\x0cb\né = x\n").column == 3


def test_a_line_that_is_not_there_counts_bytes() -> None:
    assert Span.from_bytes("k.py", 9, 3, 9, 4, source="x") == Span("k.py", 9, 4, 9, 5)


# The data


def test_outcome_and_severity_come_from_the_code_s_file() -> None:
    assert [(diagnose(code, "m").outcome, diagnose(code, "m").severity) for code in ("NKI213", "NKI103", "NKI601")] == [
        ("fault", "error"),
        ("reject", "error"),
        ("advice", "warning"),
    ]


def test_an_unknown_code_cannot_be_diagnosed() -> None:
    with pytest.raises(KeyError):
        diagnose("NKI999", "m")


def test_as_dict_has_the_names_of_the_contract() -> None:
    found = diagnose(
        "NKI213",
        "m",
        span=Span("k.py", 1, 2, 3, 4),
        operand="moving",
        limit="l",
        help="h",
        related=[Related("r", Span("j.py", 5, 6, 7, 8)), Related("s")],
    )
    assert found.as_dict() == {
        "code": "NKI213",
        "outcome": "fault",
        "severity": "error",
        "message": "m",
        "file": "k.py",
        "line": 1,
        "column": 2,
        "end_line": 3,
        "end_column": 4,
        "operand": "moving",
        "limit": "l",
        "help": "h",
        "related": [
            {"message": "r", "file": "j.py", "line": 5, "column": 6},
            {"message": "s", "file": "", "line": 0, "column": 0},
        ],
    }
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()


def test_every_contract_field_is_an_attribute_of_the_same_value() -> None:
    found = moving(Span("k.py", 1, 2, 3, 4), help="h")
    for name, value in found.as_dict().items():
        if name != "related":
            assert getattr(found, name) == value
    assert found.related == ()


def test_without_a_span_positions_are_empty() -> None:
    found = moving(None)
    assert (found.file, found.line, found.column, found.end_line, found.end_column) == ("", 0, 0, 0, 0)


def test_diagnostics_are_values() -> None:
    first, second = moving(Span("k.py", 1, 2, 3, 4)), moving(Span("k.py", 1, 2, 3, 4))
    assert first == second
    assert len({first, second}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.message = "x"  # type: ignore[misc]


# Errors


def sample(code: codes.Code) -> Diagnostic:
    return diagnose(code.code, f"about {code.slug}", span=Span("k.py", 1, 2, 3, 4), related=[Related("r")])


@EVERY
def test_an_error_is_an_nki_error_and_the_documented_builtin(code: codes.Code) -> None:
    error = error_of(sample(code))
    assert isinstance(error, NkiError)
    assert isinstance(error, code.exception)
    with pytest.raises(code.exception):
        raise error
    assert error.diagnostics == (sample(code),)


@EVERY
def test_an_error_says_its_diagnostics(code: codes.Code) -> None:
    error = error_of(sample(code))
    assert str(error) == render(sample(code))
    assert code.code in repr(error)


@EVERY
def test_an_error_survives_pickling(code: codes.Code) -> None:
    error = error_of(sample(code))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert again.diagnostics == error.diagnostics
        assert str(again) == str(error)


@EVERY
def test_an_error_can_be_copied(code: codes.Code) -> None:
    error = error_of(sample(code))
    assert copy.copy(error).diagnostics == copy.deepcopy(error).diagnostics == error.diagnostics


def test_an_error_of_several_is_of_the_first_one_s_kind() -> None:
    error = error_of(diagnose("NKI303", "first"), diagnose("NKI203", "second"))
    assert isinstance(error, IndexError)
    assert not isinstance(error, AssertionError)
    first, second = str(error).split("\n\n")
    assert first.startswith("NKI303 first")
    assert second.startswith("NKI203 second")


def test_error_classes_are_made_once_and_named_after_their_builtin() -> None:
    assert error_class(IndexError) is error_class(IndexError)
    assert error_class(IndexError).__name__ == "NkiIndexError"
    assert error_class(Exception) is NkiError


def test_a_subclass_of_a_builtin_is_caught_as_both() -> None:
    """NotImplementedError is a RuntimeError in Python, so the error for unmodelled behaviour is too."""
    error = error_of(diagnose("NKI010", "m"))
    assert isinstance(error, NotImplementedError)
    assert isinstance(error, RuntimeError)


def test_code_written_against_nki_keeps_catching() -> None:
    for code, builtin in {"NKI203": "AssertionError", "NKI303": "IndexError", "NKI002": "TypeError"}.items():
        with pytest.raises(getattr(builtins, builtin)):
            raise error_of(diagnose(code, "m"))


@pytest.mark.parametrize("declared", ["zlib", "klingon", "hex"])
def test_a_line_of_a_file_in_no_encoding_is_empty(tmp_path: Path, declared: str) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(f"# coding: {declared}\nx = 1\n")
    assert line_of(str(file), 2) == ""


def test_a_line_is_given_with_its_end(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("x = 1\ny = 2\n")
    assert [line_of(str(file), number) for number in (1, 2, 3)] == ["x = 1\n", "y = 2\n", ""]


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.sampled_from([1, 200]), st.integers(0, 9000))
def test_a_byte_column_is_the_character_that_it_is_in(text: str, times: int, column: int) -> None:
    line = text * times
    assert character_at(line, column) == len(line.encode()[:column].decode(errors="ignore"))


@pytest.mark.parametrize("times", [1, 600])
def test_a_character_that_utf_8_lacks_counts_as_one(times: int) -> None:
    line = "\ud800é" * times
    assert [character_at(line, column) for column in (0, 2, 3, 4, 5, 10_000)] == [0, 0, 1, 1, 2, 2 * times]


def test_the_places_of_a_very_long_line_are_found_fast() -> None:
    """A line of a million characters that are not ASCII is looked at once, not for each of its places."""
    line = "é" * 1_000_000
    assert sum(character_at(line, column) for column in range(0, 2_000_000, 20)) == 10 * sum(range(100_000))
