"""A language server as a process, whose messages come and go as texts.

Threads read and write its pipes: event loops that Jupyter Server uses on Windows know no subprocesses.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import IO, Final

WAITING: Final = 1_000
"""Messages that may wait for a server that is slow to read."""
END_SECONDS: Final = 3.0
"""A server has so long to leave before it is killed."""


class ServerProcess:
    """A running language server. `on_message` and `on_end` are called from a thread of its own."""

    def __init__(
        self, command: Sequence[str], on_message: Callable[[str], object], on_end: Callable[[int], object]
    ) -> None:
        self._process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._on_message, self._on_end = on_message, on_end
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING)
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"nki-lab {work.__name__}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    def send(self, message: str) -> bool:
        """Hand a message to the server; False where it has too many to read already."""
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """End the server: its input closes, and where that is not enough it is killed. Returns at once."""
        threading.Thread(target=self._end, name="nki-lab end", daemon=True).start()

    def _end(self) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=END_SECONDS)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            while (message := self._waiting.get()) is not None:
                body = message.encode("utf-8", "replace")
                stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                stream.flush()
        with contextlib.suppress(OSError):
            stream.close()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while (body := _next(stream)) is not None:
                self._on_message(body.decode("utf-8", "replace"))
        status = self._process.wait()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._on_end(status)


def _next(stream: IO[bytes]) -> bytes | None:
    """Return the body of the next message; None at the end, and where something else than messages comes."""
    length = -1
    while line := stream.readline():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
        elif line == b"\r\n":
            break
    if not line or length < 0:
        return None
    body = stream.read(length)
    return body if len(body) == length else None
