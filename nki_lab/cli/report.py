"""Texts of the command line: findings in several formats, and explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nki_lab.cli.sarif import cell_of, from_here, physical, sarif, sentence
from nki_lab.diagnostic import Diagnostic, coded_error, render
from nki_lab.export.findings import counts
from nki_lab.isa.spelling import did_you_mean
from nki_lab.own_faults import version
from nki_lab.printable import as_json as dumped
from nki_lab.printable import on_one_line, printable

_GITHUB_LEVELS: Final = {"error": "error", "warning": "warning", "information": "notice", "hint": "notice"}


def text(found: Sequence[Diagnostic], *, source_line: Callable[[str, int], str] | None = None, calls: str = "") -> str:
    """The findings one below the other, and how many there are.

    `source_line` gives the line of a file by its number, where that is not on disk. `calls` says how much was checked:
    it stands where there are no findings.
    """
    blocks = [f"{item.severity}: {render(item, source_line=source_line)}" for item in found]
    nothing = f"no findings in {calls}" if calls else "no findings"
    return "\n\n".join([*blocks, counts(found) or nothing])


def as_json(found: Sequence[Diagnostic], calls: Mapping[str, Any] | None = None) -> str:
    """A list of the findings as plain data, in the field names of `Diagnostic`.

    With `calls` it is a dict: `findings` has the list, `nki_calls` how much of NKI's calls was checked.
    """
    items = [item.as_dict() for item in found]
    return dumped(items if calls is None else {"findings": items, "nki_calls": calls})


def github(found: Sequence[Diagnostic]) -> str:
    """Workflow commands that make GitHub show the findings in a change's files."""
    return "\n".join(f"::{_GITHUB_LEVELS[item.severity]} {_place(item)}::{_data(sentence(item))}" for item in found)


def _place(item: Diagnostic) -> str:
    """The properties of a workflow command. GitHub shows columns of one line only, and knows no cells of notebooks."""
    span = item.span
    parts = []
    if span is not None:
        parts.append(f"file={_property(from_here(physical(span)))}")
        if not cell_of(span):
            parts += [f"line={span.line}", f"endLine={span.end_line}"]
            if span.line == span.end_line:
                # Our end is exclusive, GitHub's is the last column.
                parts += [f"col={span.column}", f"endColumn={max(span.column, span.end_column - 1)}"]
    return ",".join([*parts, f"title={_property(item.code)}"])


def _data(value: str) -> str:
    return printable(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(on_one_line(value)).replace(":", "%3A").replace(",", "%2C")


FORMATS: Final[dict[str, Callable[[Sequence[Diagnostic]], str]]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": lambda found: sarif(found, version()),
}


def explain(name: str) -> str:
    """The text about a code (by number, slug or alias), an instruction or a name of `nki.language`.

    It is what hovers and the documentation show. NKI006 for anything else.
    """
    from nki_lab.query import explain as explanation
    from nki_lab.query.pages import known_names

    found = explanation(name)
    if found is not None:
        return found.rstrip()
    near = did_you_mean(name, [*known_names()]) or "for example NKI213, moving-limit or nisa.nc_matmul"
    raise coded_error("NKI006", f"{name!r} is no code and no name of NKI", help=near)
