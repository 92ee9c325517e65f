"""Over which bytes the server speaks: standard input and output, or one TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async

from nki_lab.lsp.requests import code_action, configuration, diagnostics, hover, initialized, inlay_hint
from nki_lab.lsp.server import Server

LOCAL: Final = "127.0.0.1"
REQUESTS: Final = (diagnostics, hover, code_action, inlay_hint, configuration, initialized)


def serve_stdio() -> int:
    """Serve over standard input and output; gives the exit status."""
    # The two are ours alone: what anything prints goes to the log, and no child reads the editor's messages.
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
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


async def _dialogue(reader: Any, writer: Any) -> int:
    """Speak with one editor until it leaves or its end of the line closes."""
    server = Server(REQUESTS)
    stopped = threading.Event()
    server.on_leave = stopped.set
    server.protocol.set_writer(writer)
    server.checker.examiner.start()  # which takes as long as the editor takes to shake hands
    log = logging.getLogger("nki_lab.lsp")
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncio.IncompleteReadError):
        await run_async(stopped, reader, server.protocol, log, server.report_server_error)
    await server.checker.examiner.close()
    return server.status
