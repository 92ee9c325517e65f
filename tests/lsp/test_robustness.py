"""Every request gets an answer, whatever is in it; what is taken back is answered at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nki_lab.lsp.requests import REQUESTS
from tests.lsp.client import PULLING, Client, connect
from tests.lsp.test_server import FAULTY, LINE

pytestmark = pytest.mark.extended

NOTIFICATIONS = ("initialized", "didSave", "didChange", "didCreate", "didRename", "didDelete")
METHODS = sorted(method for method in REQUESTS if method.rpartition("/")[2].removesuffix("Files") and not any(
    method.rpartition("/")[2].startswith(item) for item in NOTIFICATIONS
))  # fmt: skip
PLACE = {"line": 0, "character": 0}
WHOLE = {"start": PLACE, "end": {"line": 9, "character": 0}}
ODD: list[Any] = [
    None, [], {}, 3, "text", {"textDocument": None}, {"textDocument": {}}, {"textDocument": {"uri": 7}},
    {"textDocument": {"uri": "file:///k.py"}, "position": {"line": "a", "character": None}},
    {"textDocument": {"uri": "file:///k.py"}, "position": []}, {"item": {}}, {"query": None}, {"data": {"uri": 3}},
    {"command": "no.such", "arguments": 3}, {"title": "t", "kind": "source.fixAll.nki", "data": []},
]  # fmt: skip
NOWHERE = (
    "file:///never/opened.py", "untitled:Untitled-1", "vscode-notebook-cell:/no/such.ipynb#W0", "http://host/k.py",
    "", "not a uri", "file://%zz/\u0000", "git:/k.py?ref",
)  # fmt: skip


@pytest.fixture(scope="module")
def asking() -> Iterator[Client]:
    client = connect()
    client.initialize(PULLING)
    client.open("file:///k.py", FAULTY)
    yield client
    assert client.leave() == 0


def lives(client: Client) -> None:
    assert client.hover("file:///k.py", LINE, 10)


@pytest.mark.parametrize("method", METHODS)
def test_parameters_that_make_no_sense_are_answered(asking: Client, method: str) -> None:
    for params in ODD:
        answer = asking.answer(asking.ask(method, params), 20)
        assert ("error" in answer) != ("result" in answer), answer
        if "error" in answer:
            assert answer["error"]["message"]
            assert "Traceback" not in json.dumps(answer)
    lives(asking)


@pytest.mark.parametrize("method", METHODS)
def test_parameters_of_another_form_are_called_invalid(asking: Client, method: str) -> None:
    for params in (None, 3, "text", [], {}):
        answer = asking.answer(asking.ask(method, params), 20)
        assert answer["error"]["code"] == -32602, (params, answer)
    lives(asking)


@pytest.mark.parametrize("method", METHODS)
def test_texts_that_are_not_open_have_nothing(asking: Client, method: str) -> None:
    if not method.startswith("textDocument/"):
        return
    for uri in NOWHERE:
        params = {
            "textDocument": {"uri": uri}, "position": PLACE, "positions": [PLACE], "range": WHOLE, "newName": "other",
            "previousResultId": "1", "context": {"diagnostics": [], "includeDeclaration": True, "triggerKind": 1, "isRetrigger": False},
        }  # fmt: skip
        answer = asking.answer(asking.ask(method, params), 20)
        assert "result" in answer, (method, uri, answer)
        found = answer["result"]
        assert not found or not any(found.get(key) for key in ("items", "data", "edits", "changes")), (method, uri)
    lives(asking)


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (10**6, 0), (0, 10**6), (2**31 - 1, 2**31 - 1)])
def test_places_outside_of_the_text_are_answered(asking: Client, place: tuple[int, int]) -> None:
    position = {"line": place[0], "character": place[1]}
    for method in METHODS:
        params = {
            "textDocument": {"uri": "file:///k.py"}, "position": position, "positions": [position], "newName": "other",
            "range": {"start": position, "end": position}, "previousResultId": "1",
            "context": {"diagnostics": [], "includeDeclaration": True, "triggerKind": 1, "isRetrigger": False},
        }  # fmt: skip
        if method.startswith("textDocument/"):
            answer = asking.answer(asking.ask(method, params), 20)
            assert "result" in answer or answer["error"]["code"] != -32603, (method, answer)
    lives(asking)


@pytest.mark.parametrize("method", ["no/such", "textDocument/noSuch", "$/noSuch", "nki-lab/x", ""])
def test_unknown_methods_are_refused(asking: Client, method: str) -> None:
    assert "error" in asking.answer(asking.ask(method, {}), 20)
    asking.notify(method, {})
    lives(asking)


@pytest.mark.parametrize("number", ["text", 0, -1, 2**40])
def test_ids_are_given_back(asking: Client, number: object) -> None:
    asking.send({"jsonrpc": "2.0", "id": number, "method": "textDocument/signatureHelp", "params": {}})
    answer = asking.receive(lambda item: item.get("id") == number and "method" not in item, 20)
    assert answer["error"]["code"] in (-32602, -32600)


@pytest.mark.parametrize("reply", [None, 3, [], {"success": "perhaps"}])
def test_answers_that_make_no_sense_end_what_waits_for_them(reply: object) -> None:
    client = connect()
    client.initialize(PULLING | {"window": {"showDocument": {"support": True}}})
    client.replies["window/showDocument"] = reply
    params = {"command": "nki-lab.explain", "arguments": ["NKI201"]}
    answer = client.answer(client.ask("workspace/executeCommand", params))
    assert ("result" in answer) != ("error" in answer)
    assert client.leave() == 0


# -- requests that are taken back --------------------------------------------------------------------------------------

FILES = 60
HEAD = (
    "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\nfrom base import shared\n"
)
BODY = "".join(
    f"\n\n@nki.jit\ndef kernel_{number}(x: nt.tensor[128, 64]):\n    y = shared(nl.load(x))\n    return shared(y)\n"
    for number in range(8)
)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """A folder whose files take seconds to look through."""
    folder = tmp_path_factory.mktemp("crowded")
    (folder / "pyproject.toml").write_text("", encoding="utf-8")
    (folder / "base.py").write_text("import nki\n\n\ndef shared(t):\n    return t\n", encoding="utf-8")
    for number in range(FILES):
        (folder / f"module_{number}.py").write_text(HEAD + BODY, encoding="utf-8")
    client = connect()
    folders = [{"uri": folder.as_uri(), "name": "crowded"}]
    params = {"processId": None, "rootUri": None, "capabilities": PULLING, "workspaceFolders": folders}
    client.request("initialize", params)
    client.notify("initialized", {})
    client.open((folder / "base.py").as_uri(), (folder / "base.py").read_text(encoding="utf-8"))
    client.open("file:///k.py", FAULTY)
    client.pulled("file:///k.py")
    yield client, folder
    assert client.leave() == 0


@pytest.mark.parametrize("method", ["textDocument/references", "workspace/symbol", "workspace/diagnostic"])
def test_a_search_through_all_files_is_taken_back_at_once(crowded: tuple[Client, Path], method: str) -> None:
    client, folder = crowded
    params = {
        "textDocument": {"uri": (folder / "base.py").as_uri()}, "position": {"line": 3, "character": 5},
        "context": {"includeDeclaration": True}, "query": "kernel", "previousResultIds": [],
    }  # fmt: skip
    taken_back = client.ask(method, params)
    other = client.ask(
        "textDocument/hover", {"textDocument": {"uri": "file:///k.py"}, "position": {"line": LINE, "character": 10}}
    )
    client.notify("$/cancelRequest", {"id": taken_back})
    client.seen.clear()
    assert client.answer(other)["result"]
    early = [item for item in client.seen if item.get("id") == taken_back]
    answer = early[0] if early else client.answer(taken_back)
    assert answer["error"]["code"] == -32800
    whole = client.answer(client.ask(method, params), 240)["result"]
    count = len(whole["items"] if isinstance(whole, dict) else whole)
    assert count > FILES
