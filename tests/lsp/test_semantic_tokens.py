"""Colours of names over the wire: whole, of some lines, as changes; in cells, half-typed texts and all encodings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lsp.client import Client, connect
from tests.lsp.test_notebook import Notebook
from tests.lsp.test_server import HEAD

REFRESHED = {"workspace": {"semanticTokens": {"refreshSupport": True}}}
KERNEL = f"""{HEAD}@nki.jit
def k(x: nt.tensor[128, 64], n=2):
    tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    r = nisa.register_alloc(n)
    for i in range(n):
        nisa.dma_copy(dst=tile, src=x)
        helper(tile)
    return x


def helper(tile):
    sums = nl.ndarray((128, 64), nl.float32, nl.psum)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_copy(dst=tile, src=tile, engine=nisa.vector_engine)
"""


@pytest.fixture(scope="module")
def painter() -> Iterator[tuple[Client, dict[str, Any]]]:
    """An editor that draws colours, with the server's legend."""
    client = connect()
    legend = client.initialize(REFRESHED)["semanticTokensProvider"]
    assert legend["full"] == {"delta": True}
    assert legend["range"] is True
    yield client, legend["legend"]
    assert client.leave() == 0


Painter = tuple[Client, dict[str, Any]]
Shown = list[tuple[int, str, str]]


def decoded(data: list[int], text: str, legend: dict[str, Any], unit: str = "utf-16-le", size: int = 2) -> Shown:
    """Lines, names, and types with their modifiers."""
    lines, found = text.split("\n"), []
    line = start = 0
    for delta, step, length, kind, bits in zip(*(iter(data),) * 5, strict=True):
        line, start = line + delta, step if delta else start + step
        name = lines[line].encode(unit)[start * size : (start + length) * size].decode(unit)
        modifiers = [item for number, item in enumerate(legend["tokenModifiers"]) if bits >> number & 1]
        found.append((line, name, " ".join([legend["tokenTypes"][kind], *modifiers])))
    return found


def full(client: Client, uri: str) -> dict[str, Any]:
    """The tokens of a text, once its kernels are evaluated."""
    client.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})  # which waits longest
    return dict(client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}}))


def whole(first: int = 0, last: int = 1000) -> dict[str, Any]:
    """A range of lines."""
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}


def line_of(text: str, part: str) -> int:
    """The first line that contains a part."""
    return next(number for number, line in enumerate(text.split("\n")) if part in line)


def test_names_are_told_apart(painter: Painter, uri: str) -> None:
    client, legend = painter
    client.open(uri, KERNEL)
    found = decoded(full(client, uri)["data"], KERNEL, legend)
    here = {(line, name): kind for line, name, kind in found}

    def at(part: str, name: str) -> str:
        return here[line_of(KERNEL, part), name]

    assert at("def k", "k") == "function declaration kernel"
    assert at("def k", "x") == "parameter declaration hbm"
    assert at("def k", "n") == "parameter declaration compileTime"
    assert at("tile = nl", "tile") == "variable declaration sbuf"
    assert at("tile = nl", "nl") == "namespace defaultLibrary"
    assert at("tile = nl", "float32") == "type defaultLibrary"
    assert at("tile = nl", "sbuf") == "variable defaultLibrary sbuf compileTime"
    assert at("r = ", "r") == "variable declaration register"
    assert at("for i", "i") == "variable declaration compileTime"
    assert at("dma_copy", "dma_copy") == "function defaultLibrary dma"
    assert at("dma_copy", "tile") == "variable sbuf"
    assert at("dma_copy", "x") == "parameter hbm"
    assert at("helper(tile)", "helper") == "function helper"
    assert at("def helper", "helper") == "function declaration helper"
    assert at("sums =", "sums") == "variable declaration psum"
    assert at("activation", "activation") == "function defaultLibrary scalarEngine"
    assert at("activation", "tile") == "parameter sbuf"
    assert at("tensor_copy", "tensor_copy") == "function defaultLibrary vectorEngine"


def test_places_are_in_order_and_apart(painter: Painter, uri: str) -> None:
    client, legend = painter
    client.open(uri, KERNEL)
    data = full(client, uri)["data"]
    ends: dict[int, int] = {}
    line = start = 0
    for delta, step, length, _, _ in zip(*(iter(data),) * 5, strict=True):
        line, start = line + delta, step if delta else start + step
        assert start >= ends.get(line, 0)
        ends[line] = start + length
    assert len(legend["tokenModifiers"]) < 32


def test_memory_is_known_without_shapes_and_while_something_is_typed(painter: Painter, uri: str) -> None:
    client, legend = painter
    text = KERNEL.replace(": nt.tensor[128, 64]", "").replace(
        "    return x\n", "    made = nl.exp(tile[\n    return x\n"
    )
    client.open(uri, text)
    found = decoded(full(client, uri)["data"], text, legend)
    assert (line_of(text, "tile = "), "tile", "variable declaration sbuf") in found
    assert (line_of(text, "dma_copy"), "tile", "variable sbuf") in found
    assert (line_of(text, "dma_copy"), "dma_copy", "function defaultLibrary dma") in found


def test_aliases_count_and_other_modules_do_not(painter: Painter, uri: str) -> None:
    client, legend = painter
    text = """from nki import jit
from nki.isa import dma_copy as move
import nki.language as lang
import other as nl


@jit
def k(x):
    move(dst=x, src=x)
    nl.load(x)
    lang.load(x)
"""
    client.open(uri, text)
    found = decoded(full(client, uri)["data"], text, legend)
    assert (8, "move", "function defaultLibrary dma") in found
    assert [(line, name) for line, name, _ in found if line >= 9] == [(9, "x"), (10, "lang"), (10, "load"), (10, "x")]


def test_beta1_is_coloured_too(painter: Painter, uri: str) -> None:
    client, legend = painter
    text = """from neuronxcc import nki
import neuronxcc.nki.language as nl


@nki.jit
def k(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile)
    return out
"""
    client.open(uri, text)
    found = decoded(full(client, uri)["data"], text, legend)
    assert (5, "k", "function declaration kernel") in found
    assert (6, "out", "variable declaration hbm") in found
    assert (7, "tile", "variable declaration sbuf") in found
    assert (7, "load", "function defaultLibrary dma") in found or (7, "load", "function defaultLibrary") in found


def test_some_lines_have_the_same_tokens(painter: Painter, uri: str) -> None:
    client, legend = painter
    client.open(uri, KERNEL)
    everything = decoded(full(client, uri)["data"], KERNEL, legend)
    asked = {"textDocument": {"uri": uri}, "range": whole(8, 10)}
    part = client.request("textDocument/semanticTokens/range", asked)["data"]
    assert decoded(part, KERNEL, legend) == [item for item in everything if 8 <= item[0] <= 10]


def test_changes_lead_to_the_new_answer(painter: Painter, uri: str) -> None:
    client, _ = painter
    client.open(uri, KERNEL)
    first = full(client, uri)
    client.change(uri, (8, 0, 8, 0, "    twin = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)\n"))
    client.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    asked = {"textDocument": {"uri": uri}, "previousResultId": first["resultId"]}
    found = client.request("textDocument/semanticTokens/full/delta", asked)
    data = list(first["data"])
    for edit in found["edits"]:
        data[edit["start"] : edit["start"] + edit["deleteCount"]] = edit.get("data") or []
        assert len(edit.get("data") or []) < len(data) // 2
    last = full(client, uri)
    assert data == last["data"]
    again = {"textDocument": {"uri": uri}, "previousResultId": last["resultId"]}
    assert client.request("textDocument/semanticTokens/full/delta", again)["edits"] == []
    assert "data" in client.request("textDocument/semanticTokens/full/delta", asked)  # of an older answer


def test_early_colours_are_asked_for_again(painter: Painter, uri: str) -> None:
    client, legend = painter
    text = KERNEL.replace("range(n)", "range(5000)")
    client.open(uri, text)
    client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})
    client.receive(lambda item: item.get("method") == "workspace/semanticTokens/refresh")
    found = client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})
    assert (line_of(text, "r = "), "r", "variable declaration register") in decoded(found["data"], text, legend)


def test_a_text_that_is_not_open_has_no_colours(painter: Painter) -> None:
    client, _ = painter
    asked = {"textDocument": {"uri": "file:///nowhere.py"}}
    assert client.request("textDocument/semanticTokens/full", asked)["data"] == []


def test_each_cell_has_its_own_colours(painter: Painter) -> None:
    client, legend = painter
    cell = "%%nki --target trn2\n" + KERNEL[len(HEAD) :].replace("nt.tensor", "nki.typing.tensor")
    notebook = Notebook(client, "colours", HEAD, cell)
    client.request("textDocument/diagnostic", {"textDocument": {"uri": notebook.cell(1)}})
    for number, text in ((0, HEAD), (1, cell)):
        asked = {"textDocument": {"uri": notebook.cell(number)}}
        found = client.request("textDocument/semanticTokens/full", asked)["data"]
        shown = decoded(found, text, legend)
        assert bool(shown) == bool(number)
        assert all(name.isidentifier() for _, name, _ in shown)
        if number:
            assert (3, "tile", "variable declaration sbuf") in shown


@pytest.mark.parametrize(("encoding", "unit", "size"), [("utf-8", "utf-8", 1), ("utf-32", "utf-32-le", 4)])
def test_places_are_in_the_editor_s_units(encoding: str, unit: str, size: int) -> None:
    client = connect()
    legend = client.initialize({"general": {"positionEncodings": [encoding]}})["semanticTokensProvider"]["legend"]
    text = KERNEL.replace("    for i", "    s = '😀é'; für = tile; nisa.memset(für, 0.0)\n    for i")
    client.open("file:///k.py", text)
    found = decoded(full(client, "file:///k.py")["data"], text, legend, unit, size)
    assert (line_of(text, "😀"), "für", "variable sbuf") in found
    assert (line_of(text, "😀"), "memset", "function defaultLibrary vectorEngine") in [
        (line, name, kind.replace("gpsimdEngine", "vectorEngine")) for line, name, kind in found
    ]
    assert client.leave() == 0
