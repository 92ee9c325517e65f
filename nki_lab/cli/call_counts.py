"""How much of the calls of NKI's functions in the checked files was checked: a sentence, a table, and plain data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nki_lab.printable import on_one_line
from nki_lab.quantities import share
from nki_lab.query.call_sites import REASONS, STATES, CallSite, State, counted, reached_elsewhere, reasons
from nki_lab.query.reach import Operation

if TYPE_CHECKING:
    from nki_lab.cli.checking import FileReport

VERSION: Final = 1
"""The version of the plain data: it grows when a name goes or changes its meaning, not when one is added."""


@dataclass(frozen=True, slots=True)
class FileCalls:
    """The calls of one file: `sites` by the names that findings give the file, or the cells of a notebook."""

    file: str
    sites: Mapping[str, Sequence[CallSite]]

    @property
    def all(self) -> list[CallSite]:
        """Return the calls of the file."""
        return [item for part in self.sites.values() for item in part]


def file_calls(reports: Iterable[FileReport]) -> list[FileCalls]:
    """Return the calls of each file, with what the runs of the other files came to."""
    items = list(reports)
    given: dict[str, set[Operation]] = {}
    assumed: dict[str, set[Operation]] = {}
    places: dict[str, str] = {}
    for table, operations in ((given, "given"), (assumed, "assumed")):
        for report in items:
            for operation in getattr(report, f"{operations}_elsewhere"):
                name = operation[0]
                place = places[name] if name in places else places.setdefault(name, os.path.realpath(name))
                table.setdefault(place, set()).add(operation)
    found = []
    for report in items:
        place = os.path.realpath(report.file)
        known, guessed = given.get(place, set()), assumed.get(place, set())
        sites = {
            name: reached_elsewhere(part, known, guessed) if name == report.file else part
            for name, part in report.sites.items()
        }
        found.append(FileCalls(report.file, sites))
    return found


def sentence(calls: Iterable[FileCalls]) -> str:
    """Return what no findings mean: empty where every call was checked with known shapes."""
    counts = counted(site for item in calls for site in item.all)
    total = sum(counts.values())
    if counts["fully"] == total:
        return ""
    parts = [
        f"{counts['fully'] or 'none'} checked with known shapes",
        f"{counts['partly']} with assumed or unknown arguments" * bool(counts["partly"]),
        f"{counts['by name']} by name only" * bool(counts["by name"]),
        f"{counts['skipped']} not at all" * bool(counts["skipped"]),
    ]
    return f"{total} NKI {'call' if total == 1 else 'calls'}: {', '.join(part for part in parts if part)}"


def as_table(calls: Iterable[FileCalls]) -> str:
    """Return the counts of each file and of all, and how often each reason is why a call is not checked fully."""
    shown = [item for item in calls if item.all]
    sites = [site for item in shown for site in item.all]
    rows = [["NKI calls", "all", *STATES]]
    rows += [[on_one_line(item.file), *_numbers(counted(item.all))] for item in shown]
    total = counted(sites)
    rows.append(["all files", *_numbers(total)])
    if sites:
        rows.append(["", "", *(share(total[state] / len(sites)) for state in STATES)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    if why := reasons(sites):
        lines += ["", "not checked fully, because"]
        width = len(str(max(why.values())))
        lines += [f"  {count:>{width}}  {state}: {REASONS[reason]}" for (state, reason), count in why.items()]
    return "\n".join(lines)


def _numbers(counts: Mapping[State, int]) -> list[str]:
    return [str(sum(counts.values())), *(str(counts[state]) for state in STATES)]


def as_data(calls: Iterable[FileCalls]) -> dict[str, Any]:
    """Return the counts of each file and of all, and the calls that are not checked fully, as plain data."""
    items = list(calls)
    return {
        "version": VERSION,
        "states": dict(STATES),
        "reasons": dict(REASONS),
        **_data(site for item in items for site in item.all),
        "files": [
            {"file": item.file, **_data(item.all), "sites": [_site(name, site) for name, site in _open(item)]}
            for item in items
        ],
    }


def _data(sites: Iterable[CallSite]) -> dict[str, Any]:
    found = list(sites)
    why = [{"state": state, "reason": reason, "count": count} for (state, reason), count in reasons(found).items()]
    return {"calls": len(found), "counts": dict(counted(found)), "because": why}


def _open(item: FileCalls) -> Iterable[tuple[str, CallSite]]:
    return ((name, site) for name, part in item.sites.items() for site in part if site.reason)


def _site(name: str, site: CallSite) -> dict[str, Any]:
    return {
        "file": name,
        "line": site.line,
        "column": site.column + 1,
        "name": site.name,
        "function": site.function,
        "state": site.state,
        "reason": site.reason,
    }
