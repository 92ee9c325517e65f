"""The extension of Jupyter Server: who gets a language server, and that none is left behind."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import websocket

from nki_lab.jupyter.handlers import ENDED, MOST_SERVERS, TOO_MANY
from tests.jupyter.conftest import ROOT, SECONDS, TOKEN, Jupyter, started

pytestmark = pytest.mark.extended

FAULTY = (
    "import nki\n\n\n@nki.jit\ndef kernel(a):\n    try:\n        return a\n    except ValueError:\n        return a\n"
)


def ask(line: websocket.WebSocket, method: str, params: Any) -> Any:
    """The answer to a request."""
    line.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
    return until(line, lambda message: message.get("id") == method)["result"]


def until(line: websocket.WebSocket, wanted: Callable[[Any], bool]) -> Any:
    """The next message that is wanted."""
    while True:
        message = json.loads(line.recv())
        if wanted(message):
            return message


def shake_hands(line: websocket.WebSocket, folder: Path) -> Any:
    """Begin a session; gives what the server can do."""
    found = ask(line, "initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
    line.send(json.dumps({"jsonrpc": "2.0", "method": "initialized", "params": {}}))
    return found["capabilities"]


def servers(jupyter: Jupyter) -> list[int]:
    """The language servers that a Jupyter Server has started, as the machine's table of processes says."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == jupyter.process.pid and b"nki_lab.lsp" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def wait_for(jupyter: Jupyter, count: int) -> list[int]:
    """Wait until so many language servers run."""
    end = time.monotonic() + SECONDS
    while len(found := servers(jupyter)) != count and time.monotonic() < end:
        time.sleep(0.05)
    assert len(found) == count, found
    return found


@contextlib.contextmanager
def connected(jupyter: Jupyter) -> Any:
    """A connection that ends with the test, however that ends."""
    line = jupyter.connect()
    try:
        yield line
    finally:
        line.close()
        wait_for(jupyter, 0)


def test_findings_come_over_the_connection_and_the_server_ends_with_it(jupyter: Jupyter) -> None:
    with connected(jupyter) as line:
        assert shake_hands(line, jupyter.folder)["hoverProvider"] == {}
        uri = (jupyter.folder / "é.py").as_uri()
        item = {"uri": uri, "languageId": "python", "version": 1, "text": FAULTY}
        line.send(json.dumps({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}))
        told = until(line, lambda message: message.get("method") == "textDocument/publishDiagnostics")
        assert told["params"]["diagnostics"]
        assert len(servers(jupyter)) == 1


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_there_is_no_server(jupyter: Jupyter, token: str) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        jupyter.connect(token)
    assert jupyter.get("nki-lab/status", token)[0] == 403
    assert jupyter.get("nki-lab/examples/01_first_kernel.ipynb", token)[0] == 403
    assert servers(jupyter) == []


def test_a_page_of_another_origin_gets_no_server(jupyter: Jupyter) -> None:
    # Whoever has the token is believed, as with kernels; a cookie comes along from any page.
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"http://127.0.0.1:{jupyter.port}/?token={TOKEN}", timeout=SECONDS).close()
    cookie = "; ".join(f"{item.name}={item.value}" for item in jar)
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        jupyter.connect("", cookie=cookie, origin="http://elsewhere.example")
    assert servers(jupyter) == []
    with contextlib.closing(jupyter.connect("", cookie=cookie, origin=f"http://127.0.0.1:{jupyter.port}")) as line:
        assert "hoverProvider" in shake_hands(line, jupyter.folder)
    wait_for(jupyter, 0)


def test_a_server_that_dies_closes_the_connection_and_the_next_one_works(jupyter: Jupyter) -> None:
    with connected(jupyter) as line:
        shake_hands(line, jupyter.folder)
        os.kill(servers(jupyter)[0], signal.SIGKILL)
        assert closing(line) == (ENDED, f"the language server ended with status {-signal.SIGKILL}")
    with connected(jupyter) as line:
        assert "hoverProvider" in shake_hands(line, jupyter.folder)


def closing(line: websocket.WebSocket) -> tuple[int, str]:
    """The code and the reason with which the server closes a connection."""
    while True:
        opcode, data = line.recv_data(control_frame=True)
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return int.from_bytes(data[:2], "big"), data[2:].decode()


def test_a_server_that_left_by_itself_is_no_zombie(jupyter: Jupyter) -> None:
    with connected(jupyter) as line:
        shake_hands(line, jupyter.folder)
        ask(line, "shutdown", None)
        line.send(json.dumps({"jsonrpc": "2.0", "method": "exit"}))
        assert closing(line) == (ENDED, "the language server ended with status 0")


def test_more_pages_than_the_limit_are_told_so(jupyter: Jupyter) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_SERVERS):
            line = jupyter.connect()
            stack.callback(line.close)
        code, reason = closing(stack.enter_context(contextlib.closing(jupyter.connect())))
        assert code == TOO_MANY
        assert f"the most is {MOST_SERVERS}" in reason
    wait_for(jupyter, 0)


def test_bytes_are_refused(jupyter: Jupyter) -> None:
    with connected(jupyter) as line:
        line.send_binary(b"\0")
        assert closing(line)[0] == 1003


def test_the_status_has_the_folder_and_the_examples(jupyter: Jupyter) -> None:
    status, found = jupyter.get("nki-lab/status")
    names = sorted(file.name for file in (ROOT / "examples").glob("*.ipynb"))
    assert (status, found) == (200, {"root": jupyter.folder.as_uri(), "missing": "", "examples": names})


def test_an_example_is_a_notebook_and_nothing_else_is_given(jupyter: Jupyter) -> None:
    status, found = jupyter.get("nki-lab/examples/01_first_kernel.ipynb")
    assert status == 200
    nbformat.validate(found)
    for name in ("README.md", "..", "../pyproject.toml", "%2e%2e%2fpyproject.toml", "missing.ipynb"):
        assert jupyter.get(f"nki-lab/examples/{name}")[0] == 404


def test_the_end_of_jupyter_ends_the_language_servers(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    with started(folder) as jupyter, contextlib.closing(jupyter.connect()) as line:
        shake_hands(line, folder)
        (pid,) = servers(jupyter)
        jupyter.process.terminate()
        jupyter.process.wait(20)
        end = time.monotonic() + SECONDS
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not Path(f"/proc/{pid}").exists()
