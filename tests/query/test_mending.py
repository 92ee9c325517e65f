"""The edits that mend findings."""

from __future__ import annotations

import pytest

from nki_lab import query

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    tile = nl.load(x)\n"


def mended(line: str, head: str = HEAD) -> list[str]:
    """The line after each of the edits that are offered for it."""
    source = f"{head}    {line}\n    return x\n"
    lines = source.split("\n")
    out = []
    for found in query.check(source=source, target="trn2"):
        for edit in query.quick_fixes(found, lines):
            text = lines[edit.span.line - 1]
            out.append((text[: edit.span.column - 1] + edit.text + text[edit.span.end_column - 1 :]).strip())
    return out


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("y = tlie + 1", "y = tile + 1"),
        ("'😀'; nisa.tensor_copy(dst=tile, srcc=tile)", "'😀'; nisa.tensor_copy(dst=tile, src=tile)"),
        ("nisa.tensor_cpy(dst=tile, src=tile)", "nisa.tensor_copy(dst=tile, src=tile)"),
        ("t = nl.ndaray((3, 4), nl.float32)", "t = nl.ndarray((3, 4), nl.float32)"),
        ("t = nl.ndarray((3, 4), nl.floot32)", "t = nl.ndarray((3, 4), nl.float32)"),
        ("t = nl.ndarray((3, 4), 'flot32')", "t = nl.ndarray((3, 4), 'float32')"),
        ("t = tile.reshpe((64, 128))", "t = tile.reshape((64, 128))"),
        ("t = 1 is 2", "t = 1 == 2"),
        ("t = 1 is not 2", "t = 1 != 2"),
    ],
)
def test_the_likeliest_edit_comes_first(line: str, first: str) -> None:
    assert mended(line)[0] == first


def test_a_list_default_becomes_a_tuple() -> None:
    source = "import nki\n@nki.jit\ndef k(x, pads=[1], more=[1, 2], none=[]):\n    return x\n"
    edits = [query.quick_fixes(item, source.split("\n")) for item in query.check(source=source, target="trn2")]
    assert [edit.text for part in edits for edit in part] == ["(1,)", "(1, 2)", "()"]


@pytest.mark.parametrize("line", ["nisa.tensor_copy(dst=tile, src=x)", "i = nl.arange(128)", "y = zzzzzz", "y = ("])
def test_where_the_remedy_is_not_one_word_nothing_is_offered(line: str) -> None:
    assert mended(line) == []


def test_an_edit_is_sure_where_there_is_one() -> None:
    source = f"{HEAD}    y = tlie + 1\n    t = nl.ndarray((3, 4), nl.floot32)\n    return x\n"
    found = query.check(source=source, target="trn2")
    assert [query.quick_fixes(item, source.split("\n"))[0].sure for item in found] == [True, False]
