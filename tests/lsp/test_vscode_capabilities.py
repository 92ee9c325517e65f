"""An editor with the capabilities that VS Code has is given findings, hovers, lenses and fixes.

`editors/vscode.json` is what vscode-languageclient 11.0.0 sent from VS Code 1.139.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lsp.client import Client, Message, codes, connect

CAPABILITIES = json.loads((Path(__file__).parent / "editors" / "vscode.json").read_text(encoding="utf-8"))
URI = "file:///project/scale.py"
TEXT = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def scale(x: nt.tensor[128, 512]):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exq, data=tile)
    return tile
"""
LINE = next(number for number, line in enumerate(TEXT.splitlines()) if "exq" in line)


@pytest.fixture(scope="module")
def code() -> Iterator[Client]:
    made = connect()
    made.replies["workspace/configuration"] = lambda params: [{} for _ in params["items"]]
    assert "diagnosticProvider" in made.initialize(CAPABILITIES)
    made.open(URI, TEXT)
    yield made
    assert made.leave() == 0


def found(code: Client) -> list[Message]:
    return list(code.pulled(URI)["items"])


def test_findings_come_when_asked_for_and_only_then(code: Client) -> None:
    assert "NKI006" in codes(found(code))
    assert not [item for item in code.seen if item.get("method") == "textDocument/publishDiagnostics"]


def test_hover_says_what_is_wrong(code: Client) -> None:
    found(code)
    assert "NKI006" in code.hover(URI, LINE, TEXT.splitlines()[LINE].index("exq"))


def test_the_finding_has_a_fix(code: Client) -> None:
    (finding,) = [item for item in found(code) if item["code"] == "NKI006"]
    params = {"textDocument": {"uri": URI}, "range": finding["range"], "context": {"diagnostics": [finding]}}
    titles = [item["title"] for item in code.request("textDocument/codeAction", params)]
    assert "Change exq to exp" in titles


def test_no_lens_has_an_empty_title(code: Client) -> None:
    """VS Code draws an empty one as a gap between two lines."""
    lenses = code.request("textDocument/codeLens", {"textDocument": {"uri": URI}})
    titles = [code.request("codeLens/resolve", item)["command"]["title"] for item in lenses]
    assert len(titles) == 4
    assert all(titles)
