"""The file of a project's call records, `.nki-lab/signatures.json`: read as data, merged and replaced as a whole.

```json
{"version": 1,
 "functions": {
  "kernels/softmax.py::softmax": [
   {"arguments": {"x": {"tensor": "bfloat16[128,512]"}, "axis": 1}, "inner": false, "grid": [], "target": "trn2",
    "from": ["tests/test_softmax.py::test_rows"]}]}}
```

The order of the functions is that of their names, and the order of a function's calls depends on the calls alone.
"""

# Files are replaced and opened as descriptors.

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from nki_lab.file_system import locked, remove_file, write_whole
from nki_lab.source_files import read_source

FOLDER: Final = ".nki-lab"
FILE: Final = "signatures.json"
VERSION: Final = 1
MOST_CALLS: Final = 16
"""Calls of one function that a file holds."""
MOST_FUNCTIONS: Final = 4096
MOST_ORIGINS: Final = 3
"""Tests or scripts that a call names as its origin."""
MOST_BYTES: Final = 1 << 20
"""Size of the file that is written; beyond it each function has fewer calls."""
MOST_READ: Final = 4 << 20
"""Size of the file beyond which it is not read."""
DEPTH: Final = 32
"""Containers inside of containers in the data of a call."""
LONGEST: Final = 512
"""Characters of a name or a path."""

_NAME: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One way in which a function was called: arguments as data by parameter, launch grid, target, and where from.

    `inner` calls are those inside of a kernel, of a helper or of another kernel; others are launches.
    """

    arguments: Mapping[str, Any]
    inner: bool = False
    grid: tuple[int, ...] = ()
    target: str = ""
    origins: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the call as text: equal for calls that differ in their origin only."""
        return key_of(self.arguments, self.grid, self.target, inner=self.inner)

    @property
    def kind(self) -> str:
        """Return the text of the call without numbers: calls of different kinds are likely to take other branches."""
        return re.sub(r"\d+", "#", self.key)

    def joined(self, other: CallRecord) -> CallRecord:
        """Return the call with the origins of an equal one."""
        return replace(self, origins=tuple(sorted({*self.origins, *other.origins})[:MOST_ORIGINS]))


def key_of(arguments: Mapping[str, Any], grid: tuple[int, ...], target: str, *, inner: bool) -> str:
    """Return a call as text, but for its origins."""
    return repr((target, inner, grid, arguments))  # in a quarter of the time of JSON


Function = tuple[str, str]
"""A file, as a path from the project's folder with slashes, and the name of a function at its top level."""
Table = Mapping[Function, tuple[CallRecord, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a file: the calls, and one sentence on each part that was not understood.

    A `refused` file is left as it is: nothing is known of what it holds.
    """

    table: Table = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    refused: bool = False


def place_of(folder: str | Path) -> Path:
    """Return the path of a project's file."""
    return Path(folder, FOLDER, FILE)


def read(folder: str | Path) -> Contents:
    """Return the contents of a project's file; empty where there is none. Whatever the file holds, this returns."""
    path = place_of(folder)
    try:
        found = path.stat()
    except (OSError, ValueError):
        return Contents()
    return _read(str(path), (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=8)
def _read(path: str, _stamp: tuple[int, int, int]) -> Contents:
    try:
        text = read_source(path, MOST_READ).decode("utf-8")
        whole = json.loads(text, parse_constant=_no_constant)
    except OSError as error:
        return Contents(problems=(f"it cannot be read: {error.strerror or error}",), refused=True)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is no JSON: {error}"
        return Contents(problems=(reason[:LONGEST],), refused=True)
    return _Reader().contents(whole)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


class _Reader:
    """Validates a file's contents; a part that is not as it should be is left out."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def contents(self, whole: object) -> Contents:
        if not isinstance(whole, dict) or not isinstance(whole.get("functions"), dict):
            return Contents(problems=("it has no table of functions",), refused=True)
        if whole.get("version") != VERSION:
            reason = f"its version is {whole.get('version')!r:.40}, this release reads version {VERSION}"
            return Contents(problems=(reason,), refused=True)
        table: dict[Function, tuple[CallRecord, ...]] = {}
        for name, calls in list(whole["functions"].items())[:MOST_FUNCTIONS]:
            function = _function(name)
            if function is None or not isinstance(calls, list):
                self.problems.append(f"{name!r:.200} is no list of calls of a function FILE::NAME")
                continue
            found = [self._call(name, number, call) for number, call in enumerate(calls[: 2 * MOST_CALLS])]
            if kept := tuple(item for item in found if item is not None):
                table[function] = kept
        return Contents(table=table, problems=tuple(self.problems[:8]))

    def _call(self, name: str, number: int, call: object) -> CallRecord | None:
        table = call if isinstance(call, dict) else {}
        arguments, grid = table.get("arguments"), table.get("grid", [])
        target, origins, inner = table.get("target", ""), table.get("from", []), table.get("inner", False)
        right = (
            isinstance(arguments, dict)
            and all(key.isidentifier() and len(key) <= LONGEST for key in arguments)
            and _is_shallow(arguments, DEPTH)
            and isinstance(grid, list)
            and len(grid) <= 4
            and all(type(size) is int and 0 < size < 1 << 20 for size in grid)
            and isinstance(inner, bool)
            and isinstance(target, str)
            and isinstance(origins, list)
            and all(isinstance(item, str) for item in origins)
        )
        if not right:
            self.problems.append(f"call {number + 1} of {name!r:.200} is not as calls are written")
            return None
        assert isinstance(arguments, dict)
        shown = tuple(item[:LONGEST] for item in origins[:MOST_ORIGINS] if item.isprintable())
        return CallRecord(arguments=arguments, inner=inner, grid=tuple(grid), target=target[:16], origins=shown)


def _is_shallow(data: object, depth: int) -> bool:
    """Return whether data has no more than `depth` containers inside of each other."""
    if not isinstance(data, list | dict):
        return True
    parts = data.values() if isinstance(data, dict) else data
    return depth > 0 and all(_is_shallow(part, depth - 1) for part in parts)


def _function(name: str) -> Function | None:
    file, _, function = name.rpartition("::")
    path = PurePosixPath(file)
    wrong = not file or path.is_absolute() or ".." in path.parts or not file.isprintable() or len(name) > LONGEST
    return None if wrong or "\\" in file or not _NAME.fullmatch(function) else (file, function)


# -- writing -----------------------------------------------------------------------------------------------------------


def merged(first: Table, second: Table) -> dict[Function, tuple[CallRecord, ...]]:
    """Return the calls of two tables; of one function at most `MOST_CALLS`, of as many kinds as there are."""
    found: dict[Function, dict[str, CallRecord]] = {}
    for table in (first, second):
        for function, calls in table.items():
            known = found.setdefault(function, {})
            for call in calls:
                known[call.key] = known[call.key].joined(call) if call.key in known else call
    return {function: chosen(calls.values()) for function, calls in found.items()}


def chosen(calls: Iterable[CallRecord], most: int = MOST_CALLS) -> tuple[CallRecord, ...]:
    """Return at most so many calls, one of each kind first; the order depends on the calls alone."""
    kinds: dict[str, list[CallRecord]] = {}
    for call in sorted(calls, key=lambda item: (len(item.key), item.key)):
        kinds.setdefault(call.kind, []).append(call)
    ranked = [(number, kind, call) for kind, group in kinds.items() for number, call in enumerate(group)]
    return tuple(call for _, _, call in sorted(ranked, key=lambda item: item[:2])[:most])


def text_of(table: Table) -> str:
    """Return the text of a file, one call a line, with as many calls as `MOST_BYTES` allows."""
    most = MOST_CALLS
    while True:
        blocks = []
        for (file, name), calls in sorted(table.items())[:MOST_FUNCTIONS]:
            lines = ",\n".join(f"   {_line(call)}" for call in chosen(calls, most))
            blocks.append(f"  {json.dumps(f'{file}::{name}', ensure_ascii=False)}: [\n{lines}]")
        text = f'{{"version": {VERSION},\n "functions": {{\n' + ",\n".join(blocks) + "}}\n"
        if most == 1 or len(text.encode()) <= MOST_BYTES:
            return text
        most //= 2


def _line(call: CallRecord) -> str:
    parts = {"arguments": call.arguments, "inner": call.inner, "grid": call.grid}
    return json.dumps({**parts, "target": call.target, "from": call.origins}, ensure_ascii=False)


def update(folder: str | Path, change: Callable[[Table], Table]) -> Contents:
    """Replace a project's calls by what `change` makes of them, and return the contents then; other processes wait.

    Raises OSError where the file cannot be written. A file that is `refused` stays as it is.
    """
    place = place_of(folder)
    if place.parent.is_symlink():
        raise OSError(0, f"{FOLDER} is a link to another folder")
    place.parent.mkdir(exist_ok=True)
    with locked(place.parent):
        before = read(folder)
        if before.refused:
            return before
        table = change(before.table)
        text = text_of(table)
        if not table and not place.exists():
            return before
        with suppress(OSError):
            if read_source(place, MOST_READ) == text.encode():
                return before
        if place.is_symlink():  # a project may come with one that leads anywhere
            remove_file(place)
        write_whole(place, text.encode("utf-8"))
    return Contents(table=table)


def remove(folder: str | Path) -> None:
    """Remove a project's file, whatever it holds; OSError where that is not possible."""
    remove_file(place_of(folder))
