"""An editor for the tests: JSON-RPC over the pipes, or the socket, of a real server process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 45.0
Message = dict[str, Any]

PUSHED: Message = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}}}
PULLING: Message = {
    "textDocument": {"diagnostic": {"dynamicRegistration": False, "relatedInformation": True}},
    "workspace": {"diagnostics": {"refreshSupport": True}},
}


class Refused:
    """The answer to a request that an editor does not know."""

    error: ClassVar[Message] = {"code": -32601, "message": "no such method"}


class Client:
    """Speaks with one server.

    Requests of the server are answered by `replies`, values, refusals or functions of the parameters; with null where
    that has nothing.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.replies: dict[str, Any] = {}
        self.seen: list[Message] = []
        self._sink = sink
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._number = 0
        self._versions: dict[str, int] = {}
        self._streams = [source, sink]
        self._threads = [threading.Thread(target=self._read, args=(source,), daemon=True)]
        if process.stderr is not None:
            self._streams.append(process.stderr)
            self._threads.append(threading.Thread(target=process.stderr.read, daemon=True))  # the log
        for thread in self._threads:
            thread.start()

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _read(self, source: BinaryIO) -> None:
        while True:
            length = 0
            while (line := source.readline()) not in (b"", b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                self._inbox.put(None)
                return
            self._inbox.put(json.loads(source.read(length)))

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._sink.write(data)
        self._sink.flush()

    def send(self, message: Any) -> None:
        """Write one message."""
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def receive(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """The next message that is `wanted`; what comes before is kept in `seen`."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self._inbox.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"nothing of the kind in {seconds} s; seen: {self.seen[-5:]}") from None
            if message is None:
                raise EOFError(f"the server is gone, with {self.process.wait(5)}")
            self.seen.append(message)
            if "method" in message and "id" in message:
                reply = self.replies.get(message["method"])
                result = reply(message["params"]) if callable(reply) else reply
                answer = {"error": result.error} if isinstance(result, Refused) else {"result": result}
                self.send({"jsonrpc": "2.0", "id": message["id"]} | answer)
            if wanted(message):
                return message

    # -- messages ----------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None) -> int:
        """Send a request; gives its number."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def answer(self, number: int, seconds: float = SECONDS) -> Message:
        """The answer to a request."""
        return self.receive(lambda item: item.get("id") == number and "method" not in item, seconds)

    def request(self, method: str, params: Any = None, seconds: float = SECONDS) -> Any:
        """Send a request and wait for its result."""
        found = self.answer(self.ask(method, params), seconds)
        assert "error" not in found, found
        return found["result"]

    def initialize(self, capabilities: Message | None = None, *, steps: int = 600_000) -> Message:
        """Shake hands; gives what the server can do. Kernels of a file are evaluated for `steps` in all."""
        params = {
            "processId": None,
            "rootUri": None,
            "capabilities": PUSHED if capabilities is None else capabilities,
            "initializationOptions": {"steps": steps},
        }
        result: Message = self.request("initialize", params)
        self.notify("initialized", {})
        return dict(result["capabilities"])

    def leave(self) -> int:
        """Say good-bye in order; gives the exit status."""
        self.request("shutdown")
        self.notify("exit")
        return self.close()

    def close(self) -> int:
        """Wait for the end of the process; gives its exit status."""
        status = self.process.wait(20)
        for thread in self._threads:
            thread.join(5)
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        return status

    # -- texts -------------------------------------------------------------------------------------------------------

    def open(self, uri: str, text: str, language: str = "python") -> None:
        """Open a text."""
        self._versions[uri] = 1
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, *changes: Any) -> int:
        """Type in a text: whole texts, or (start line, start, end line, end, text); gives the version."""
        self._versions[uri] = self._versions.get(uri, 0) + 1
        events = [{"text": item} if isinstance(item, str) else edit(*item) for item in changes]
        document = {"uri": uri, "version": self._versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": events})
        return self._versions[uri]

    def published(self, uri: str, version: int | None = None, seconds: float = SECONDS) -> list[Message]:
        """The next findings that are told about a text, of `version` where that is given."""

        def wanted(item: Message) -> bool:
            params = item.get("params") or {}
            return (
                item.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and (version is None or params.get("version") == version)
            )

        return list(self.receive(wanted, seconds)["params"]["diagnostics"])

    def until(self, uri: str, codes: list[str], seconds: float = SECONDS) -> list[Message]:
        """Wait until exactly these codes are told about a text."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.published(uri, seconds=max(0.001, deadline - time.monotonic()))
            if [item["code"] for item in found] == codes:
                return found

    def shut(self, uri: str) -> None:
        """Close a text."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def told(self, uri: str) -> list[Message]:
        """What was told about a text so far."""
        told = [item["params"] for item in self.seen if item.get("method") == "textDocument/publishDiagnostics"]
        return [item for item in told if item["uri"] == uri]

    def pulled(self, uri: str, **more: Any) -> Message:
        """Ask for the findings in a text; the answer comes when its kernels are evaluated."""
        return dict(self.request("textDocument/diagnostic", {"textDocument": {"uri": uri}} | more))

    def hover(self, uri: str, line: int, character: int, seconds: float = SECONDS) -> str:
        """The Markdown of a hover; empty for none."""
        place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        found = self.request("textDocument/hover", place, seconds)
        return "" if found is None else str(found["contents"]["value"])


def edit(line: int, start: int, end_line: int, end: int, text: str) -> Message:
    """An incremental change."""
    return {
        "range": {"start": {"line": line, "character": start}, "end": {"line": end_line, "character": end}},
        "text": text,
    }


def edited(text: str, edits: list[Message]) -> str:
    """A text after edits of the server, all of them of places in the text as it is, in UTF-16."""
    lines = re.split(r"(?<=\n)", text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode("utf-16-le")))
    data = text.encode("utf-16-le")

    def offset(place: Message) -> int:
        return int(starts[place["line"]] + 2 * place["character"])

    spans = [(offset(item["range"]["start"]), offset(item["range"]["end"]), item["newText"]) for item in edits]
    for start, end, new in sorted(spans, key=lambda span: span[:2], reverse=True):
        data = data[:start] + new.encode("utf-16-le") + data[end:]
    return data.decode("utf-16-le")


def start(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A server process."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "nki_lab.lsp", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
        env=os.environ | {"PYTHONPATH": path} | (env or {}),
    )  # fmt: skip


def connect(**more: Any) -> Client:
    """A client of a fresh server over standard input and output."""
    process = start(**more)
    assert process.stdin is not None
    assert process.stdout is not None
    return Client(process.stdout, process.stdin, process)  # type: ignore[arg-type]


def connect_tcp(process: subprocess.Popen[bytes], host: str, port: int) -> Client:
    """A client over a connection."""
    with socket.create_connection((host, port), timeout=SECONDS) as connection:
        stream = connection.makefile("rwb")
    return Client(stream, stream, process)  # type: ignore[arg-type]


def codes(found: list[Message]) -> list[str]:
    """The codes of findings."""
    return [item["code"] for item in found]


def place(item: Message) -> tuple[int, int, int, int]:
    """Where a finding stands: start line and character, end line and character."""
    start, end = item["range"]["start"], item["range"]["end"]
    return start["line"], start["character"], end["line"], end["character"]
