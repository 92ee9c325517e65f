"""The answer to `initialize` comes before the server is loaded, and is the one that the loaded server would give."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.protocol import default_converter

from nki_lab.lsp.handshake import FILE, offers, shake_hands
from scripts.lsp_capabilities import EVERYTHING, result
from tests.lsp.client import PULLING, PUSHED, Client, connect

RENAMING: dict[str, Any] = {"textDocument": {"rename": {"prepareSupport": True}}}
NOTEBOOKS: dict[str, Any] = {"notebookDocument": {"synchronization": {}}, "workspace": {"fileOperations": {}}}
FILES: dict[str, Any] = {"workspace": {"fileOperations": {"didRename": True, "willRename": True}}}
ODD: dict[str, Any] = {"general": {"positionEncodings": ["utf-7", "utf-32", "utf-8"]}}


@pytest.mark.parametrize("client", [{}, PUSHED, PULLING, RENAMING, NOTEBOOKS, FILES, ODD], ids=range(7))
def test_the_offers_are_those_of_the_loaded_server(client: dict[str, Any]) -> None:
    converter = default_converter()
    found = result(converter.structure(client, lsp.ClientCapabilities)).capabilities
    every = json.loads(FILE.read_text(encoding="utf-8"))["capabilities"]
    assert json.loads(json.dumps(converter.unstructure(found))) == offers(every, client)


def test_an_editor_that_can_do_everything_is_offered_everything() -> None:
    converter = default_converter()
    every = json.loads(FILE.read_text(encoding="utf-8"))["capabilities"]
    assert offers(every, json.loads(json.dumps(converter.unstructure(EVERYTHING)))) == every


def message(body: object) -> bytes:
    data = json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 99999999999\r\n\r\n",
        b"Content-Length: x\r\n\r\n",
        message([]),
        message({"jsonrpc": "2.0", "id": 1, "method": "shutdown"}),
        message({"jsonrpc": "2.0", "id": None, "method": "initialize", "params": {}}),
        message({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": 3}),
        message({"jsonrpc": "1.0", "id": 1, "method": "initialize", "params": {}}),
    ],
    ids=range(10),
)
def test_what_is_no_handshake_is_left_to_the_server(line: bytes) -> None:
    source, output = io.BytesIO(line + b"rest"), io.BytesIO()
    read, answered = shake_hands(source, output)
    assert answered is None
    assert output.getvalue() == b""
    assert read + source.read() == line + b"rest"


@pytest.mark.parametrize("number", [0, 1, "first"])
def test_the_answer_has_the_id_of_the_question(number: object) -> None:
    line = message({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {"capabilities": None}})
    output = io.BytesIO()
    assert shake_hands(io.BytesIO(line), output) == (line, number)
    answer = json.loads(output.getvalue().partition(b"\r\n\r\n")[2])
    assert answer["id"] == number
    assert answer["result"]["capabilities"]["positionEncoding"] == "utf-16"


def test_one_answer_is_given() -> None:
    client = connect()
    client.initialize()
    client.request("shutdown")
    assert [item["id"] for item in client.seen if "result" in item] == [1, 2]
    client.notify("exit")
    assert client.close() == 0


def test_the_answer_is_given_without_the_protocols_types() -> None:
    program = (
        "import io, sys; import nki_lab.lsp.start; from nki_lab.lsp.handshake import shake_hands;"
        'body = b\'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}\';'
        "shake_hands(io.BytesIO(b'Content-Length: %d\\r\\n\\r\\n%s' % (len(body), body)), io.BytesIO());"
        "print(*{name.partition('.')[0] for name in sys.modules} & {'lsprotocol', 'pygls', 'numpy', 'asyncio'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_request_that_cannot_be_understood_is_answered(client: Client) -> None:
    number = client.ask("textDocument/hover", {"textDocument": 3})
    assert client.answer(number)["error"]["code"] == -32602


def test_an_editor_that_tells_nonsense_of_itself_can_do_the_least() -> None:
    client = connect()
    client.initialize({"textDocument": 3, "workspace": []})
    client.open("file:///k.py", "import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    assert client.until("file:///k.py", ["NKI121", "NKI104"])
    assert client.leave() == 0


def test_an_unknown_method_is_refused(client: Client) -> None:
    assert client.answer(client.ask("no/such", {}))["error"]["code"] == -32601
