"""The findings in the files of the editor's folders that are not open, examined in a process of their own.

Only files that use NKI are examined, and none that a project excludes. Notebooks are passed over: the places of their
findings are in cells, which have no address while the notebook is closed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.checker import Unit, examination_of
from nki_lab.lsp.examiner import Examiner
from nki_lab.lsp.messages import Answer, Buffers, Job, Reset
from nki_lab.lsp.settings import Settings
from nki_lab.lsp.texts import Module, Text, module_of
from nki_lab.query.source_tree import Sources, uses_nki
from nki_lab.source.module import decoded
from nki_lab.source_files import read_source

MOST_BYTES: Final = 4 << 20
"""Size of a file beyond which it is passed over."""
MOST_FILES: Final = 20_000
"""Files of all folders that are looked at."""
IDLE_SECONDS: Final = 20.0
"""The process ends after so long without work."""

Stamp = tuple[int, int]
Reports = Callable[[Unit, Module], dict[str, list[lsp.Diagnostic]]]


@dataclass(frozen=True, slots=True)
class Known:
    """The findings in a file, as of the `stamps` of the files that they depend on, its own included."""

    found: list[lsp.Diagnostic]
    stamps: dict[str, Stamp | None]


class ProjectFindings:
    """Keeps the findings of the files below `folders`.

    `reports` makes the editor's findings of ours, `buffers` gives the texts of open files.
    """

    def __init__(self, settings: Settings, reports: Reports, buffers: Callable[[], Buffers]) -> None:
        self.folders: dict[str, Path] = {}
        self._settings = settings
        self._reports = reports
        self._buffers = buffers
        self._examiner: Examiner | None = None
        self._known: dict[Path, Known] = {}
        self._waits: dict[str, asyncio.Future[Answer]] = {}
        self._uses: dict[Path, tuple[Stamp, bool]] = {}
        self._ending: asyncio.TimerHandle | None = None
        self._revision = 0
        self._changes = 0
        self._changed = asyncio.Event()

    def set_folders(self, folders: dict[str, str]) -> None:
        """Set the editor's folders: paths by URI."""
        self.folders = {uri: Path(path) for uri, path in folders.items() if path}
        self.note_change()

    def note_change(self, path: str = "") -> None:
        """Take note of a change: of a file that is edited, or of anything."""
        self._changes += 1
        if path:
            for file in [file for file, known in self._known.items() if path in known.stamps]:
                del self._known[file]
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """Forget all findings, after a change of settings."""
        self._known.clear()
        if self._examiner is not None:
            self._examiner.tell(Reset())
        self.note_change()

    @property
    def changes(self) -> int:
        """Return the count of changes so far."""
        return self._changes

    async def next_change(self, seen: int) -> None:
        """Wait until there are more changes than were `seen`."""
        while self._changes == seen:
            await self._changed.wait()

    async def files(self) -> list[Path]:
        """Return the files that use NKI and are checked, in the order of their names."""
        return await asyncio.to_thread(self._files)

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for path in _python_files(self.folders.values()):
            stamp = _stamp(path)
            if stamp is None or stamp[1] > MOST_BYTES:
                continue
            known = self._uses.get(path)
            if known is None or known[0] != stamp:
                known = self._uses[path] = stamp, _uses_nki(path)
            if known[1]:
                found.append(path)
        return found

    async def of(self, path: Path) -> list[lsp.Diagnostic]:
        """Return the findings in a file, none where it cannot be read; known ones that hold are given again."""
        known = self._known.get(path)
        if known is None or any(_stamp(Path(item)) != stamp for item, stamp in known.stamps.items()):
            known = await self._examined(path)
            self._known[path] = known
        return known.found

    async def _examined(self, path: Path) -> Known:
        own = _stamp(path)
        try:
            source = await asyncio.to_thread(read_source, path, MOST_BYTES)
        except (OSError, ValueError):
            return Known([], {str(path): own})
        changes = self._changes
        answer = await self._ask(path, source)
        module = _module(path, source)
        unit = Unit(module.uri, module=module, known_module=module)
        unit.known = examination_of(answer, str(path), answer.syntax)
        found = self._reports(unit, module).get(module.uri, [])
        open_files = self._buffers().texts if changes == self._changes else ()
        reads = {item: None if item in open_files else _stamp(Path(item)) for item in answer.reads}
        return Known(found, {**reads, str(path): own})

    async def _ask(self, path: Path, source: bytes) -> Answer:
        if self._ending is not None:
            self._ending.cancel()
        if self._examiner is None:
            self._examiner = Examiner(background=True)
            self._examiner.answered = self._answered
        key, self._revision = str(path), self._revision + 1
        settings = self._settings
        target = settings.arch(key).target
        self._examiner.greeting = self._buffers
        self._examiner.tell(self._buffers())
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waits[key] = future
        job = Job(key, self._revision, key, source, False, target, settings.steps(key), settings.python(key))
        self._examiner.examine(job)
        try:
            return await future
        except asyncio.CancelledError:
            self._examiner.forget(key)
            raise
        finally:
            self._waits.pop(key, None)
            if not self._waits:
                self._ending = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end)

    def _answered(self, answer: Answer) -> None:
        future = self._waits.get(answer.key)
        if future is not None and not future.done() and (answer.examination is not None or answer.failure):
            future.set_result(answer)

    def _end(self) -> None:
        if self._examiner is not None and not self._waits:
            examiner, self._examiner = self._examiner, None
            self._closing = asyncio.ensure_future(examiner.close())

    async def close(self) -> None:
        """End the process."""
        if self._ending is not None:
            self._ending.cancel()
        if self._examiner is not None:
            await self._examiner.close()


def _python_files(folders: Iterable[Path]) -> Iterable[Path]:
    """Yield the Python files in folders, each once, without what projects exclude."""
    seen: set[str] = set()
    tree = Sources()
    for folder in folders:
        for path in tree.below(folder):
            real = os.path.realpath(path)
            if path.suffix != ".py" or real in seen or tree.is_excluded(path):
                continue
            seen.add(real)
            if len(seen) > MOST_FILES:
                return
            yield path


def _stamp(path: Path) -> Stamp | None:
    """Return what tells that a file has changed; None where there is no regular file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _uses_nki(path: Path) -> bool:
    try:
        return uses_nki(read_source(path, MOST_BYTES))
    except (OSError, ValueError):
        return False


def _module(path: Path, source: bytes) -> Module:
    """Return a file as a module of the editor's."""
    try:
        text = decoded(source)[0]
    except (SyntaxError, UnicodeError, LookupError):
        text = source.decode(errors="replace")
    return module_of(path.as_uri(), [Text(lsp.TextDocumentItem(path.as_uri(), "python", 0, text))], is_notebook=False)
