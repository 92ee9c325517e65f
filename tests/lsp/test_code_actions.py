"""Code actions: of the kinds asked for, one fix for a finding, all fixes for a file, edits when they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nki_lab.cli.checking import Job, check_file
from tests.lsp.client import PULLING, Client, codes, connect, edited
from tests.lsp.test_server import BETA1, FAULTY

LAZY: dict[str, Any] = PULLING | {
    "textDocument": PULLING["textDocument"] | {"codeAction": {"resolveSupport": {"properties": ["edit"]}}}
}
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n"
BODY = """
@nki.jit
def kernel(x: nt.tensor[128, 64], pads=[1]):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x, dge_mode=3)  # 😀
    for i in nl.affine_range(2):
        nisa.dma_copy(dst=t, src=x, dge_mode=2)
    for i in nl.affine_range(2):
        "😀"; nisa.dma_copy(dst=out, src=t, dge_mode=3)
    return out
"""
SOURCE = HEAD + BODY
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}


@pytest.fixture(scope="module")
def lazy() -> Iterator[Client]:
    client = connect()
    client.initialize(LAZY)
    yield client
    assert client.leave() == 0


@pytest.fixture(scope="module")
def eager() -> Iterator[Client]:
    """An editor that takes actions as they come."""
    client = connect()
    client.initialize(PULLING)
    yield client
    assert client.leave() == 0


def actions(client: Client, uri: str, found: list[Any], only: list[str] | None = None) -> list[dict[str, Any]]:
    context: dict[str, Any] = {"diagnostics": found} | ({} if only is None else {"only": only})
    params = {"textDocument": {"uri": uri}, "range": WHOLE, "context": context}
    return list(client.request("textDocument/codeAction", params))


def fixed_by_the_command(text: str, folder: Path) -> str:
    file = folder / "module.py"
    file.write_bytes(text.encode())
    check_file(Job(file=str(file), target="trn3", fixes=True, writes=True))
    return file.read_bytes().decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fixing_all_is_what_the_command_does(lazy: Client, uri: str, end: str, tmp_path: Path) -> None:
    text = SOURCE.replace("\n", end)
    lazy.open(uri, text)
    lazy.pulled(uri)
    (action,) = actions(lazy, uri, [], ["source.fixAll.nki"])
    assert action["kind"] == "source.fixAll.nki"
    assert "edit" not in action
    made = lazy.request("codeAction/resolve", action)
    after = edited(text, made["edit"]["changes"][uri])
    assert after == fixed_by_the_command(text, tmp_path) != text
    lazy.change(uri, after)
    lazy.pulled(uri)
    assert actions(lazy, uri, [], ["source.fixAll"]) == []


def test_an_editor_that_resolves_nothing_gets_the_edits_at_once(eager: Client, uri: str, tmp_path: Path) -> None:
    eager.open(uri, SOURCE)
    eager.pulled(uri)
    (action,) = actions(eager, uri, [], ["source.fixAll"])
    assert edited(SOURCE, action["edit"]["changes"][uri]) == fixed_by_the_command(SOURCE, tmp_path)
    eager.open(f"{uri}1", BETA1)
    eager.pulled(f"{uri}1")
    (action,) = actions(eager, f"{uri}1", [], ["source.migrate"])
    assert "neuronxcc" not in edited(BETA1, action["edit"]["changes"][f"{uri}1"])


def test_a_fix_that_brings_an_error_along_is_left_out(lazy: Client, uri: str, tmp_path: Path) -> None:
    """A list as default may be appended to: the tuple may not."""
    text = HEAD + BODY.replace("    return out", "    pads.append(2)\n    return out")
    lazy.open(uri, text)
    lazy.pulled(uri)
    (action,) = actions(lazy, uri, [], ["source.fixAll"])
    after = edited(text, lazy.request("codeAction/resolve", action)["edit"]["changes"][uri])
    assert after == fixed_by_the_command(text, tmp_path)
    assert "pads=[1]" in after and "dge_mode=3" not in after


def test_an_offer_for_an_older_text_is_an_error_or_for_the_newest(lazy: Client, uri: str) -> None:
    lazy.open(uri, SOURCE)
    lazy.pulled(uri)
    (action,) = actions(lazy, uri, [], ["source.fixAll"])
    lazy.change(uri, (0, 0, 0, 0, "# one line more\n"))
    made = lazy.request("codeAction/resolve", action)
    text = "# one line more\n" + SOURCE
    assert edited(text, made["edit"]["changes"][uri]).startswith("# one line more\nimport nki\n")
    lazy.shut(uri)
    refused = lazy.answer(lazy.ask("codeAction/resolve", action))["error"]
    assert refused["code"] == -32801
    assert "ask for it again" in refused["message"]


@pytest.mark.parametrize(
    ("only", "kinds"),
    [
        (None, {"quickfix", "source.fixAll.nki"}),
        ([""], {"quickfix", "source.fixAll.nki"}),
        (["quickfix"], {"quickfix"}),
        (["source"], {"source.fixAll.nki"}),
        (["source.fixAll"], {"source.fixAll.nki"}),
        (["source.fixAll.nki"], {"source.fixAll.nki"}),
        (["source.fixAll.nki.more"], set()),
        (["source.fixAl"], set()),
        (["source.organizeImports"], set()),
        (["refactor"], set()),
        (["quickfix.other"], set()),
        ([], set()),
        (["refactor", "quickfix", "source"], {"quickfix", "source.fixAll.nki"}),
    ],
)
def test_actions_are_of_the_kinds_asked_for(lazy: Client, uri: str, only: list[str] | None, kinds: set[str]) -> None:
    lazy.open(uri, SOURCE)
    found = lazy.pulled(uri)["items"]
    assert {item["kind"] for item in actions(lazy, uri, found, only)} == kinds


def test_a_file_of_beta_1_is_migrated_when_that_is_asked_for(lazy: Client, uri: str) -> None:
    lazy.open(uri, BETA1)
    lazy.pulled(uri)
    for only in (["source"], ["source.migrate"], ["source.migrate.nki"]):
        (action,) = [item for item in actions(lazy, uri, [], only) if item["kind"] == "source.migrate.nki"]
        assert "edit" not in action
    changes = lazy.request("codeAction/resolve", action)["edit"]["changes"]
    assert "neuronxcc" not in edited(BETA1, changes[uri])
    assert "source.migrate.nki" not in {item["kind"] for item in actions(lazy, uri, [], ["source.fixAll"])}


def test_nothing_is_offered_where_nothing_has_one_remedy(lazy: Client, uri: str) -> None:
    lazy.open(uri, FAULTY)
    lazy.pulled(uri)
    assert actions(lazy, uri, [], ["source"]) == []
    assert actions(lazy, "file:///never/opened.py", [], None) == []


def test_saving_waits_for_the_findings(lazy: Client, uri: str) -> None:
    """Editors ask for the fixes of the whole file right after the last keystroke."""
    lazy.open(uri, HEAD)
    lazy.pulled(uri)
    lazy.change(uri, SOURCE)
    assert [item["kind"] for item in actions(lazy, uri, [], ["source.fixAll"])] == ["source.fixAll.nki"]


def test_one_fix_mends_all_places_of_a_hint(lazy: Client, uri: str) -> None:
    lazy.open(uri, SOURCE)
    found = [item for item in lazy.pulled(uri)["items"] if item["code"] == "NKI127"]
    assert codes(found) == ["NKI127"]
    fix = next(item for item in actions(lazy, uri, found, ["quickfix"]) if "edit" in item)
    assert fix["title"] == "Write range at all 2 places"
    assert edited(SOURCE, fix["edit"]["changes"][uri]) == SOURCE.replace("nl.affine_range", "range")


def test_all_cells_of_a_notebook_are_fixed(lazy: Client) -> None:
    name = "notebook-cell:/project/all.ipynb#"
    texts = [
        f"import os\n{HEAD}",
        f"%%nki\n{BODY}",
        "x = (",
        "%time y = 1\nprint(y)",
        "%%nki\n" + BODY.replace("kernel", "other").replace("pads=[1]", "pads=[1, 2]"),
    ]
    cells = [{"kind": 2, "document": f"{name}{number}"} for number in range(len(texts))]
    items = [
        {"uri": cell["document"], "languageId": "python", "version": 1, "text": text}
        for cell, text in zip(cells, texts, strict=True)
    ]
    notebook = {"uri": "file:///project/all.ipynb", "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
    lazy.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": items})
    lazy.pulled(f"{name}1")
    (action,) = actions(lazy, f"{name}1", [], ["source.fixAll"])
    changes = lazy.request("codeAction/resolve", action)["edit"]["changes"]
    assert set(changes) == {f"{name}1", f"{name}4"}
    for number, pads in ((1, "(1,)"), (4, "(1, 2)")):
        after = edited(texts[number], changes[f"{name}{number}"])
        assert after.startswith("%%nki\n")
        assert f"pads={pads}" in after
        assert after.count("nisa.dge_mode.") == 3
