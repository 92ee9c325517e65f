"""Whatever a file is called and holds, every format of findings prints, says one thing a line, and turns no line round."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nki_lab
from nki_lab.cli.checking import Job, check_file
from nki_lab.cli.notebooks import notebook_of
from nki_lab.cli.report import FORMATS
from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose, render
from nki_lab.lsp.convert import diagnostic_of
from nki_lab.printable import escape, on_one_line, printable, shown

STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)
ANY = st.text(st.characters(), max_size=30)  # lone surrogates too
ODD = "a\nerror: NKI901 forged\x1b[31m\u202e\ud800\x00\r.py"


def texts_of(finding: Diagnostic, line: str) -> dict[str, str]:
    """The finding in each format."""
    found = {name: write([finding]) for name, write in FORMATS.items() if name != "text"}
    place = lambda _span: None  # noqa: E731
    assert diagnostic_of(finding, place, related=True) is None
    return found | {"text": render(finding, source_line=lambda _file, _number: line)}


@given(file=ANY, message=ANY, line=ANY, column=st.integers(1, 40))
@example(ODD, ODD, ODD, 3)
def test_every_format_prints_any_name_message_and_line(file: str, message: str, line: str, column: int) -> None:
    span = Span(file, 1, column, 1, column + 2)
    finding = diagnose("NKI104", message, span=span, limit=message, help=message, related=[Related(message, span)])
    for name, text in texts_of(finding, line).items():
        text.encode("utf-8")
        assert not STEERING.search(text), name
    json.loads(FORMATS["json"]([finding]))
    said = json.loads(FORMATS["sarif"]([finding]))["runs"][0]["results"][0]["message"]["text"]
    assert not STEERING.search(said)
    assert len(FORMATS["github"]([finding]).split("\n")) == 1


def test_a_newline_in_a_name_makes_no_second_finding() -> None:
    finding = diagnose("NKI104", "a message", span=Span(ODD, 1, 1, 1, 2))
    text = FORMATS["text"]([finding])
    assert not [line for line in text.split("\n") if line.startswith("error: ") and "NKI104" not in line]
    assert "a\\nerror: NKI901 forged\\x1b[31m\\u202e\\ud800\\x00\\r.py:1:1" in text


@given(ANY)
def test_what_is_printable_stays_and_the_rest_can_be_read_back(text: str) -> None:
    shown = printable(text)
    assert not STEERING.search(shown)
    assert "\n" not in on_one_line(text)
    if not STEERING.search(text) and shown == text:
        return
    assert "\\" in shown
    assert not STEERING.search(escape(text))


def test_letters_of_all_languages_stay_as_they_are() -> None:
    text = "Größe 大きさ размер حجم 🙂\tx\ny"
    assert printable(text) == text


# -- sources and notebooks ---------------------------------------------------------------------------------------------


def reported(name: str, content: bytes) -> tuple[Diagnostic, ...]:
    """The findings in a file of this content; each format prints them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        found = check_file(Job(file=str(path), target="trn2")).findings
        for write in FORMATS.values():
            print(write(found), file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), flush=True)
        assert "NKI901" not in {item.code for item in found}
        return found


@given(ANY | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
@example("import nki\n@nki.jit\ndef k(x):\n    y = lambda: '\ud800'\n")
@example("import nki\n@nki.jit\ndef k\u202e(x):\n    raise ValueError('\x1b[2J')\n")
def test_a_source_of_any_text_is_reported(text: str) -> None:
    reported("k.py", text.encode("utf-8", "surrogatepass"))


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY, inner, max_size=4),
    max_leaves=8,
)
CELL = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown"]) | JSON, "source": ANY | st.lists(ANY, max_size=3) | JSON}
)
NOTEBOOK = st.fixed_dictionaries({"cells": st.lists(CELL | JSON, max_size=4) | JSON, "metadata": JSON}) | JSON


@given(NOTEBOOK)
def test_a_notebook_of_any_json_is_reported(content: Any) -> None:
    reported("n.ipynb", json.dumps(content).encode())


def test_half_a_surrogate_pair_in_a_notebook_costs_one_finding_at_most() -> None:
    kernel = "import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n"
    cells = [{"cell_type": "code", "source": text} for text in (kernel, "s = '\ud800'", kernel)]
    found = reported("n.ipynb", json.dumps({"cells": cells}).encode())
    errors = [(item.code, item.file[-6:]) for item in found if item.severity == "error"]
    assert [item for item in errors if item[1] != "cell 2"] == [("NKI104", "cell 1"), ("NKI104", "cell 3")]
    assert len(errors) <= 3


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"cells": 3}', b'{"cells": [{"source": {}}]}']
)
def test_what_is_no_notebook_is_told(data: bytes) -> None:
    try:
        notebook_of(data, "n.ipynb")
    except NkiError as error:
        assert [item.code for item in error.diagnostics] == ["NKI018"]


def test_the_command_prints_a_file_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "k\n\x1b[31m\u202e\udcff.py"
    (tmp_path / name).write_text("import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    for kind in FORMATS:
        assert nki_lab_check(str(tmp_path), kind) == 1
        text = capsys.readouterr().out
        text.encode("utf-8")
        assert "\x1b" not in text
        assert "\u202e" not in text


def nki_lab_check(path: str, kind: str) -> int:
    from nki_lab.cli import main

    return main(["check", path, "--format", kind])


def test_an_error_of_a_kernel_prints_what_the_kernel_says(tmp_path: Path) -> None:
    finding = diagnose("NKI007", "the kernel raised ValueError: \x1b[2J\u202e", span=Span("k.py", 1, 1, 1, 2))
    assert str(nki_lab.NkiError([finding])).startswith("NKI007 the kernel raised ValueError: \\x1b[2J\\u202e\n")


def test_values_are_shown_as_python_writes_them_and_endless_ones_in_part() -> None:
    for value in ([1, (2, {3: "x"})], {4}, "a", 1.5, None, list(range(900))):
        assert shown(value) == repr(value)
    endless: Any = [0]
    for _ in range(200):
        endless = [endless, endless]
    circle: list[Any] = []
    circle.append(circle)
    for value in (endless, circle, {1: endless}, list(range(10**6))):
        assert len(shown(value)) < 1000


@pytest.mark.parametrize("line", ["t += NESTED", "t + NESTED", "nl.add(t, NESTED)", "nisa.memset(t, value=NESTED)"])
def test_a_value_without_end_is_told_in_part(line: str) -> None:
    source = (
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n"
        "NESTED = [0]\nfor _ in range(200):\n    NESTED = [NESTED, NESTED]\n"
        "@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)\n"
        f"    {line}\n    return x\n"
    )
    found = nki_lab.check("k.py", source=source)
    assert any(item.line == 11 for item in found)
    assert all(len(item.message) < 1500 for item in found)
