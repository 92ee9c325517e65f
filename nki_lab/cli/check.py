"""The command `nki-lab check`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nki_lab.cli.kernels import Settings
from nki_lab.cli.report import FORMATS, text
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.source_files import line_of

if TYPE_CHECKING:
    from nki_lab.cli.checking import FileReport, Job
    from nki_lab.query.configuration import Configuration

USAGE: Final = 2


def _count(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 process is needed")
    return number


OPTIONS: Final[dict[str, Settings]] = {
    "paths": {
        "metavar": "PATH",
        "nargs": "+",
        "help": "files, or folders whose .py files and notebooks are checked",
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
    "--fix": {"action": "store_true", "help": "mend what has one exact remedy; notebooks are left alone"},
    "--diff": {
        "action": "store_true",
        "help": "show what --fix would change, and change nothing; exit status 1 if it would",
    },
    "--statistics": {
        "action": "store_true",
        "help": "say how many calls of NKI were evaluated, and which were not",
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
    from nki_lab.cli.checking import check_files, default_processes
    from nki_lab.cli.sources import Sources
    from nki_lab.query.recorded import remarks

    try:
        select, ignore = _codes("--select", arguments.select), _codes("--ignore", arguments.ignore)
        target = target_of(arguments.target)
    except (NkiError, ValueError) as error:
        print(error if isinstance(error, NkiError) else f"nki-lab check: error: {error}", file=sys.stderr)
        return USAGE
    gathered = Sources(arguments.force_exclude)
    for path in arguments.paths:
        gathered.add(Path(path))
    jobs = [_job(arguments, file, settings, target, select, ignore) for file, settings in gathered.files]
    reports = list(check_files(jobs, arguments.jobs or default_processes(len(jobs))))
    folders = dict.fromkeys(str(settings.folder) for _, settings in gathered.files if settings.folder is not None)
    unread = [item for folder in folders for item in remarks(folder)]
    found = [*gathered.found, *unread, *(item for report in reports for item in report.findings)]
    if arguments.diff:
        return _show_diff(reports, found)
    _print(arguments.format, list(dict.fromkeys(found)), reports)  # files may share a module, and so its findings
    if arguments.statistics:
        print(_statistics(reports), file=sys.stdout if arguments.format == "text" else sys.stderr)
    return 1 if any(item.severity == "error" for item in found) else 0


def _statistics(reports: Sequence[FileReport]) -> str:
    """Return how many calls of NKI were evaluated, and the lines of the others."""
    operations = {item for report in reports for item in report.operations}
    unknown = {item for report in reports for item in report.unknown}
    lines = [f"{file}:{line}:{column + 1}: not evaluated" for file, line, column in sorted(unknown)]
    share = f" ({len(unknown) / len(operations):.1%})" if operations else ""
    return "\n".join([*lines, f"unknown {len(unknown)} of {len(operations)} operations{share}"])


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
    )


def _show_diff(reports: Sequence[FileReport], found: Sequence[Diagnostic]) -> int:
    """Print the changes that `--fix` would make."""
    for report in reports:
        sys.stdout.write(report.diff)
    changed = sum(bool(report.diff) for report in reports)
    print(f"{_files(changed)} would change", file=sys.stderr)
    unread = [item for item in found if item.code in ("NKI018", "NKI024")]
    for item in unread:
        print(item, file=sys.stderr)
    return 1 if changed or unread else 0


def _print(kind: str, found: Sequence[Diagnostic], reports: Sequence[FileReport]) -> None:
    cells = {name: lines for report in reports for name, lines in report.texts.items()}
    print(text(found, source_line=partial(_line, cells)) if kind == "text" else FORMATS[kind](found))
    fixed = [report.fixed for report in reports if report.fixed]
    if fixed:
        print(f"{sum(fixed)} mended in {_files(len(fixed))}", file=sys.stdout if kind == "text" else sys.stderr)


def _files(count: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'}"


def _line(cells: Mapping[str, Sequence[str]], file: str, number: int) -> str:
    """Return a line of a file or of a notebook's cell."""
    lines = cells.get(file)
    if lines is None:
        return line_of(file, number)
    return lines[number - 1] if 0 < number <= len(lines) else ""
