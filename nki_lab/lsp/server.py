"""The server: its offers, and the findings that it sends to the editor by itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.lsp.checker import QUIET_SECONDS, Checker, Unit, findings_of
from nki_lab.lsp.collecting import Collector, let_go
from nki_lab.lsp.convert import at_import, diagnostic_of
from nki_lab.lsp.estimates import Estimates
from nki_lab.lsp.examiner import Examiner
from nki_lab.lsp.handshake import server_info
from nki_lab.lsp.pages import Pages
from nki_lab.lsp.painted import Painted
from nki_lab.lsp.progress import Evaluations
from nki_lab.lsp.project_findings import ProjectFindings
from nki_lab.lsp.protocol import Dialogue
from nki_lab.lsp.readings import Readings
from nki_lab.lsp.refreshing import DIAGNOSTICS, Refresher
from nki_lab.lsp.settings import Settings
from nki_lab.lsp.texts import Module, Texts, path_of
from nki_lab.lsp.trees import Trees
from nki_lab.query.completion import forget
from nki_lab.query.grouping import grouped
from nki_lab.query.one_kernel import arch_at

EXPLAIN: Final = "nki-lab.explain"
"""The command that gives the page of a code, as `nki-lab explain` prints it."""

_PYTHON: Final = [lsp.NotebookCellLanguage(language="python")]
_NOTEBOOKS: Final = lsp.NotebookDocumentSyncOptions(
    notebook_selector=[
        lsp.NotebookDocumentFilterWithCells(
            notebook=lsp.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"), cells=_PYTHON
        ),
        lsp.NotebookDocumentFilterWithCells(cells=_PYTHON),
    ]
)

log = logging.getLogger(__name__)


Request = tuple[Callable[..., Awaitable[object]], object]
"""The answer to a request, a function of the server and the parameters, and the server's offer of it."""
Requests = Mapping[str, Request]
"""Answers by their methods."""


class Server(LanguageServer):
    """Keeps the open texts and the checker, and answers one editor's `requests`, by their methods."""

    def __init__(
        self, requests: Requests, commands: Mapping[str, Callable[..., Awaitable[object]]], examiner: Examiner
    ) -> None:
        super().__init__(
            **server_info(),
            text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental,
            notebook_document_sync=_NOTEBOOKS,
            protocol_cls=Dialogue,
        )
        self.texts = Texts()
        self.settings = Settings(self.complain)
        self.readings = Readings()
        self.trees = Trees(self.readings.follow)
        self.painted = Painted()
        self.refresher = Refresher(self)
        self.collector = Collector()
        self.checker = Checker(self.texts, self.settings, examiner, self._report)
        self.estimates = Estimates(self.checker)
        self._tasks: set[asyncio.Future[object]] = set()
        self.status = 1  # of the process, until the editor says good-bye
        self.on_leave: Callable[[], None] = lambda: None
        self._published: dict[str, list[lsp.Diagnostic]] = {}
        self._early: set[str] = set()  # units that were asked for findings before everything was known
        for method, (answer, offer) in requests.items():
            self._offer(method, answer, offer)
        self.project = ProjectFindings(self.settings, self.reports, self.checker.buffers)
        self.evaluations = Evaluations(self, self.checker)
        self.pages = Pages(self)

        self._command(EXPLAIN, _explain)
        for name, command in commands.items():
            self._command(name, command)

    def _offer(self, method: str, answer: Callable[..., Awaitable[object]], offer: object) -> None:
        # Any: pygls passes the server to a handler whose first parameter has a type of the server.
        async def handler(params: Any) -> object:
            self.collector.note()
            try:
                return await answer(self, params)
            except Exception as error:
                let_go(error)
                raise

        self.feature(method, offer)(handler)

    def _command(self, name: str, answer: Callable[..., Awaitable[object]]) -> None:
        wanted = list(signature(answer).parameters.values())[1:]

        async def handler(*arguments: Any) -> object:
            _check_arguments(name, wanted, arguments)
            return await answer(self, *arguments)

        self.command(name)(handler)

    def soon(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something beside the requests."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the editor ------------------------------------------------------------------------------------------------

    @property
    def encoding(self) -> str:
        """Return the code units of positions: "utf-8", "utf-16" or "utf-32"."""
        chosen = self.server_capabilities.position_encoding
        return str(getattr(chosen, "value", chosen) or "utf-16")

    def arch_at(self, module: Module, line: int) -> Arch:
        """Return the target of a 1-based line of a module: its cell may name one, else the settings do."""
        return arch_at(line, module.targets, self.settings.arch(module.file))

    @property
    def pulls(self) -> bool:
        """Return whether the editor asks for findings; then it gets none unasked."""
        text = self.client_capabilities.text_document
        return text is not None and text.diagnostic is not None

    @property
    def shows_related(self) -> bool:
        """Return whether the editor shows other places of a finding."""
        return self._draws("related_information")

    @property
    def shows_links(self) -> bool:
        """Return whether the editor draws the code of a finding as a link."""
        return self._draws("code_description_support")

    def _draws(self, feature: str) -> bool:
        text = self.client_capabilities.text_document
        return bool(getattr(getattr(text, "diagnostic" if self.pulls else "publish_diagnostics", None), feature, False))

    def complain(self, text: str) -> None:
        """Say in the editor's log what is wrong around the kernels."""
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, text))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log a message that made no sense, or a mistake of ours; the user's screen does not show it."""
        log.error("%s", error, exc_info=error)
        if source is JsonRpcException and isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            self.complain(f"a message is no JSON, and passed over: {error}. Its Content-Length has to count bytes")

    def take_folders(self) -> None:
        """Take the folders that the editor has open."""
        folders = [item.uri for item in self.workspace.folders.values()]
        if not folders and self.workspace.root_uri:
            folders = [self.workspace.root_uri]
        self.project.set_folders({uri: path_of(uri) for uri in folders})

    async def close(self) -> None:
        """End what the server has started."""
        self.evaluations.close()
        self.pages.close()
        self.refresher.close()
        self.collector.close()
        await self.project.close()
        await self.checker.examiner.close()

    def leave(self, status: int) -> None:
        """End the server with a status."""
        self.status = status
        self.on_leave()

    # -- texts -----------------------------------------------------------------------------------------------------

    def text_changed(self, uri: str, *, opened: bool = False) -> None:
        """Examine a text with new content, once nothing more is typed."""
        self.collector.note()
        self.checker.changed(uri, quiet=0 if opened else QUIET_SECONDS)
        self.project.note_change(path_of(self.texts.unit(uri)))
        self.evaluations.watch(self.texts.unit(uri))

    def unit_closed(self, uri: str, cells: list[str]) -> None:
        """Withdraw the findings of a file or notebook that is closed."""
        unit = self.checker.closed(uri)
        self.project.note_change(path_of(uri))
        self.trees.forget(uri)
        self.readings.forget(uri)
        self.refresher.forget(uri)
        forget(path_of(uri) or uri)
        self.estimates.forget(uri)
        for item in cells:
            self.painted.forget(item)
        for item in {*cells, *(unit.published if unit is not None else ())}:
            if self._published.pop(item, None):
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(item, []))
        if unit is not None and unit.module is not None and not self.pulls:
            self._report_callers(unit.module.file)

    # -- findings --------------------------------------------------------------------------------------------------

    def reports(self, unit: Unit, module: Module) -> dict[str, list[lsp.Diagnostic]]:
        """Return the findings in a unit by the URIs of its texts, each of which has a list."""
        reports: dict[str, list[lsp.Diagnostic]] = {uri: [] for uri, _ in module.parts}
        place = partial(module.location, encoding=self.encoding)
        related, linked = self.shows_related, self.shows_links
        for found in grouped(findings_of(unit, module)):
            if self._is_shown_elsewhere(found, unit, module):
                continue
            entry = diagnostic_of(at_import(found, module.file), place, related=related, linked=linked)
            if entry is not None and entry[0] in reports:
                reports[entry[0]].append(entry[1])
        return reports

    def _is_shown_elsewhere(self, found: Diagnostic, unit: Unit, module: Module) -> bool:
        """Return whether a finding in another file stands in that file, which is open."""
        span = found.span
        if span is None or span.file == module.file:
            return False
        others = (other for other in self.checker.units.values() if other is not unit)
        return any(
            (item.code, item.span) == (found.code, span)
            for other in others
            if other.known_module is not None and other.known_module.file == span.file
            for item in other.known.findings
        )

    def expect(self, unit: Unit) -> None:
        """Have the editor ask again when everything is known of a unit."""
        self._early.add(unit.key)

    @property
    def can_refresh(self) -> bool:
        """Return whether the editor can be asked to ask again."""
        workspace = self.client_capabilities.workspace
        return bool(workspace is not None and workspace.diagnostics and workspace.diagnostics.refresh_support)

    def _report(self, unit: Unit, final: bool) -> None:
        self._publish(unit, final)
        if final:
            self.project.note_change()
            if unit.is_unasked:
                unit.is_unasked = False
                self.refresher.everything()
            self.refresher.settled(unit.key)
        if final and unit.module is not None and not self.pulls:
            self._report_callers(unit.module.file)

    def _report_callers(self, file: str) -> None:
        """Publish again what other texts found in a file: it may stand there by now, or no longer."""
        for other in list(self.checker.units.values()):
            module = other.known_module
            if module is None or module.file == file or not other.is_settled:
                continue
            if any(item.span is not None and item.span.file == file for item in other.known.findings):
                self._publish(other, final=False)

    def _publish(self, unit: Unit, final: bool) -> None:
        module = unit.module
        if module is None:
            return
        if self.pulls:
            if unit.key in self._early and (final or unit.early):
                self._early.discard(unit.key)  # it is expected again where it is asked for before the end
                self.refresher.now(DIAGNOSTICS)
            return
        reports = self.reports(unit, module)
        for uri in unit.published - reports.keys():  # cells that were removed
            reports[uri] = []
        unit.published = {uri for uri, _ in module.parts}
        for uri, found in reports.items():
            if not final and not found and uri not in self._published:
                continue
            if self._published.get(uri) != found or (found and final):  # the final ones draw typed-in marks again
                self._published[uri] = found
                text = self.texts.texts.get(uri)
                version = None if text is None else text.version
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))


async def _explain(server: Server, name: str) -> str | None:
    return await server.pages.explain(name)


def _check_arguments(command: str, wanted: Sequence[Parameter], given: Sequence[object]) -> None:
    """Refuse arguments that a command does not take, by their number or as no strings."""
    least = sum(item.default is Parameter.empty for item in wanted)
    names = ", ".join(item.name if item.default is Parameter.empty else f"[{item.name}]" for item in wanted)
    if not least <= len(given) <= len(wanted):
        raise JsonRpcInvalidParams(f"{command} takes the arguments ({names}), not {len(given)}")
    for item, value in zip(wanted, given, strict=False):
        if item.annotation == "str" and not isinstance(value, str):
            raise JsonRpcInvalidParams(f"{command} takes the arguments ({names}): {item.name} has to be a string")
