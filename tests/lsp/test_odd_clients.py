"""Editors that can do less than others, or that write messages in a form of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from nki_lab.lsp.markup import markup, plain_text
from tests.lsp.client import PULLING, Client, Refused, codes, connect

pytestmark = pytest.mark.extended

KERNEL = """import nki
import nki.language as nl
import nki.typing as nt


@nki.jit
def k(x: nt.tensor[128, 64]):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    'é😀'; nl.store(out, nl.exq(nl.load(x)))
    return out
"""
MENDED = KERNEL.replace("exq", "exp")
LINE = next(number for number, line in enumerate(KERNEL.split("\n")) if "exq" in line)


@pytest.fixture(scope="module")
def asking() -> Iterator[Client]:
    client = connect()
    client.initialize(PULLING)
    yield client
    assert client.leave() == 0


def greeted(capabilities: Any, **more: Any) -> Client:
    """An editor that shakes hands its own way."""
    client = connect()
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities} | more)
    client.notify("initialized", {})
    return client


# -- plain text --------------------------------------------------------------------------------------------------------


def test_an_editor_without_markdown_gets_plain_text(uri: str) -> None:
    plain = ["plaintext"]
    client = greeted({
        "textDocument": {
            "hover": {"contentFormat": plain},
            "completion": {"completionItem": {"documentationFormat": plain}},
            "signatureHelp": {"signatureInformation": {"documentationFormat": plain}},
        }
    })  # fmt: skip
    client.open(uri, KERNEL)
    client.until(uri, ["NKI006"])
    before = KERNEL.split("\n")[LINE].partition("exq")[0]
    position = {"line": LINE, "character": len(before.encode("utf-16-le")) // 2}
    place = {"textDocument": {"uri": uri}, "position": position}
    hover = client.request("textDocument/hover", place)["contents"]
    signature = client.request("textDocument/signatureHelp", place)["signatures"][0]["parameters"][0]["documentation"]
    item = client.request("textDocument/completion", place)["items"][0]
    shown = client.request("completionItem/resolve", item)["documentation"]
    assert hover["value"].startswith("NKI006 The NKI module has no such name\n")
    for text in (hover, signature, shown):
        assert text["kind"] == "plaintext"
        assert text["value"]
        assert not any(mark in text["value"] for mark in ("**", "```", "]("))
    assert client.leave() == 0


@pytest.mark.parametrize(
    ("formats", "kind"),
    [
        (None, "markdown"),
        ([], "markdown"),
        ([lsp.MarkupKind.Markdown], "markdown"),
        ([lsp.MarkupKind.PlainText, lsp.MarkupKind.Markdown], "markdown"),
        ([lsp.MarkupKind.PlainText], "plaintext"),
    ],
)
def test_a_text_has_a_format_that_the_editor_names(formats: list[lsp.MarkupKind | str] | None, kind: str) -> None:
    assert markup("**x**", formats).kind.value == kind


def test_plain_text_has_no_marks_and_code_as_it_is() -> None:
    text = "# Title\n\n**[A](file:///a.md)** is `b**c**` and **d**\n```python\nf(**g)  # [x](y)\n```\n- 2 ** 3"
    assert plain_text(text) == "Title\n\nA is b**c** and d\nf(**g)  # [x](y)\n- 2 ** 3"


# -- other forms -------------------------------------------------------------------------------------------------------


def test_a_capability_of_another_form_costs_no_other(uri: str) -> None:
    client = greeted(
        {
            "general": {"positionEncodings": ["utf-8"]},
            "textDocument": {"hover": {"contentFormat": "markdown"}, "diagnostic": {"dynamicRegistration": False}},
            "workspace": 7,
        },
        initializationOptions={"target": "trn1"},
        clientInfo=[],
    )
    client.open(uri, KERNEL)
    (finding,) = client.pulled(uri)["items"]
    before = KERNEL.split("\n")[LINE].partition("nl.exq")[0]
    assert finding["range"]["start"] == {"line": LINE, "character": len(before.encode())}
    assert client.told(uri) == []
    assert client.request("workspace/executeCommand", {"command": "nki-lab.target", "arguments": [uri]}) == "trn1"
    assert client.leave() == 0


def test_null_stands_for_what_is_left_out(asking: Client, uri: str) -> None:
    asking.open(uri, KERNEL)
    change = {"range": None, "rangeLength": None, "text": MENDED}
    asking.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [change]})
    assert asking.pulled(uri)["items"] == []


def test_a_change_that_cannot_be_understood_is_said(asking: Client, uri: str) -> None:
    asking.open(uri, KERNEL)
    asking.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{}]})
    assert codes(asking.pulled(uri)["items"]) == ["NKI006"]
    (said,) = [item["params"]["message"] for item in asking.seen if item.get("method") == "window/logMessage"]
    assert said.startswith("a message textDocument/didChange whose parameters have not the protocol's form")


def configured(**replies: Any) -> Client:
    """An editor that is asked for its settings, starts with those of trn1, and says nothing to wait for."""
    client = connect()
    client.replies |= {method.replace("_", "/"): reply for method, reply in replies.items()}
    capabilities = PULLING | {
        "workspace": {
            "configuration": True,
            "didChangeConfiguration": {"dynamicRegistration": True},
            "didChangeWatchedFiles": {"dynamicRegistration": True},
        }
    }
    params = {"processId": None, "rootUri": None, "capabilities": capabilities}
    client.request("initialize", params | {"initializationOptions": {"target": "trn1"}})
    client.notify("initialized", {})
    return client


def target(client: Client, uri: str, wanted: str) -> str:
    """The target of a text, once that is the wanted one."""
    for _ in range(100):
        client.pulled(uri)
        found = client.request("workspace/executeCommand", {"command": "nki-lab.target", "arguments": [uri]})
        if found == wanted:
            break
        time.sleep(0.05)
    return str(found)


@pytest.mark.parametrize("reply", [None, 5, Refused()])
def test_an_editor_that_gives_no_settings_keeps_those_it_sent(reply: object, uri: str) -> None:
    client = configured(workspace_configuration=reply)
    client.open(uri, KERNEL)
    said = client.receive(lambda item: item.get("method") == "window/logMessage")["params"]["message"]
    assert said.startswith("the editor's answer to workspace/configuration has no settings: ")
    assert target(client, uri, "trn1") == "trn1"
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn2"}}})
    assert target(client, uri, "trn2") == "trn2"
    assert client.leave() == 0


def test_an_editor_that_refuses_to_report_changes_is_asked_for_its_settings(uri: str) -> None:
    client = configured(client_registerCapability=Refused(), workspace_configuration=[{"target": "trn2"}])
    client.open(uri, KERNEL)
    assert target(client, uri, "trn2") == "trn2"
    assert client.leave() == 0


@pytest.mark.parametrize("odd", ["http://[bad", "file://[bad/x.py", "file:///nul%00.py"])
def test_a_text_without_a_proper_uri_is_checked_and_leaves_others_alone(asking: Client, uri: str, odd: str) -> None:
    for item in (odd, uri):
        asking.open(item, KERNEL)
        assert codes(asking.pulled(item)["items"]) == ["NKI006"]
    place = {"textDocument": {"uri": uri}, "position": {"line": LINE, "character": 20}}
    assert asking.request("textDocument/documentSymbol", place)
    assert asking.request("textDocument/documentHighlight", place | {"position": {"line": 6, "character": 6}})
    asking.shut(odd)


# -- folders without a project -----------------------------------------------------------------------------------------


def test_a_rename_reaches_all_files_of_the_editors_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    helpers = tmp_path / "pkg" / "helpers.py"
    helpers.write_text("import nki\n\n\ndef loaded(x):\n    return x\n", encoding="utf-8")
    (tmp_path / "pkg" / "__init__.py").write_text("")
    users = {"plain.py": b"", "bom.py": b"\xef\xbb\xbf", "if.py": b"if True: "}
    for name, before in users.items():
        (tmp_path / name).write_bytes(before + b"from pkg.helpers import loaded; loaded(x=1)\n")
    client = greeted({}, rootUri=tmp_path.as_uri())
    client.open(helpers.as_uri(), helpers.read_text(encoding="utf-8"))
    place = {"textDocument": {"uri": helpers.as_uri()}, "position": {"line": 3, "character": 11}, "newName": "y"}
    edits = client.request("textDocument/rename", place)["changes"]
    found = {Path(uri).name: [item["range"]["start"]["character"] for item in items] for uri, items in edits.items()}
    assert found == {"helpers.py": [11, 11], "plain.py": [39], "bom.py": [39], "if.py": [48]}
    assert client.leave() == 0
