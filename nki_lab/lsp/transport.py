"""Over which bytes the server speaks: standard input and output, or one TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async

from nki_lab.lsp.requests import COMMANDS, REQUESTS
from nki_lab.lsp.server import Server
from nki_lab.lsp.worker import own_streams

LOCAL: Final = "127.0.0.1"


def serve_stdio() -> int:
    """Serve over standard input and output; gives the exit status."""
    source, output = own_streams()
    pool = ThreadPoolExecutor(1, "input")
    try:
        return asyncio.run(_dialogue(StdinAsyncReader(source, pool), StdoutWriter(output)))
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
            result = await _dialogue(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            result = 1
        writer.close()
        if not status.done():
            status.set_result(result)

    listener = await asyncio.start_server(connected, host, port)
    address = listener.sockets[0].getsockname()
    print(f"nki-lab lsp listens on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
    return await status


async def _dialogue(
    reader: StdinAsyncReader | asyncio.StreamReader, writer: StdoutWriter | asyncio.StreamWriter
) -> int:
    """Speak with one editor until it leaves or its end of the line closes."""
    server = Server(REQUESTS, COMMANDS)
    stopped = threading.Event()
    server.on_leave = stopped.set
    server.protocol.set_writer(writer)
    server.checker.examiner.start()  # which takes as long as the editor takes to shake hands
    log = logging.getLogger("nki_lab.lsp")
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncio.IncompleteReadError):
        await run_async(stopped, reader, server.protocol, log, server.report_server_error)
    await server.checker.examiner.close()
    return server.status
