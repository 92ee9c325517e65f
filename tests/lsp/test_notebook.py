"""Notebooks: their cells are one module, and every finding stands in its cell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lsp.client import Client, codes, edit, place

IMPORTS = "%load_ext nki_lab\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt"
FAULTY = "%%nki --target trn2\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    '😀'; nisa.tensor_copy(dst=nl.load(x), src=x)\n    return x"


class Notebook:
    """A notebook in the editor."""

    def __init__(self, client: Client, name: str, *cells: str) -> None:
        self.client = client
        self.uri = f"file:///project/{name}.ipynb"
        self.version = 1
        texts = [self.item(number, text) for number, text in enumerate(cells)]
        document = {
            "uri": self.uri, "notebookType": "jupyter-notebook", "version": 1,
            "cells": [{"kind": 2, "document": item["uri"]} for item in texts],
        }  # fmt: skip
        client.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": texts})

    def cell(self, number: int) -> str:
        return f"vscode-notebook-cell:{self.uri}#{number}"

    def item(self, number: int, text: str) -> dict[str, Any]:
        return {"uri": self.cell(number), "languageId": "python", "version": 1, "text": text}

    def change(self, **cells: Any) -> None:
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        params = {"notebookDocument": document, "change": {"cells": cells}}
        self.client.notify("notebookDocument/didChange", params)

    def type(self, number: int, *changes: Any) -> None:
        events = [{"text": item} if isinstance(item, str) else edit(*item) for item in changes]
        document = {"uri": self.cell(number), "version": self.version + 1}
        self.change(textContent=[{"document": document, "changes": events}])

    def close(self, *numbers: int) -> None:
        cells = [{"uri": self.cell(number)} for number in numbers]
        self.client.notify(
            "notebookDocument/didClose", {"notebookDocument": {"uri": self.uri}, "cellTextDocuments": cells}
        )


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def test_names_of_earlier_cells_are_known(client: Client, name: str) -> None:
    notebook = Notebook(client, name, IMPORTS, "# a note", FAULTY)
    (found,) = client.until(notebook.cell(2), ["NKI201"])
    units = len("    '😀'; nisa.tensor_copy(dst=nl.load(x), src=".encode("utf-16-le")) // 2
    assert place(found) == (3, units, 3, units + 1)
    assert client.told(notebook.cell(0)) in ([], [{"uri": notebook.cell(0), "diagnostics": [], "version": 1}])


def test_typing_in_one_cell_mends_a_finding_in_another(client: Client, name: str) -> None:
    notebook = Notebook(
        client, name, IMPORTS, "SIZE = 999", "%%nki\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    return x[0:SIZE]"
    )
    (found,) = client.until(notebook.cell(2), ["NKI303"])
    assert place(found) == (3, 11, 3, 20)
    notebook.type(1, (0, 7, 0, 10, "6"), (0, 8, 0, 8, "4"))
    assert client.published(notebook.cell(2)) == []


def test_a_mistake_does_not_reach_beyond_its_cell(client: Client, name: str) -> None:
    notebook = Notebook(client, name, IMPORTS, 'text = """never closed', FAULTY, "x = (", "    y = 3")
    client.until(notebook.cell(2), ["NKI201"])
    for number, line in ((1, 0), (3, 0), (4, 0)):
        told = client.told(notebook.cell(number))[-1]["diagnostics"]
        assert [(item["code"], place(item)[0]) for item in told] == [("NKI101", line)]


def test_a_kernel_that_is_defined_again_is_checked_both_times(client: Client, name: str) -> None:
    call = "import numpy as np\nk(np.zeros((128, {}), np.float32))"
    first = "@nki.jit\ndef k(x):\n    return x[0:128, 0:100]"
    notebook = Notebook(client, name, IMPORTS, first, call.format(64), first.replace("100", "200"), call.format(128))
    (found,) = client.until(notebook.cell(3), ["NKI303"])
    assert "128" in found["message"]
    assert codes(client.told(notebook.cell(1))[-1]["diagnostics"]) == ["NKI303"]
    (related,) = found["relatedInformation"]
    assert related["location"]["uri"] == notebook.cell(4)
    assert related["location"]["range"]["start"] == {"line": 1, "character": 0}


def test_cells_come_and_go(client: Client, name: str) -> None:
    notebook = Notebook(client, name, IMPORTS, FAULTY)
    client.until(notebook.cell(1), ["NKI201"])
    new = {"kind": 2, "document": notebook.cell(7)}
    structure = {"array": {"start": 1, "deleteCount": 0, "cells": [new]}, "didOpen": [notebook.item(7, "y = (")]}
    notebook.change(structure=structure)
    assert codes(client.published(notebook.cell(7))) == ["NKI101"]
    assert place(client.until(notebook.cell(1), ["NKI201"])[0])[0] == 3
    gone = {"array": {"start": 2, "deleteCount": 1}, "didClose": [{"uri": notebook.cell(1)}]}
    notebook.change(structure=gone)
    assert client.published(notebook.cell(1)) == []


def test_hovers_and_hints_know_the_cells_above(client: Client, name: str) -> None:
    body = "%%nki\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    tile = nl.load(x)\n    return x"
    notebook = Notebook(client, name, IMPORTS, body)
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    client.pulled(notebook.cell(1))  # which waits for the evaluation
    hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": notebook.cell(1)}, "range": where})
    assert [(item["position"]["line"], item["label"]) for item in hints] == [(3, ": 128×64 float32 SBUF")]
    assert "(128, 64) float32 in SBUF" in client.hover(notebook.cell(1), 3, 5)
    assert "nl.load(src" in client.hover(notebook.cell(1), 3, 15)
    assert client.hover(notebook.cell(0), 0, 3) == ""


def test_a_closed_notebook_has_no_findings(client: Client, name: str) -> None:
    notebook = Notebook(client, name, IMPORTS, FAULTY)
    client.until(notebook.cell(1), ["NKI201"])
    notebook.close(0, 1)
    assert client.published(notebook.cell(1)) == []


def test_cells_that_an_extension_cut_out_miss_no_names(client: Client, uri: str) -> None:
    text = "@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    helper(x, LIMIT)\n    nisa.tensor_copy(dst=nl.load(x), src=x)\n    return x"
    client.open(uri, text, language="nki")
    (found,) = client.until(uri, ["NKI201"])
    assert place(found) == (3, 41, 3, 42)


CELL = """{}
@nki.jit
def {}(x: nt.tensor[128, 64]):
    t = nl.load(x)
    nisa.exponential(dst=t, src=t)
    nisa.dma_copy(dst=x, src=t)
    return x
"""


@pytest.mark.parametrize("option", ["--target trn2", "--strict --target=trn2 --no-view", "--target 'trn2'"])
def test_a_cell_is_checked_for_the_target_that_it_names(client: Client, name: str, option: str) -> None:
    cells = [IMPORTS, *(CELL.format(line, f"k{i}") for i, line in enumerate(("%%nki", f"%%nki {option}")))]
    notebook = Notebook(client, name, *cells)
    (found,) = client.until(notebook.cell(2), ["NKI209"])
    assert "NeuronCore-v3" in found["message"]
    assert client.told(notebook.cell(1)) in ([], [{"uri": notebook.cell(1), "diagnostics": [], "version": 1}])
    notebook.type(2, (0, 0, 0, len(f"%%nki {option}"), "%%nki"))
    assert client.published(notebook.cell(2)) == []
    notebook.type(1, (0, 0, 0, 5, f"%%nki {option}"))
    client.until(notebook.cell(1), ["NKI209"])


def test_a_target_that_does_not_exist_is_passed_over(client: Client, name: str) -> None:
    client.until(Notebook(client, name, IMPORTS, FAULTY.replace("trn2", "trn9")).cell(1), ["NKI201"])
