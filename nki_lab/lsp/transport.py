"""Over which bytes the server speaks: standard input and output, or one TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from nki_lab.lsp.examiner import Examiner
from nki_lab.lsp.handshake import MOST_BYTES

if TYPE_CHECKING:
    from pygls.io_ import AsyncReader, AsyncWriter, Writer

    from nki_lab.lsp.protocol import Dialogue
    from nki_lab.lsp.server import Server

LOCAL: Final = "127.0.0.1"
_LENGTH: Final = re.compile(rb"(?<![\w-])content-length:[ \t]*(\d{1,9})[ \t]*\r?\n\Z", re.IGNORECASE)


class _Replayed:
    """A stream whose beginning has been read already, and is read once more."""

    def __init__(self, beginning: bytes, rest: BinaryIO) -> None:
        self._beginning = io.BytesIO(beginning)
        self._rest = rest

    def readline(self) -> bytes:
        return self._beginning.readline() or self._rest.readline()

    def read(self, count: int) -> bytes:
        return self._beginning.read(count) or self._rest.read(count)


class _Lenient:
    """A reader that gives, of all headers, the lengths in the one form that the library knows.

    A message whose length was told too small leaves its end before the next header, on the same line.
    """

    def __init__(self, reader: AsyncReader) -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        while (line := await self._reader.readline()).strip():
            if found := _LENGTH.search(line):
                return b"Content-Length: %s\r\n" % found[1]
        return line

    async def readexactly(self, count: int) -> bytes:
        return await self._reader.readexactly(count)


def serve_stdio(source: BinaryIO, output: BinaryIO, beginning: bytes, answered: object) -> int:
    """Serve over two streams; gives the exit status.

    `beginning` is what was read of the source, `answered` the id of the request in it that has its answer.
    """
    pool = ThreadPoolExecutor(1, "input")
    try:
        return asyncio.run(_over_pipes(cast("BinaryIO", _Replayed(beginning, source)), output, pool, answered))
    finally:
        with contextlib.suppress(OSError):
            output.close()
        pool.shutdown(wait=False, cancel_futures=True)


def serve_tcp(host: str, port: int) -> int:
    """Serve the first connection to a port, 0 for any free one; its address goes to standard error."""
    return asyncio.run(_serve_tcp(host or LOCAL, port))


async def _serve_tcp(host: str, port: int) -> int:
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.close()
        try:
            result = await _dialogue(await _loaded(), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            result = 1
        writer.close()
        if not status.done():
            status.set_result(result)

    listener = await asyncio.start_server(connected, host, port, limit=MOST_BYTES)
    address = listener.sockets[0].getsockname()
    print(f"nki-lab lsp listens on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
    return await status


async def _over_pipes(source: BinaryIO, output: BinaryIO, pool: ThreadPoolExecutor, answered: object) -> int:
    server = await _loaded()
    from pygls.io_ import StdinAsyncReader, StdoutWriter

    cast("Dialogue", server.protocol).answered = answered
    return await _dialogue(server, StdinAsyncReader(source, pool), StdoutWriter(output))


async def _loaded() -> Server:
    """Return the server. The process beside it starts while it is loaded."""
    examiner = Examiner()
    examiner.start()
    try:
        server = await asyncio.to_thread(_server, examiner)
    except BaseException:
        await examiner.close()
        raise
    server.collector.begin()
    return server


def _server(examiner: Examiner) -> Server:
    from nki_lab.lsp.requests import COMMANDS, REQUESTS
    from nki_lab.lsp.server import Server

    return Server(REQUESTS, COMMANDS, examiner)


async def _dialogue(server: Server, reader: AsyncReader, writer: Writer | AsyncWriter) -> int:
    """Speak with one editor until it leaves or its end of the line closes."""
    from pygls.io_ import run_async

    stopped = threading.Event()
    server.on_leave = stopped.set
    server.protocol.set_writer(writer)
    log = logging.getLogger("nki_lab.lsp")
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncio.IncompleteReadError):
        await run_async(stopped, _Lenient(reader), server.protocol, log, server.report_server_error)
    await server.close()
    return server.status
