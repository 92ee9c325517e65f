"""The texts of a server as navigation reads them, and its places in the editor's terms."""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp.checker import known_of
from nki_lab.lsp.convert import range_of
from nki_lab.lsp.server import Server
from nki_lab.lsp.texts import Module, path_of
from nki_lab.query import Examination
from nki_lab.query.navigation.meaning import Resolver
from nki_lab.query.navigation.reading import Mention, Reading, Source
from nki_lab.query.navigation.workspace import Workspace

T = TypeVar("T")


@dataclass
class Asked:
    """A text that a request is about, with everything else that is open at that moment."""

    server: Server
    uri: str
    module: Module
    reading: Reading
    modules: dict[str, Module]
    resolver: Resolver

    @property
    def workspace(self) -> Workspace:
        """Return the files that names lead to."""
        return self.resolver.workspace

    def place(self, position: lsp.Position) -> tuple[int, int] | None:
        """Return the 1-based line and character of a position in the text."""
        return self.module.place(self.uri, position, self.server.encoding)

    def mention(self, position: lsp.Position) -> Mention | None:
        """Return the name at a position."""
        at = self.place(position)
        return None if at is None else self.reading.mention(*at)

    def known(self, file: str) -> Examination:
        """Return the part of the latest examination of a file that still holds."""
        module = self.modules.get(file)
        unit = None if module is None else self.server.checker.units.get(module.uri)
        return Examination() if unit is None or module is None else known_of(unit, module)

    def location(self, span: Span) -> lsp.Location | None:
        """Return the place of a span; None where it is in no text of the editor's and no file."""
        return located(span, self.modules, self.workspace, self.server.encoding)

    def range(self, span: Span) -> lsp.Range | None:
        """Return the range of a span in the text; None where it is outside, as in another cell."""
        found = self.module.location(span, self.server.encoding)
        return found.range if found is not None and found.uri == self.uri else None

    def line(self, number: int) -> int | None:
        """Return the 0-based line of the text that a 1-based line of its module is; None where it is another cell's."""
        part = bisect_right(self.module.starts, number - 1) - 1
        if part < 0 or self.module.parts[part][0] != self.uri:
            return None
        line = number - 1 - self.module.starts[part]
        return line if line < len(self.module.parts[part][1]) else None

    def locations(self, spans: Sequence[Span]) -> list[lsp.Location]:
        """Return the places of spans."""
        return [found for span in spans if (found := self.location(span)) is not None]

    def edit(self, edits: dict[str, dict[Span, str]]) -> lsp.WorkspaceEdit:
        """Return edits by their documents."""
        changes: dict[str, list[lsp.TextEdit]] = {}
        for span, text in (item for part in edits.values() for item in part.items()):
            where = self.location(span)
            if where is not None:
                changes.setdefault(where.uri, []).append(lsp.TextEdit(where.range, text))
        return lsp.WorkspaceEdit(changes=changes)


def located(span: Span, modules: dict[str, Module], workspace: Workspace, encoding: str) -> lsp.Location | None:
    """Return the place of a span in an open text, or in a file."""
    module = modules.get(span.file)
    if module is not None:
        return module.location(span, encoding)
    lines = workspace.lines(span.file)
    if not lines or not Path(span.file).is_absolute():
        return None

    def line(number: int) -> str:
        return lines[number - 1] if 0 < number <= len(lines) else ""

    return lsp.Location(Path(span.file).as_uri(), range_of(span, line, encoding))


def source_of(module: Module) -> Source:
    """Return the text of a module, or the cells of a notebook."""
    return module.sources if module.is_notebook else module.sources[0]


def open_modules(server: Server) -> dict[str, Module]:
    """Return the open files and notebooks by their paths."""
    units = {server.texts.unit(uri) for uri in server.texts.texts}
    found = (server.checker.module(uri) for uri in sorted(units))
    return {module.file: module for module in found if module is not None}


def workspace_of(server: Server, file: str, modules: dict[str, Module]) -> Workspace:
    """Return the files of the workspace, with modules found as the project of `file` says."""
    project = server.settings.project(file)
    library = replace(project, python=project.python or server.settings.python(file) or None).library()
    texts = {path: source_of(module) for path, module in modules.items()}
    return Workspace(library, texts, _folders(server))


def _folders(server: Server) -> list[str]:
    workspace = server.workspace
    uris = [*workspace.folders, *([workspace.root_uri] if workspace.root_uri else [])]
    return [path for path in map(path_of, dict.fromkeys(uris)) if path]


async def searched(workspace: Workspace, search: Callable[[], T]) -> T:
    """Return the result of a search through the files of a workspace; it ends soon after the request is cancelled."""
    ended = threading.Event()
    workspace.stop = ended.is_set
    try:
        return await asyncio.to_thread(search)
    except asyncio.CancelledError:
        ended.set()
        raise


async def asked(server: Server, uri: str, answer: Callable[[Asked], T], *, wide: bool = False) -> T | None:
    """Return the answer about a text, worked out beside the event loop; None for texts that do not use NKI.

    A `wide` answer looks through other files, in trees of its own, and does not keep others waiting.
    """
    modules = open_modules(server)
    module = server.checker.module(uri)
    if module is None:
        return None
    workspace = workspace_of(server, module.file, modules)

    def reply(reading: Reading | None) -> T | None:
        if reading is None or not reading.uses_nki:
            return None
        return answer(Asked(server, uri, module, reading, modules, Resolver(workspace)))

    if wide:
        return await searched(workspace, lambda: reply(workspace.reading(module.file)))
    return await server.trees.analysed(module, lambda facts: reply(server.readings.of(module.uri, facts)))
