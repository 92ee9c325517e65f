"""Colours of the command line: where they are, where not, and that they change no text."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from nki_lab.cli import main
from nki_lab.cli.colour import coloured, is_coloured
from nki_lab.codes import all_codes
from nki_lab.diagnostic import Related, Span, diagnose, render

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=tile, odd=1)
    return tile
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "choice", "terminal", "plain"),
    [
        ({}, "auto", True, False),
        ({"NO_COLOR": "1"}, "auto", False, False),
        ({"NO_COLOR": ""}, "auto", True, False),
        ({"FORCE_COLOR": "1"}, "auto", True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False, False),
        ({"TERM": "dumb"}, "auto", False, False),
        ({"NO_COLOR": "1"}, "always", True, True),
        ({"FORCE_COLOR": "1"}, "never", False, False),
    ],
)
def test_terminals_get_colours_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], choice: str, terminal: bool, plain: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_coloured(Terminal(), choice) is terminal
    assert is_coloured(io.StringIO(), choice) is plain


def test_colours_change_no_text() -> None:
    span = Span(__file__, 1, 4, 1, 11)
    for code in all_codes():
        item = diagnose(
            code.code, "x: 5 | 3 = 2 -->", span=span, note="n", limit="a <= b", help="h", related=[Related("r", span)]
        )
        text = f"{item.severity}: {render(item)}\n\n2 errors\n = no label\n  12 | code\nplain"
        assert ESCAPES.sub("", coloured(text)) == text
        assert coloured(text).count("\x1b[0m") == len(ESCAPES.findall(coloured(text))) / 2
        assert f"{code.code}\x1b[0m" in coloured(text)


def test_an_error_is_red_where_it_points() -> None:
    item = diagnose("NKI213", "moving has 600 columns", span=Span(__file__, 1, 4, 1, 11))
    assert "\x1b[31m^^^^^^^\x1b[0m" in coloured(f"error: {render(item)}")
    assert "\x1b[33m^^^^^^^\x1b[0m" in coloured(f"warning: {render(item)}")


def test_formats_for_programs_have_no_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL, encoding="utf-8")
    for kind in ("json", "sarif", "github"):
        main(["check", str(file), "--format", kind, "--color", "always"])
        assert "\x1b" not in capsys.readouterr().out
    main(["check", str(file), "--format", "json", "--color", "always"])
    assert json.loads(capsys.readouterr().out)
    main(["check", str(file)])
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    main(["check", str(file), "--color", "always"])
    found = capsys.readouterr().out
    assert found != plain
    assert ESCAPES.sub("", found) == plain


def test_errors_of_the_command_line_are_coloured_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "NKI999", "--color", "always"]) == 1
    assert "\x1b[1;31mNKI006\x1b[0m" in capsys.readouterr().err
