"""The calls that this process has recorded: in memory at once, in their projects' files soon after."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, Final

from nki_lab.call_records import store
from nki_lab.call_records.choices import choices
from nki_lab.call_records.projects import project_of
from nki_lab.call_records.store import CallRecord

MOST_CALLS: Final = 64
"""Calls of one function that are kept in memory."""
MOST_KNOWN: Final = 1024
"""Calls of all functions by which equal ones are known."""
MOST_FUNCTIONS: Final = 512
"""Functions whose calls are kept in memory, the last ones that were called first."""
PAUSE_SECONDS: Final = 2.0
"""New calls are written so long after others at the earliest; the rest at the end of the process."""


class Recorder:
    """Calls by the file and name of their function. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], dict[str, CallRecord]] = {}
        self._codes: dict[tuple[int, str], CodeType] = {}
        self._waiting: dict[str, dict[tuple[str, str], dict[str, CallRecord]]] = {}
        self._lock = threading.RLock()
        self.epoch = 0
        """How often everything was dropped."""
        self._written = 0.0
        self._complained: set[str] = set()
        self.problems: list[str] = []
        """Sentences on what could not be written; each is also printed once to the error stream."""
        self.kept: dict[str, int] = {}
        """Calls that this process has written, by the path of the file."""

    def knows(self, code: CodeType, arguments: Mapping[str, Any], grid: tuple[int, ...], target: str) -> bool:
        """Return whether an equal launch of the same code has been taken."""
        return (id(code), store.key_of(arguments, grid, target, inner=False)) in self._codes

    def add(
        self, code: CodeType, arguments: Mapping[str, Any], grid: tuple[int, ...], target: str, *, inner: bool
    ) -> None:
        """Take one call; that of a function inside of another one only so that it is known."""
        key = store.key_of(arguments, grid, target, inner=inner)
        file, function = code.co_filename, code.co_name
        with self._lock:
            if len(self._codes) >= MOST_KNOWN:
                self._codes.clear()
            self._codes[id(code), key] = code
            if code.co_qualname != function or not function.isidentifier():
                return
            known = self._calls.setdefault((file, function), {})
            if len(self._calls) > MOST_FUNCTIONS:  # each notebook cell is a file of its own
                del self._calls[next(iter(self._calls))]
            if key in known or len(known) >= MOST_CALLS:
                return
            call = CallRecord(arguments=arguments, inner=inner, grid=grid, target=target, origins=(_origin(),))
            known[key] = call
            project = project_of(file)
            if project.folder and (project.records or choices.always):
                place = Path(os.path.abspath(file)).relative_to(project.folder).as_posix()  # noqa: PTH100
                entry = (place, function)
                self._waiting.setdefault(project.folder, {}).setdefault(entry, {})[key] = call
                if time.monotonic() - self._written >= PAUSE_SECONDS:
                    self.write()

    def calls(self, function: str, *, on_disk: bool | None = None) -> tuple[CallRecord, ...]:
        """Return the calls of functions of that name, the last function's newest first.

        With `on_disk` only those of functions in files, without it of functions in cells; of both where not given.
        """
        with self._lock:
            found = [
                call
                for (file, name), calls in self._calls.items()
                if name == function and on_disk in (None, Path(file).is_file())
                for call in calls.values()
            ]
        return tuple(reversed(found))

    def forget_code(self, files: Collection[str]) -> None:
        """Let go the functions of files whose functions are gone, and calls by which younger ones of a name stand."""
        with self._lock:
            for known in [known for known, code in self._codes.items() if code.co_filename in files]:
                del self._codes[known]
            younger: set[str] = set()
            for file, name in reversed(list(self._calls)):
                if file in files and name in younger:
                    del self._calls[file, name]
                younger.add(name)

    def write(self) -> None:
        """Write the calls that wait into their projects' files. What cannot be written is reported and dropped."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            for folder, table in waiting.items():
                self._write(folder, {function: tuple(calls.values()) for function, calls in table.items()})
            self._written = time.monotonic()

    def _write(self, folder: str, table: store.Table) -> None:
        place = store.place_of(folder)
        try:
            after = store.update(folder, lambda before: store.merged(before, table))
        except (OSError, ValueError) as error:
            self._complain(place, str(getattr(error, "strerror", None) or error))
            return
        if after.refused:
            self._complain(place, f"{after.problems[0]}; `nki-lab signatures --clear` removes the file")
        else:
            self.kept[str(place)] = self.kept.get(str(place), 0) + sum(map(len, table.values()))

    def _complain(self, place: Path, reason: str) -> None:
        text = f"nki_lab: calls are not recorded in {place}: {reason}"
        if text not in self._complained:
            self._complained.add(text)
            self.problems.append(text)
            print(text, file=sys.stderr)

    def forget(self) -> None:
        """Drop all calls, those that wait to be written too."""
        with self._lock:
            self._calls.clear()
            self._codes.clear()
            self._waiting.clear()
            self.epoch += 1


def _origin() -> str:
    if choices.origin:
        return choices.origin[: store.LONGEST]
    return _name_of(sys.argv[0] if sys.argv and isinstance(sys.argv[0], str) else "")


@cache
def _name_of(script: str) -> str:
    return Path(script).name[: store.LONGEST] if script and script.isprintable() and script != "-c" else "python"


recorder: Final = Recorder()
"""The calls of this process."""

atexit.register(recorder.write)
