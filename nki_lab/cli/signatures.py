"""The command `nki-lab signatures`: the recorded calls of functions, and what the checker makes of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.call_records import store
from nki_lab.call_records.store import CallRecord
from nki_lab.cli.kernels import Settings
from nki_lab.cli.scripts import USAGE
from nki_lab.diagnostic import NkiError
from nki_lab.file_system import relative
from nki_lab.printable import on_one_line
from nki_lab.source_files import is_kind

if TYPE_CHECKING:
    from nki_lab.query.evaluation_cache import Verdict

OPTIONS: Final[dict[str, Settings]] = {
    "paths": {
        "metavar": "PATH",
        "nargs": "*",
        "help": "files, or folders, whose functions are meant (default: the folder that you are in)",
    },
    "--target": {"help": "trn1, trn2 or trn3, as for check"},
    "--prune": {"action": "store_true", "help": "remove the calls that are not used, with the reason of each"},
    "--clear": {"action": "store_true", "help": "remove all calls, without looking at them"},
    "--format": {"choices": ("text", "json"), "default": "text", "help": "of what is printed (default: text)"},
}
"""The options of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A recorded call as the command shows it. `file` is its file's path from here."""

    file: str
    function: str
    call: CallRecord
    state: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        call = self.call
        return {
            "file": self.file,
            "function": self.function,
            "arguments": dict(call.arguments),
            "inner": call.inner,
            "grid": list(call.grid),
            "target": call.target,
            "from": list(call.origins),
            "state": self.state,
            "reason": self.reason,
        }


def signatures(arguments: argparse.Namespace) -> int:
    """List recorded calls, or remove some; 1 where a file of records cannot be read or written."""
    from nki_lab.cli.check import target_of
    from nki_lab.query.recorded import remarks

    if arguments.prune and arguments.clear:
        print("nki-lab signatures: error: --prune and --clear exclude each other", file=sys.stderr)
        return USAGE
    paths = [Path(item) for item in arguments.paths or ["."]]
    for path in paths:
        if not is_kind(path.exists):
            print(f"nki-lab signatures: error: {on_one_line(str(path))} does not exist", file=sys.stderr)
            return USAGE
    try:
        target = target_of(arguments.target)
    except NkiError as error:
        print(error, file=sys.stderr)
        return USAGE
    status = 0
    entries: list[Entry] = []
    removed: list[Entry] = []
    for folder, wanted in _projects(paths).items():
        contents = store.read(folder)
        for remark in () if arguments.clear else remarks(folder):
            print(remark, file=sys.stderr)
        if arguments.clear:
            whole = contents.refused and "" in wanted
            status |= _removed_file(folder) if whole else _changed(folder, partial(_without, wanted))
            removed += [_entry(folder, item, call, "removed", "") for item, call in _calls(contents.table, wanted)]
            continue
        status |= contents.refused
        try:
            found = _judged(folder, contents.table, wanted, target)
        except NkiError as error:  # of the project's settings
            print(error, file=sys.stderr)
            status = 1
            continue
        if arguments.prune:
            unused = {(item.file, item.function, item.call.key) for item in found if item.state != "used"}
            status |= _changed(folder, partial(_kept, folder, unused))
            removed += [item for item in found if item.state != "used"]
            found = [item for item in found if item.state == "used"]
        entries += found
    _print(arguments, entries, removed)
    return status


def _projects(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Return the folders of projects with the paths inside that are meant: "" is all of it."""
    from nki_lab.call_records.projects import folder_of

    found: dict[str, list[str]] = {}
    for path in paths:
        place = os.path.abspath(path)  # noqa: PTH100 - a link stays the path that users see
        if is_kind(path.is_dir):
            for below in _projects_below(place):
                found.setdefault(below, []).append("")
            folder = folder_of(place)
        else:
            folder = folder_of(os.path.dirname(place))  # noqa: PTH120 - as above
        if folder and "" not in found.get(folder, ()):
            inside = Path(relative(place, folder)).as_posix()
            found.setdefault(folder, []).append("" if inside == "." else inside)
    return found


def _projects_below(folder: str) -> list[str]:
    """Return the folders below that hold records of calls."""
    found = []
    for place, folders, _ in os.walk(folder):
        if store.FOLDER in folders and is_kind(store.place_of(place).exists):
            found.append(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
    return found


def _is_meant(file: str, wanted: Sequence[str]) -> bool:
    return any(not item or file == item or file.startswith(f"{item}/") for item in wanted)


def _calls(table: store.Table, wanted: Sequence[str]) -> list[tuple[store.Function, CallRecord]]:
    meant = [(function, calls) for function, calls in sorted(table.items()) if _is_meant(function[0], wanted)]
    return [(function, call) for function, calls in meant for call in calls]


def _entry(folder: str, function: store.Function, call: CallRecord, state: str, reason: str) -> Entry:
    file = relative(Path(folder, function[0]))
    return Entry(file=file, function=function[1], call=call, state=state, reason=reason)


def _judged(folder: str, table: store.Table, wanted: Sequence[str], target: str | None) -> list[Entry]:
    """Return the calls with what the checker makes of them."""
    found: list[Entry] = []
    files: dict[str, tuple[dict[tuple[str, str], Verdict], frozenset[str]] | None] = {}
    for function, call in _calls(table, wanted):
        file, name = function
        if file not in files:
            files[file] = _verdicts(Path(folder, file), target)
        known = files[file]
        verdict = None if known is None else known[0].get((name, call.key))
        if known is None:
            state, reason = "stale", f"{file} cannot be read"
        elif verdict is not None:
            state, reason = "used" if verdict.used else "stale" if verdict.stale else "not used", verdict.reason
        elif name in known[1]:
            state, reason = "not used", f"{name} is not evaluated"
        else:
            state, reason = "stale", f"{file} has no function {name} at its top level"
        found.append(_entry(folder, function, call, state, reason))
    return found


def _verdicts(file: Path, target: str | None) -> tuple[dict[tuple[str, str], Verdict], frozenset[str]] | None:
    """Return what a check of a file makes of its recorded calls, and its functions; None where it cannot be read."""
    from nki_lab.cli.checking import Job, examined_file
    from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
    from nki_lab.query.configuration import configuration_of

    settings = configuration_of(file.parent)
    job = Job(
        file=relative(file),
        target=target or settings.target or DEFAULT_TARGET,
        given=settings.signatures(file),
        library=settings.library(),
    )
    found = examined_file(job)
    return None if found is None else ({(item.function, item.call.key): item for item in found[0].recorded}, found[1])


def _without(wanted: Sequence[str], before: store.Table) -> store.Table:
    return {function: calls for function, calls in before.items() if not _is_meant(function[0], wanted)}


def _kept(folder: str, unused: set[tuple[str, str, str]], before: store.Table) -> store.Table:
    found = {}
    for function, calls in before.items():
        file = relative(Path(folder, function[0]))
        kept = tuple(call for call in calls if (file, function[1], call.key) not in unused)
        if kept:
            found[function] = kept
    return found


def _changed(folder: str, change: Callable[[store.Table], store.Table]) -> int:
    """Change a project's file; 1, with the reason, where that is not possible."""
    try:
        store.update(folder, change)
    except OSError as error:
        print(
            f"{on_one_line(str(store.place_of(folder)))} cannot be changed: {error.strerror or error}", file=sys.stderr
        )
        return 1
    return 0


def _removed_file(folder: str) -> int:
    """Remove a file that cannot be understood."""
    try:
        store.remove(folder)
    except OSError as error:
        print(
            f"{on_one_line(str(store.place_of(folder)))} cannot be removed: {error.strerror or error}", file=sys.stderr
        )
        return 1
    return 0


# -- texts -------------------------------------------------------------------------------------------------------------


def _print(arguments: argparse.Namespace, entries: Sequence[Entry], removed: Sequence[Entry]) -> None:
    if arguments.format == "json":
        found = {"calls": [item.as_dict() for item in entries], "removed": [item.as_dict() for item in removed]}
        print(json.dumps(found, indent=1))
        return
    place = ("", "")
    for item in entries:
        if (item.file, item.function) != place:
            place = item.file, item.function
            print(on_one_line(f"{item.file}::{item.function}"))
        print(f"  {_shown(item.call)}")
        print(f"    {item.state}: {item.reason}")
    if arguments.prune or arguments.clear:
        for item in removed if arguments.prune else ():
            print(f"removed {on_one_line(f'{item.file}::{item.function}')} {_shown(item.call)}")
            print(f"    {item.state}: {item.reason}")
        print(f"{_count(len(removed))} removed")
    if not arguments.clear:
        used = sum(item.state == "used" for item in entries)
        print(f"{_count(len(entries))}, {used} of them used" if entries else NOTHING)


NOTHING: Final = (
    "no recorded calls: record-signatures = true in [tool.nki-lab], or pytest --nki-record-signatures, records them"
)


def _count(number: int) -> str:
    return f"{number} call{'s' * (number != 1)}"


def _shown(call: CallRecord) -> str:
    """Return a call in one line: `x: float32[128,512], rows: 128 · trn2 · tests/test_a.py::test_b`."""
    values = ", ".join(f"{name}: {_value(data)}" for name, data in call.arguments.items())
    grid = f"[{', '.join(map(str, call.grid))}] " if call.grid else ""
    parts = (f"{grid}{values}", call.target, ", ".join(call.origins))
    return on_one_line(" · ".join(part for part in parts if part))


def _value(data: Any) -> str:
    match data:
        case {"tensor": str(text), "memory": str(memory)}:
            return f"{text} in {memory.upper()}"
        case {"tensor": text} | {"dtype": text} | {"member": text} | {"nki": text}:
            return str(text)
        case {"unknown": kind}:
            return f"<{kind}>"
        case {"object": name, "fields": dict(fields)}:
            return f"{name}({', '.join(f'{key}={_value(item)}' for key, item in fields.items())})"
        case {"tuple": list(items)}:
            return f"({', '.join(map(_value, items))})"
        case list():
            return f"[{', '.join(map(_value, data))}]"
        case _:
            return json.dumps(data, ensure_ascii=False)
