"""Navigation with a real client: places, renames, symbols, folds, selections and calls, across files and cells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PUSHED, Client, connect
from tests.lsp.test_notebook import Notebook

HELPERS = """import nki.isa as nisa
import nki.language as nl

WIDTH = 512


def loaded(source, dtype=nl.float32):
    tile = nl.ndarray(source.shape, dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile
"""
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

import helpers
from helpers import loaded


@nki.jit
def doubled(x: nt.tensor[(128, 512), nl.bfloat16]):
    '😀'; result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = loaded(x, dtype=x.dtype)
    for i in nl.affine_range(2):
        nisa.tensor_tensor(
            dst=tile, data1=tile, data2=tile, op=nl.add
        )
    nisa.dma_copy(dst=result[:, 0:helpers.WIDTH], src=tile)
    return result
"""
SYMBOLS = {"textDocument": {**PUSHED["textDocument"], "documentSymbol": {"hierarchicalDocumentSymbolSupport": True}}}


class Project:
    """Two files, of which the kernel's is open."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.client = client
        self.helpers, self.kernel = folder / "helpers.py", folder / "kernel.py"
        (folder / "pyproject.toml").write_text("", encoding="utf-8")
        self.helpers.write_text(HELPERS, encoding="utf-8")
        self.kernel.write_text(KERNEL, encoding="utf-8")
        self.uri = self.kernel.as_uri()
        client.open(self.uri, KERNEL)

    def at(self, method: str, text: str, *, line: str = "", uri: str = "", **more: Any) -> Any:
        """Ask about the first place of a text, on the first line that has another."""
        return self.client.request(f"textDocument/{method}", self.place(text, line, uri) | more)

    def place(self, text: str, line: str = "", uri: str = "") -> dict[str, Any]:
        source = (HELPERS if uri else KERNEL).split("\n")
        number = next(i for i, item in enumerate(source) if (line or text) in item)
        column = len(source[number][: source[number].index(text)].encode("utf-16-le")) // 2
        position = {"line": number, "character": column}
        return {"textDocument": {"uri": uri or self.uri}, "position": position}

    def texts(self, places: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
        """Return file, line and text of places."""
        return [(Path(item["uri"]).name, *self.spelled(item["uri"], item["range"])) for item in places]

    def spelled(self, uri: str, where: dict[str, Any]) -> tuple[int, str]:
        lines = (HELPERS if uri.endswith("helpers.py") else KERNEL).split("\n")
        line = lines[where["start"]["line"]].encode("utf-16-le")
        start, end = where["start"]["character"] * 2, where["end"]["character"] * 2
        return where["start"]["line"], line[start:end].decode("utf-16-le")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    client = connect()
    client.initialize(SYMBOLS)
    yield Project(tmp_path_factory.mktemp("project"), client)
    assert client.leave() == 0


def test_a_definition_is_found_in_the_imported_module(project: Project) -> None:
    found = project.at("definition", "loaded", line="tile = loaded")
    assert project.texts(found) == [("helpers.py", 6, "loaded")]
    assert project.texts(project.at("definition", "WIDTH")) == [("helpers.py", 3, "WIDTH")]
    assert project.texts(project.at("definition", "dtype=x", line="tile = loaded")) == [("helpers.py", 6, "dtype")]
    assert project.texts(project.at("definition", "result[")) == [("kernel.py", 11, "result")]


def test_a_declaration_is_the_import(project: Project) -> None:
    found = project.at("declaration", "loaded", line="tile = loaded")
    assert project.texts(found) == [("kernel.py", 6, "loaded")]


def test_a_type_definition_is_the_class(project: Project) -> None:
    text = "import nki\nclass Config:\n    size: int = 3\n\ndef f(c: Config):\n    return c.size\n"
    uri = (project.kernel.parent / "typed.py").as_uri()
    project.client.open(uri, text)
    place = {"textDocument": {"uri": uri}, "position": {"line": 5, "character": 11}}
    (found,) = project.client.request("textDocument/typeDefinition", place)
    assert found["range"]["start"] == {"line": 1, "character": 6}
    place["position"] = {"line": 5, "character": 14}
    (found,) = project.client.request("textDocument/definition", place)
    assert found["range"]["start"] == {"line": 2, "character": 4}
    project.client.shut(uri)


def test_references_are_found_in_other_files(project: Project) -> None:
    found = project.at("references", "loaded", line="tile = loaded", context={"includeDeclaration": True})
    wanted = [("helpers.py", 6, "loaded"), ("kernel.py", 6, "loaded"), ("kernel.py", 12, "loaded")]
    assert project.texts(found) == wanted
    fewer = project.at("references", "loaded", line="tile = loaded", context={"includeDeclaration": False})
    assert project.texts(fewer) == wanted[1:]


def test_highlights_tell_reads_from_writes(project: Project) -> None:
    found = project.at("documentHighlight", "result", line="result = nl")
    assert [(item["range"]["start"]["line"], item["kind"]) for item in found] == [(11, 3), (17, 2), (18, 2)]
    assert found[0]["range"]["start"]["character"] == 10


def test_a_rename_reaches_other_files_and_keywords(project: Project) -> None:
    prepared = project.at("prepareRename", "loaded", line="tile = loaded")
    assert prepared["placeholder"] == "loaded"
    edit = project.at("rename", "loaded", line="tile = loaded", newName="fetched")["changes"]
    assert {Path(uri).name: len(edits) for uri, edits in edit.items()} == {"helpers.py": 1, "kernel.py": 2}
    edit = project.at("rename", "dtype=x", line="tile = loaded", newName="kind")["changes"]
    found = [(Path(uri).name, *project.spelled(uri, item["range"])) for uri, edits in edit.items() for item in edits]
    assert sorted(found) == [("helpers.py", 6, "dtype"), ("helpers.py", 7, "dtype"), ("kernel.py", 12, "dtype")]


@pytest.mark.parametrize(
    ("text", "new", "reason"),
    [
        ("affine_range", "x", "nki.language.affine_range is a name of NKI"),
        ("tile = ", "result", "is bound in the same scope already"),
        ("tile = ", "for", "is a keyword"),
        ("tile = ", "2x", "is no name in Python"),
        ("tile = ", "len", "is a builtin"),
        ("shape", "form", "not known here"),
    ],
)
def test_a_rename_that_would_change_the_program_is_refused(project: Project, text: str, new: str, reason: str) -> None:
    number = project.client.ask("textDocument/rename", project.place(text) | {"newName": new})
    error = project.client.answer(number)["error"]
    assert error["code"] == -32803
    assert reason in error["message"]
    assert error["message"].startswith("NKI033 ")


def test_symbols_show_kernels_and_tensors_with_their_shapes(project: Project) -> None:
    project.client.pulled(project.uri)
    found = project.client.request("textDocument/documentSymbol", {"textDocument": {"uri": project.uri}})
    (kernel,) = (item for item in found if item["name"] == "doubled")
    assert kernel["detail"] == "kernel, @nki.jit"
    inside = {item["name"]: item["detail"] for item in kernel["children"]}
    assert inside["tile"] == "128×512 bfloat16 SBUF"
    assert inside["result"] == "128×512 bfloat16 HBM"
    assert kernel["range"]["start"]["line"] == 9


def test_workspace_symbols_are_found_by_some_of_their_letters(project: Project) -> None:
    found = project.client.request("workspace/symbol", {"query": "ldd"})
    assert [(item["name"], Path(item["location"]["uri"]).name) for item in found] == [("loaded", "helpers.py")]
    names = [item["name"] for item in project.client.request("workspace/symbol", {"query": ""})]
    assert names[0] == "doubled"
    assert "loaded" in names


def test_folds_are_functions_loops_calls_and_imports(project: Project) -> None:
    found = project.client.request("textDocument/foldingRange", {"textDocument": {"uri": project.uri}})
    assert [(item["startLine"], item["endLine"], item.get("kind")) for item in found] == [
        (0, 6, "imports"), (10, 18, None), (13, 16, None), (14, 16, None),
    ]  # fmt: skip


def test_selections_grow_from_a_name_to_the_module(project: Project) -> None:
    place = project.place("data2=tile")
    place["positions"] = [place.pop("position")]
    (chain,) = project.client.request("textDocument/selectionRange", place)
    spans = []
    while chain:
        start, end = chain["range"]["start"], chain["range"]["end"]
        spans.append((start["line"], start["character"], end["line"], end["character"]))
        chain = chain.get("parent")
    assert spans[0] == (15, 34, 15, 39)
    assert spans[-1] == (0, 0, 19, 0)
    assert (13, 4, 16, 9) in spans  # the loop
    assert all(outer[:2] <= inner[:2] and inner[2:] <= outer[2:] for inner, outer in pairwise(spans))


def test_calls_are_followed_both_ways_with_their_shapes(project: Project) -> None:
    project.client.pulled(project.uri)
    (item,) = project.at("prepareCallHierarchy", "loaded", line="tile = loaded")
    assert (item["name"], Path(item["uri"]).name) == ("loaded", "helpers.py")
    (caller,) = project.client.request("callHierarchy/incomingCalls", {"item": item})
    assert caller["from"]["name"] == "doubled"
    assert caller["from"]["detail"] == "passes x: 128×512 bfloat16 HBM"
    assert [place["start"] for place in caller["fromRanges"]] == [{"line": 12, "character": 11}]
    (kernel,) = project.at("prepareCallHierarchy", "doubled")
    assert kernel["detail"] == "x: 128×512 bfloat16 HBM"
    (called,) = project.client.request("callHierarchy/outgoingCalls", {"item": kernel})
    assert called["to"]["name"] == "loaded"
    assert called["to"]["detail"] == "x: 128×512 bfloat16 HBM"


def test_nothing_is_said_of_files_without_nki(project: Project) -> None:
    uri = (project.kernel.parent / "plain.py").as_uri()
    project.client.open(uri, "import os\n\ndef f(x):\n    return x\n")
    place = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 4}}
    for method in ("definition", "documentHighlight", "documentSymbol", "foldingRange", "prepareRename"):
        assert project.client.request(f"textDocument/{method}", place) is None
    project.client.shut(uri)


def test_unsaved_texts_are_used(project: Project) -> None:
    uri = project.helpers.as_uri()
    project.client.open(uri, "# moved\n" + HELPERS)
    (found,) = project.at("definition", "loaded", line="tile = loaded")
    assert found["range"]["start"]["line"] == 7
    project.client.shut(uri)


def test_a_half_typed_line_knows_its_names(project: Project) -> None:
    uri = (project.kernel.parent / "half.py").as_uri()
    text = KERNEL.replace("    return result\n", "    nisa.tensor_copy(dst=tile, src=(result\n    return result\n")
    project.client.open(uri, text)
    line = text.split("\n").index("    nisa.tensor_copy(dst=tile, src=(result")
    place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 36}}
    (found,) = project.client.request("textDocument/definition", place)
    assert found["range"]["start"] == {"line": 11, "character": 10}
    place["newName"] = "outcome"
    error = project.client.answer(project.client.ask("textDocument/rename", place))["error"]
    assert "is no Python yet" in error["message"]
    project.client.shut(uri)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
def test_positions_are_in_the_units_of_the_editor(encoding: str) -> None:
    client = connect()
    client.initialize({"general": {"positionEncodings": [encoding]}, **PUSHED})
    client.open("file:///k.py", KERNEL)
    line = KERNEL.split("\n")[11]
    units = len(line[: line.index("result")].encode()) if encoding == "utf-8" else line.index("result")
    place = {"textDocument": {"uri": "file:///k.py"}, "position": {"line": 11, "character": units}}
    found = client.request("textDocument/documentHighlight", place)
    assert found[0]["range"]["start"]["character"] == units
    assert len(found) == 3
    assert client.leave() == 0


def test_cells_of_a_notebook_share_their_names(project: Project) -> None:
    notebook = Notebook(
        project.client,
        "navigated",
        "%load_ext nki_lab\nimport nki\nimport nki.language as nl\nSIZE = 3",
        "%%nki\n@nki.jit\ndef k(x):\n    return helper(x, SIZE)",
        "def helper(x, n):\n    '😀'; return x[0:SIZE]",
    )
    place = {"textDocument": {"uri": notebook.cell(1)}, "position": {"line": 3, "character": 12}}
    (found,) = project.client.request("textDocument/definition", place)
    assert (found["uri"], found["range"]["start"]) == (notebook.cell(2), {"line": 0, "character": 4})
    place["position"]["character"] = 22
    edit = project.client.request("textDocument/rename", place | {"newName": "COUNT"})["changes"]
    assert {uri: [item["range"]["start"] for item in edits] for uri, edits in edit.items()} == {
        notebook.cell(0): [{"line": 3, "character": 0}],
        notebook.cell(1): [{"line": 3, "character": 21}],
        notebook.cell(2): [{"line": 1, "character": 21}],
    }
    symbols = project.client.request("textDocument/documentSymbol", {"textDocument": {"uri": notebook.cell(2)}})
    assert [item["name"] for item in symbols] == ["helper"]
    folds = project.client.request("textDocument/foldingRange", {"textDocument": {"uri": notebook.cell(1)}})
    assert [(item["startLine"], item["endLine"]) for item in folds] == [(2, 3)]
    notebook.close(0, 1, 2)


def test_beta1_kernels_are_navigated_too(project: Project) -> None:
    text = (
        "from neuronxcc import nki\nimport neuronxcc.nki.language as nl\n\n@nki.jit\ndef k(x):\n"
        "    tile = nl.load(x)\n    return tile\n"
    )
    uri = (project.kernel.parent / "old.py").as_uri()
    project.client.open(uri, text)
    place = {"textDocument": {"uri": uri}, "position": {"line": 6, "character": 12}}
    (found,) = project.client.request("textDocument/definition", place)
    assert found["range"]["start"] == {"line": 5, "character": 4}
    symbols = project.client.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert [(item["name"], item["detail"]) for item in symbols] == [("k", "kernel, @nki.jit")]
    project.client.shut(uri)
