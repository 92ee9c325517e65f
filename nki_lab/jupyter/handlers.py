"""The addresses of the extension: the language server as a WebSocket, what is installed, the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.ioloop import IOLoop
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nki_lab.diagnostic import NkiError
from nki_lab.jupyter import examples
from nki_lab.jupyter.process import ServerProcess
from nki_lab.lsp.spec import COMMAND
from nki_lab.lsp.start import require

RESOURCE: Final = "kernels"
"""Whoever may execute in kernels may have a language server."""
MOST_SERVERS: Final = 8
"""Language servers at a time; each page in a browser has one."""
MOST_BYTES: Final = 16 << 20
"""Size of a message from a page."""
TOO_MANY, ENDED, SLOW, MISSING = 4000, 4001, 4002, 4003
"""Why a connection closes: too many pages, the server ended, it reads too slowly, a package is missing."""

_running: set[LanguageServer] = set()


class LanguageServer(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One page's language server, for as long as its connection lasts: a text is one JSON-RPC message."""

    auth_resource = RESOURCE
    process: ServerProcess | None = None

    def set_default_headers(self) -> None:
        """Leave out the headers of pages: a WebSocket has none."""

    @property
    def max_message_size(self) -> int:
        """Return the size of the largest message that is taken."""
        return MOST_BYTES

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the connection for users who may execute."""
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "execute", RESOURCE)):
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Start the language server."""
        super().open(*args, **kwargs)
        hint = missing()
        if hint:
            self.close(MISSING, _reason(hint))
            return
        if len(_running) >= MOST_SERVERS:
            self.close(
                TOO_MANY,
                f"{len(_running)} pages have a language server, the most is {MOST_SERVERS}: close another page",
            )
            return
        _running.add(self)
        loop = IOLoop.current()
        self.process = ServerProcess(
            COMMAND,
            lambda text: loop.add_callback(self._forward, text),
            lambda status: loop.add_callback(self._ended, status),
        )

    def on_message(self, message: str | bytes) -> None:
        """Hand a message of the page to the language server."""
        if isinstance(message, bytes):
            self.close(1003, "messages are texts")
        elif self.process is not None and not self.process.send(message):
            self.close(SLOW, "the language server does not read what was sent to it")

    def on_close(self) -> None:
        """End the language server."""
        super().on_close()
        _running.discard(self)
        if self.process is not None:
            self.process.close()
            self.process = None

    async def _forward(self, text: str) -> None:
        try:
            await self.write_message(text)
        except WebSocketClosedError:
            self.on_close()

    def _ended(self, status: int) -> None:
        if self.process is not None:
            self.log.warning("The language server for NKI cells ended with status %s.", status)
            self.close(ENDED, f"the language server ended with status {status}")


class Status(APIHandler):
    """The folder, the missing package and the examples, for a page before it connects."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized("read")
    def get(self) -> None:
        """Give the folder of the notebooks, the package that is missing, and the examples."""
        root = getattr(self.contents_manager, "root_dir", "")
        self.finish(
            {
                "root": Path(root).absolute().as_uri() if root else "",
                "missing": missing(),
                "examples": examples.names(),
            }
        )


class Example(APIHandler):
    """An example notebook."""

    auth_resource = "contents"

    @web.authenticated
    @authorized("read")
    def get(self, name: str) -> None:
        """Give the notebook of a name."""
        found = examples.content(name)
        if found is None:
            raise web.HTTPError(404, f"no example is called {name}; there are {', '.join(examples.names())}")
        self.finish(json.dumps(found))


def missing() -> str:
    """Return what the language server misses and the command that installs it; empty where nothing is missing."""
    try:
        require()
    except NkiError as error:
        found = error.diagnostics[0]
        return f"{found.message}: {found.help}"
    return ""


def _reason(text: str) -> str:
    """Return a text as the reason of a close, which has at most 123 bytes."""
    return text.encode()[:123].decode("utf-8", "ignore")


def handlers(base: str) -> list[tuple[str, type]]:
    """Return the handlers below the server's base URL."""
    return [
        (url_path_join(base, "nki-lab", "lsp"), LanguageServer),
        (url_path_join(base, "nki-lab", "status"), Status),
        (url_path_join(base, "nki-lab", "examples", r"([\w.-]+)"), Example),
    ]
