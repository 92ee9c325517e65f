"""The command `nki-lab check`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from nki_lab.cli import colour
from nki_lab.cli.kernels import Settings
from nki_lab.cli.report import FORMATS, as_json, text
from nki_lab.cli.sarif import sarif
from nki_lab.cli.scripts import USAGE
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.own_faults import version
from nki_lab.printable import on_one_line, printable
from nki_lab.source_files import UnsuitableFileError, line_of, lines_of, read_stream

if TYPE_CHECKING:
    from nki_lab.cli.call_counts import FileCalls
    from nki_lab.cli.checking import FileReport, Job
    from nki_lab.export.coverage_pages import SourceFile
    from nki_lab.query.configuration import Configuration

_MOST_DIGITS: Final = 9

STANDARD_INPUT: Final = "-"
"""The path that stands for a text from standard input; a file of that name is ./-."""
STANDARD_INPUT_NAME: Final = "<stdin>"
"""The name that findings give it, as Python does."""


def _count(value: str) -> int:
    if not value.isdecimal() or len(value) > _MOST_DIGITS or not int(value):
        raise argparse.ArgumentTypeError(f"{value!r} is no number of processes, which is 1 or more")
    return int(value)


OPTIONS: Final[dict[str, Settings]] = {
    "paths": {
        "metavar": "PATH",
        "nargs": "+",
        "help": "files, or folders whose .py files and notebooks are checked; - for a Python text from standard input",
    },
    "--target": {"help": "trn1, trn2 or trn3; else the environment's or the project's target"},
    "--format": {"choices": tuple(FORMATS), "default": "text", "help": "of the findings (default: text)"},
    "--select": {
        "action": "append",
        "default": [],
        "metavar": "CODES",
        "help": "only codes that begin so: NKI2,NKI301; in place of the project's choice",
    },
    "--ignore": {
        "action": "append",
        "default": [],
        "metavar": "CODES",
        "help": "no codes that begin so, beside those that the project ignores",
    },
    "--fix": {
        "action": "store_true",
        "help": "mend what has one exact remedy; notebooks are left alone, and - is refused",
    },
    "--diff": {
        "action": "store_true",
        "help": "show what --fix would change, and change nothing; exit status 1 if it would",
    },
    "--sarif": {
        "metavar": "FILE",
        "help": "write the findings as SARIF into a file, whatever is printed",
    },
    "--statistics": {
        "action": "store_true",
        "help": "count the calls of NKI: checked fully, partly, by name only or not at all, and why",
    },
    "--possible": {
        "action": "store_true",
        "help": "show what is wrong for some arguments of functions without shapes, with values that show it",
    },
    "--coverage-html": {
        "metavar": "FOLDER",
        "help": "write pages that mark the calls of NKI by how much of each was checked",
    },
    "--jobs": {"type": _count, "metavar": "N", "help": "processes (default: by processors and files)"},
    "--force-exclude": {
        "action": "store_true",
        "help": "leave out what the project excludes even where it is named here",
    },
}
"""The options of the command."""


def check(arguments: argparse.Namespace) -> int:
    """Check files, print the findings; 1 where there are errors, 2 where the command line names what is not there."""
    from nki_lab.cli.call_counts import file_calls
    from nki_lab.cli.checking import check_files, default_processes
    from nki_lab.cli.shape_names import misnamed_shapes, missing_folders
    from nki_lab.export.coverage_pages import require_writable, write
    from nki_lab.query.recorded import remarks
    from nki_lab.query.source_tree import Sources

    reads = STANDARD_INPUT in arguments.paths
    if reads and arguments.fix and not arguments.diff:
        return _misused("--fix cannot change standard input: take --diff, which prints the changes, or name a file")
    try:
        select, ignore = _codes("--select", arguments.select), _codes("--ignore", arguments.ignore)
        target = target_of(arguments.target)
        if arguments.coverage_html is not None:
            require_writable(arguments.coverage_html)
        text = _standard_input() if reads else None
    except (NkiError, ValueError) as error:
        if not isinstance(error, NkiError):
            return _misused(str(error))
        print(colour.shown(str(error), sys.stderr, arguments.color), file=sys.stderr)
        return USAGE
    gathered = Sources(arguments.force_exclude)
    for path in arguments.paths:
        if path == STANDARD_INPUT:
            gathered.add_text(Path(STANDARD_INPUT_NAME))
        else:
            gathered.add(Path(path))
    gathered.found += [*misnamed_shapes(gathered.files), *missing_folders(gathered.files)]
    jobs = [_job(arguments, file, settings, target, select, ignore) for file, settings in gathered.files]
    jobs = [replace(job, content=text) if job.file == STANDARD_INPUT_NAME else job for job in jobs]
    reports = list(check_files(jobs, arguments.jobs or default_processes(len(jobs))))
    folders = dict.fromkeys(str(settings.folder) for _, settings in gathered.files if settings.folder is not None)
    unread = [item for folder in folders for item in remarks(folder)]
    found = [*gathered.found, *unread, *(item for report in reports for item in report.findings)]
    calls = file_calls(reports)
    if arguments.coverage_html is not None:
        write(_pages(reports, calls, found), arguments.coverage_html)
    if arguments.diff:
        return _show_diff(reports, found)
    shown = _once(found)
    _print(arguments, shown, reports, calls)
    if arguments.sarif is not None:
        _write_sarif(arguments.sarif, shown, reports)
    return 1 if any(item.severity == "error" for item in found) else 0


def _misused(reason: str) -> int:
    """Report a mistake of the command line as the parser reports its own."""
    print(f"nki-lab check: error: {reason}", file=sys.stderr)
    return USAGE


def _standard_input() -> bytes:
    """Return the text that stands in standard input; ValueError where none does."""
    try:
        return read_stream(None if sys.stdin is None else sys.stdin.buffer)
    except UnsuitableFileError as error:
        raise ValueError(f"- reads standard input, but {error.strerror}: pipe a text into it, or name a file") from None


def _once(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return findings, each code once at a place: several kernels may call a helper, whose own file is checked too.

    The arguments of a call are told once, and so is a hint that holds at several places.
    """
    from nki_lab.query.grouping import grouped
    from nki_lab.query.messages import shapes_once

    first: dict[object, Diagnostic] = {}
    for item in found:
        first.setdefault((item.code, item.span or item.message), item)
    return grouped(shapes_once(first.values()))


def target_of(given: str | None) -> str | None:
    """Return the target that the command line or the environment names; NKI004 where there is none of the name."""
    from nki_lab.dialects.environment import TARGET_VARIABLE, resolve_target

    named = given if given is not None else os.environ.get(TARGET_VARIABLE, "").strip() or None
    return None if named is None else resolve_target(given).target


def _codes(option: str, texts: Sequence[str]) -> tuple[str, ...]:
    from nki_lab.query.configuration import selectors, split

    try:
        return selectors(split(texts))
    except ValueError as error:
        raise ValueError(f"{option}: no code begins with {str(error)!r}") from None


def _job(
    arguments: argparse.Namespace,
    file: Path,
    settings: Configuration,
    target: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> Job:
    from nki_lab.cli.checking import Job
    from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
    from nki_lab.query.configuration import Selection

    return Job(
        file=str(file),
        target=target or settings.target or DEFAULT_TARGET,
        selection=Selection(select=select or settings.select, ignore=(*settings.ignore, *ignore)),
        given=settings.signatures(file),
        library=settings.library(),
        fixes=arguments.fix or arguments.diff,
        writes=arguments.fix and not arguments.diff,
        keeps_text=arguments.coverage_html is not None,
        possible=arguments.possible,
    )


def _pages(
    reports: Sequence[FileReport], calls: Sequence[FileCalls], found: Sequence[Diagnostic]
) -> Iterator[SourceFile]:
    """Yield the files with their lines, calls and findings; those of a helper stand in its own file."""
    from nki_lab.export.coverage_pages import Part, SourceFile

    by_name: dict[str, list[Diagnostic]] = {}
    for item in dict.fromkeys(found):
        by_name.setdefault(os.path.realpath(item.file), []).append(item)
    for report, known in zip(reports, calls, strict=True):
        parts = [
            Part(
                title="" if name == report.file else name.removeprefix(f"{report.file}:"),
                lines=lines,
                sites=known.sites.get(name, ()),
                findings=by_name.get(os.path.realpath(name), ()),
            )
            for name, lines in report.texts.items()
        ]
        yield SourceFile(file=report.file, parts=parts)


def _show_diff(reports: Sequence[FileReport], found: Sequence[Diagnostic]) -> int:
    """Print the changes that `--fix` would make."""
    for report in reports:
        sys.stdout.write(report.diff)
    changed = sum(bool(report.diff) for report in reports)
    print(f"{_files(changed)} would change", file=sys.stderr)
    _print_unmended(reports, sys.stderr)
    unread = [item for item in found if item.code in ("NKI018", "NKI024") and item.severity == "error"]
    for item in unread:
        print(item, file=sys.stderr)
    return 1 if changed or unread else 0


def _write_sarif(file: str, found: Sequence[Diagnostic], reports: Sequence[FileReport]) -> None:
    """Write the findings into a file, all or nothing; NKI021 where the disk does not take it."""
    from nki_lab.export.files import replacing

    with replacing(file) as stream:
        stream.write(f"{_as_sarif(found, reports)}\n".encode())


def _as_sarif(found: Sequence[Diagnostic], reports: Sequence[FileReport]) -> str:
    cells = {name: lines for report in reports for name, lines in report.texts.items()}
    return sarif(found, version(), lambda name: cells[name] if name in cells else lines_of(name))


def _print(
    arguments: argparse.Namespace,
    found: Sequence[Diagnostic],
    reports: Sequence[FileReport],
    calls: Sequence[FileCalls],
) -> None:
    from nki_lab.cli.call_counts import as_data, as_table, sentence

    kind, counting = arguments.format, arguments.statistics
    others = sys.stdout if kind == "text" else sys.stderr
    if kind == "text":
        cells = {name: lines for report in reports for name, lines in report.texts.items()}
        blocks = text(found, source_line=partial(_line, cells), calls=sentence(calls))
        print(colour.shown(blocks, sys.stdout, arguments.color))
    elif kind == "sarif":
        print(_as_sarif(found, reports))
    else:
        print(as_json(found, as_data(calls)) if counting and kind == "json" else FORMATS[kind](found))
    fixed = [report.fixed for report in reports if report.fixed]
    if fixed:
        print(f"{sum(fixed)} mended in {_files(len(fixed))}", file=others)
    _print_unmended(reports, others)
    left = [item for report in reports for item in report.left]
    if left:
        print(f"left: {len(left)} {'fix' if len(left) == 1 else 'fixes'} that would bring an error along", file=others)
    for item, error in left:
        place = f"{on_one_line(item.file)}:{item.line}:{item.column}"
        print(printable(f"  {place}: {item.code}: {error.code} {error.message} (line {error.line})"), file=others)
    if counting and kind != "json":
        print(f"\n{as_table(calls)}" if kind == "text" else as_table(calls), file=others)


def _print_unmended(reports: Sequence[FileReport], stream: TextIO) -> None:
    """Print the files of which nothing can be mended, with the reason of each."""
    for report in reports:
        if report.unmended:
            print(f"left: {on_one_line(report.file)}: {report.unmended}, so nothing in it is mended", file=stream)


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"


def _line(cells: Mapping[str, Sequence[str]], file: str, number: int) -> str:
    """Return a line of a file or of a notebook's cell."""
    lines = cells.get(file)
    if lines is None:
        return line_of(file, number)
    return lines[number - 1] if 0 < number <= len(lines) else ""
