"""The texts that the editor has open: edits, notebooks, and where findings stand in them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp.convert import LINE_END, to_units
from nki_lab.lsp.texts import Module, Text, Texts, module_of, path_of

PIECES = st.sampled_from(["a", "\n", "\r\n", "\r", "😀", "é", "\t", "\x0c", "\u2028", " ", "日本"])


def item(text: str, uri: str = "file:///k.py", language: str = "python") -> lsp.TextDocumentItem:
    return lsp.TextDocumentItem(uri, language, 1, text)


def position(text: str, offset: int, encoding: str) -> lsp.Position:
    """The position of a character, worked out from the text before it."""
    before = LINE_END.split(text[:offset])
    return lsp.Position(len(before) - 1, to_units(before[-1], len(before[-1]), encoding))


@given(st.data(), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_typing_changes_the_text_as_in_the_editor(data: st.DataObject, encoding: str) -> None:
    expected = "".join(data.draw(st.lists(PIECES)))
    text = Text(item(expected))
    for version in range(2, 2 + data.draw(st.integers(1, 4))):
        changes: list[lsp.TextDocumentContentChangeEvent] = []
        for _ in range(data.draw(st.integers(1, 3))):
            offsets = [
                offset for offset in range(len(expected) + 1)
                if expected[offset - 1 : offset + 1] != "\r\n"  # there is no position between the two
            ]  # fmt: skip
            start, end = sorted(data.draw(st.tuples(st.sampled_from(offsets), st.sampled_from(offsets))))
            new = "".join(data.draw(st.lists(PIECES, max_size=4)))
            where = lsp.Range(position(expected, start, encoding), position(expected, end, encoding))
            changes.append(lsp.TextDocumentContentChangePartial(where, new))
            expected = expected[:start] + new + expected[end:]
        text.apply(version, changes, encoding)
        assert text.text == expected
        assert list(text.lines) == LINE_END.split(expected)
        assert text.version == version


def test_a_whole_text_replaces_the_old_one() -> None:
    text = Text(item("old"))
    text.apply(2, [lsp.TextDocumentContentChangeWholeDocument("new\n")], "utf-16")
    assert (text.text, list(text.lines)) == ("new\n", ["new", ""])


def test_a_name_that_is_replaced_in_many_places_takes_time_as_the_text_grows() -> None:
    def seconds(count: int) -> float:
        text = Text(item("old = 1\n" * count))
        places = (lsp.Range(lsp.Position(line, 0), lsp.Position(line, 3)) for line in reversed(range(count)))
        changes = [lsp.TextDocumentContentChangePartial(place, "new") for place in places]
        began = time.process_time()
        text.apply(2, changes, "utf-16")
        assert text.text == "new = 1\n" * count
        return time.process_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (1_000, 8_000))
    assert many < 24 * max(few, 0.002), (few, many)  # 64 times as long where each change reads the whole text


def test_a_reversed_range_is_turned_round() -> None:
    text = Text(item("abcdef"))
    where = lsp.Range(lsp.Position(0, 4), lsp.Position(0, 2))
    text.apply(2, [lsp.TextDocumentContentChangePartial(where, "-")], "utf-16")
    assert text.text == "ab-ef"


def range_tuple(location: lsp.Location | None) -> tuple[int, int, int, int]:
    assert location is not None
    start, end = location.range.start, location.range.end
    return start.line, start.character, end.line, end.character


def test_a_span_stands_where_the_editor_counts() -> None:
    module = module_of("file:///k.py", [Text(item("\tx = '😀'; y\r\nz"))], is_notebook=False)
    assert module.file == "/k.py"
    assert range_tuple(module.location(Span("/k.py", 1, 11, 1, 12), "utf-16")) == (0, 11, 0, 12)
    assert range_tuple(module.location(Span("/k.py", 1, 11, 1, 12), "utf-8")) == (0, 13, 0, 14)
    assert range_tuple(module.location(Span("/k.py", 1, 11, 1, 12), "utf-32")) == (0, 10, 0, 11)
    assert module.place("file:///k.py", lsp.Position(0, 11), "utf-16") == (1, 11)
    assert module.place("file:///k.py", lsp.Position(9, 0), "utf-16") is None
    assert module.place("file:///other.py", lsp.Position(0, 0), "utf-16") is None


def test_a_span_of_another_file_is_its_own_location() -> None:
    module = module_of("file:///k.py", [Text(item("x"))], is_notebook=False)
    location = module.location(Span("/other.py", 2, 3, 2, 5), "utf-16")
    assert location is not None
    assert location.uri == "file:///other.py"
    assert range_tuple(location) == (1, 2, 1, 4)
    assert module.location(Span("<source>", 2, 3, 2, 5), "utf-16") is None


def notebook(*cells: str) -> Module:
    texts = [Text(item(text, f"cell:{number}")) for number, text in enumerate(cells)]
    return module_of("file:///n.ipynb", texts, is_notebook=True)


def test_cells_stand_one_below_the_other() -> None:
    module = notebook("import nki", "%%nki\nx = 1\n", "y")
    assert module.lines == ("import nki", "", "x = 1", "", "y")
    assert module.text == "import nki\n\nx = 1\n\ny"
    location = module.location(Span("/n.ipynb", 3, 1, 3, 2), "utf-16")
    assert location is not None
    assert (location.uri, *range_tuple(location)) == ("cell:1", 1, 0, 1, 1)
    assert module.place("cell:2", lsp.Position(0, 1), "utf-16") == (5, 2)


def test_a_span_does_not_leave_its_cell() -> None:
    module = notebook("abc", "d")
    location = module.location(Span("/n.ipynb", 1, 2, 2, 1), "utf-16")
    assert location is not None
    assert (location.uri, *range_tuple(location)) == ("cell:0", 0, 1, 0, 3)


def test_a_text_cut_out_of_cells_knows_nki_s_usual_names() -> None:
    module = module_of("file:///n.ipynb.nki", [Text(item("%x\ny", language="nki"))], is_notebook=False)
    assert module.lines[0].startswith("from __other_cells__ import *")
    assert module.lines[1:] == ("pass", "y")
    assert range_tuple(module.location(Span(module.file, 3, 1, 3, 2), "utf-16")) == (1, 0, 1, 1)
    assert module.location(Span(module.file, 1, 1, 1, 2), "utf-16") is None


def test_names_that_a_magic_binds_are_not_missed() -> None:
    assert notebook("%run setup.py", "x").lines[0].startswith("from __other_cells__ import *")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c.py", "/a/b c.py"),
        ("file:///C:/a/b.py", "C:/a/b.py"),
        ("file:///c%3A/a.py", "c:/a.py"),
        ("file://host/share/a.py", "//host/share/a.py"),
        ("file://localhost/a/b.py", "/a/b.py"),
        ("file:///a/nul%00.py", ""),
        ("file://[a/b.py", ""),
        ("untitled:Untitled-1", ""),
        ("vscode-notebook-cell:/n.ipynb#X1", ""),
    ],
)
def test_uris_are_paths(uri: str, path: str) -> None:
    assert path_of(uri) == path


def cell(number: int, kind: lsp.NotebookCellKind = lsp.NotebookCellKind.Code) -> lsp.NotebookCell:
    return lsp.NotebookCell(kind, f"cell:{number}")


def opened() -> Texts:
    texts = Texts()
    document = lsp.NotebookDocument(
        "n", "jupyter-notebook", 1, [cell(0), cell(1, lsp.NotebookCellKind.Markup), cell(2)]
    )
    items = [item("a", "cell:0"), item("b", "cell:2")]
    texts.open_notebook(lsp.DidOpenNotebookDocumentParams(document, items))
    return texts


def change(**parts: object) -> lsp.DidChangeNotebookDocumentParams:
    cells = lsp.NotebookDocumentCellChanges(**parts)  # type: ignore[arg-type]
    return lsp.DidChangeNotebookDocumentParams(
        lsp.VersionedNotebookDocumentIdentifier(2, "n"), lsp.NotebookDocumentChangeEvent(cells=cells)
    )


def lines(texts: Texts) -> tuple[str, ...]:
    module = texts.module("n")
    assert module is not None
    return module.lines


def test_cells_come_and_go_and_move() -> None:
    texts = opened()
    assert lines(texts) == ("a", "b")
    assert texts.unit("cell:2") == "n"
    added = lsp.NotebookDocumentCellChangeStructure(
        lsp.NotebookCellArrayChange(1, 1, [cell(3)]), did_open=[item("c", "cell:3")]
    )
    texts.change_notebook(change(structure=added), "utf-16")
    assert lines(texts) == ("a", "c", "b")
    removed = lsp.NotebookDocumentCellChangeStructure(
        lsp.NotebookCellArrayChange(0, 1), did_close=[lsp.TextDocumentIdentifier("cell:0")]
    )
    texts.change_notebook(change(structure=removed), "utf-16")
    assert "cell:0" not in texts.texts
    assert lines(texts) == ("c", "b")
    moved = lsp.NotebookDocumentCellChangeStructure(lsp.NotebookCellArrayChange(0, 2, [cell(2), cell(3)]))
    texts.change_notebook(change(structure=moved), "utf-16")
    assert lines(texts) == ("b", "c")


def test_typing_in_a_cell_changes_the_module() -> None:
    texts = opened()
    where = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))
    typed = lsp.NotebookDocumentCellContentChanges(
        lsp.VersionedTextDocumentIdentifier(5, "cell:2"), [lsp.TextDocumentContentChangePartial(where, "x\ny")]
    )
    texts.change_notebook(change(text_content=[typed]), "utf-16")
    assert lines(texts) == ("a", "x", "y")
    assert texts.texts["cell:2"].version == 5


def test_a_cell_that_becomes_a_note_is_no_code() -> None:
    texts = opened()
    texts.change_notebook(change(data=[cell(0, lsp.NotebookCellKind.Markup)]), "utf-16")
    assert lines(texts) == ("b",)
    texts.change_notebook(change(data=[cell(0)]), "utf-16")
    assert lines(texts) == ("a", "b")


def test_a_cell_that_is_closed_and_opened_at_once_is_open() -> None:
    texts = opened()
    again = lsp.NotebookDocumentCellChangeStructure(
        lsp.NotebookCellArrayChange(0, 1, [cell(0)]),
        did_open=[item("c", "cell:0")],
        did_close=[lsp.TextDocumentIdentifier("cell:0")],
    )
    texts.change_notebook(change(structure=again), "utf-16")
    assert lines(texts) == ("c", "b")
    assert texts.unit("cell:0") == "n"


def test_a_closed_notebook_is_forgotten() -> None:
    texts = opened()
    assert texts.close_notebook("n") == ["cell:0", "cell:1", "cell:2"]
    assert texts.module("n") is None
    assert texts.texts == {}
    assert texts.close_notebook("n") == []
