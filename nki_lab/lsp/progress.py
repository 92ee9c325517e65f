"""The progress of long work, as the editor shows it."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Final

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

    from nki_lab.lsp.checker import Checker


SILENT_SECONDS: Final = 1.0
"""An evaluation that takes no longer is not shown."""


class Progress:
    """One piece of work with a title. Its token is the editor's, else a new one; without progress it shows nothing."""

    def __init__(
        self, server: LanguageServer, title: str, token: int | str | None = None, *, creates: bool = False
    ) -> None:
        window = server.client_capabilities.window
        self._server = server
        self._title = title
        self._creates = creates and token is None and bool(window and window.work_done_progress)
        self._token = str(uuid.uuid4()) if self._creates else token
        self._percentage = -1

    async def __aenter__(self) -> Progress:
        """Begin."""
        if self._creates and self._token is not None:
            await self._server.window_work_done_progress_create_async(lsp.WorkDoneProgressCreateParams(self._token))
        self._send(lsp.WorkDoneProgressBegin(title=self._title, cancellable=False, percentage=0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""
        self._send(lsp.WorkDoneProgressEnd())

    def report(self, done: int, whole: int) -> None:
        """Say how much of the work is done."""
        percentage = 100 * done // max(1, whole)
        if percentage != self._percentage:
            self._percentage = percentage
            self._send(lsp.WorkDoneProgressReport(message=f"{done} of {whole}", percentage=percentage))

    def _send(self, value: lsp.WorkDoneProgressBegin | lsp.WorkDoneProgressReport | lsp.WorkDoneProgressEnd) -> None:
        if self._token is not None:
            self._server.progress(lsp.ProgressParams(self._token, self._server.protocol._converter.unstructure(value)))


class Evaluations:
    """Shows the progress of evaluations that take long."""

    def __init__(self, server: LanguageServer, checker: Checker) -> None:
        self._server = server
        self._checker = checker
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watch(self, key: str) -> None:
        """Watch the evaluation of a file or notebook that has changed."""
        window = self._server.client_capabilities.window
        if window and window.work_done_progress and key not in self._tasks:
            self._tasks[key] = task = asyncio.ensure_future(self._show(key))
            task.add_done_callback(lambda _task: self._tasks.pop(key, None))

    async def _show(self, key: str) -> None:
        await asyncio.sleep(SILENT_SECONDS)
        unit = self._checker.units.get(key)
        if unit is None or unit.is_settled:
            return
        name = PurePath(key).name
        async with Progress(self._server, f"Evaluating the kernels of {name}", creates=True):
            while (unit := self._checker.units.get(key)) is not None and not unit.is_settled:
                await unit.changed.wait()

    def close(self) -> None:
        """Watch nothing any more."""
        for task in self._tasks.values():
            task.cancel()
