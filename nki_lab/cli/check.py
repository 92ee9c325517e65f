"""The command `nki-lab check`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nki_lab.cli.report import FORMATS, text
from nki_lab.diagnostic import Diagnostic, NkiError, line_of

if TYPE_CHECKING:
    from nki_lab.cli.checking import Checked, Job
    from nki_lab.query.configuration import Configuration

USAGE: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("paths", metavar="PATH", nargs="+",
                        help="files, or folders whose .py files and notebooks are checked")  # fmt: skip
    parser.add_argument("--target", help="trn1, trn2 or trn3; else the environment's or the project's target")
    parser.add_argument("--format", choices=tuple(FORMATS), default="text", help="of the findings (default: text)")
    parser.add_argument("--select", action="append", default=[], metavar="CODES",
                        help="only codes that begin so: NKI2,NKI301; in place of the project's choice")  # fmt: skip
    parser.add_argument("--ignore", action="append", default=[], metavar="CODES",
                        help="no codes that begin so, beside those that the project ignores")  # fmt: skip
    parser.add_argument("--fix", action="store_true", help="mend what has one exact remedy; notebooks are left alone")
    parser.add_argument("--diff", action="store_true",
                        help="show what --fix would change, and change nothing; exit status 1 if it would")  # fmt: skip
    parser.add_argument("--statistics", action="store_true",
                        help="say how many calls of NKI were evaluated, and which were not")  # fmt: skip
    parser.add_argument("--jobs", type=_count, metavar="N", help="processes (default: by processors and files)")
    parser.add_argument("--force-exclude", action="store_true",
                        help="leave out what the project excludes even where it is named here")  # fmt: skip


def _count(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 process is needed")
    return number


def check(arguments: argparse.Namespace) -> int:
    """Check files, print the findings; 1 where there are errors, 2 where the command line names what is not there."""
    from nki_lab.cli.checking import all_checked, sensible
    from nki_lab.cli.sources import sources

    try:
        select, ignore = _codes("--select", arguments.select), _codes("--ignore", arguments.ignore)
        target = _target(arguments.target)
    except NkiError as error:
        print(error, file=sys.stderr)
        return USAGE
    except ValueError as error:
        print(f"nki-lab check: error: {error}", file=sys.stderr)
        return USAGE
    gathered = sources(arguments.paths, force_exclude=arguments.force_exclude)
    jobs = [_job(arguments, file, settings, target, select, ignore) for file, settings in gathered.files]
    answers: list[Checked] = list(all_checked(jobs, arguments.jobs or sensible(len(jobs))))
    found = [*gathered.found, *(item for answer in answers for item in answer.findings)]
    if arguments.diff:
        return _show(answers, found)
    mended = sum(answer.mended for answer in answers)
    _print(arguments.format, _once(found), answers, mended)
    if arguments.statistics:
        print(_statistics(answers), file=sys.stdout if arguments.format == "text" else sys.stderr)
    return 1 if any(item.severity == "error" for item in found) else 0


def _statistics(answers: Sequence[Checked]) -> str:
    """How many calls of NKI were evaluated; those that were not, by their lines."""
    operations = {item for answer in answers for item in answer.operations}
    unknown = {item for answer in answers for item in answer.unknown}
    lines = [f"{file}:{line}:{column + 1}: not evaluated" for file, line, column in sorted(unknown)]
    share = f" ({len(unknown) / len(operations):.1%})" if operations else ""
    return "\n".join([*lines, f"unknown {len(unknown)} of {len(operations)} operations{share}"])


def _target(given: str | None) -> str | None:
    """The target that the command line or the environment names; NKI004 where there is none of the name."""
    from nki_lab.dialects.environment import TARGET_VARIABLE, resolve_target

    named = given if given is not None else os.environ.get(TARGET_VARIABLE, "").strip() or None
    return None if named is None else resolve_target(given).target


def _codes(option: str, texts: Sequence[str]) -> tuple[str, ...]:
    from nki_lab.query.selecting import selectors, split

    try:
        return selectors(split(texts))
    except ValueError as error:
        raise ValueError(f"{option}: no code begins with {str(error)!r}") from None


def _job(
    arguments: argparse.Namespace, file: Path, settings: Configuration, target: str | None,
    select: tuple[str, ...], ignore: tuple[str, ...],
) -> Job:  # fmt: skip
    from nki_lab.cli.checking import Job
    from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
    from nki_lab.query.selecting import Selection

    return Job(
        file=str(file),
        target=target or settings.target or DEFAULT_TARGET,
        selection=Selection(select=select or settings.select, ignore=(*settings.ignore, *ignore)),
        given=settings.signatures(file),
        library=settings.library(),
        mends=arguments.fix or arguments.diff,
        writes=arguments.fix and not arguments.diff,
    )


def _show(answers: Sequence[Checked], found: Sequence[Diagnostic]) -> int:
    """Print the changes that would be made."""
    for answer in answers:
        sys.stdout.write(answer.diff)
    changed = sum(bool(answer.diff) for answer in answers)
    print(f"{changed} {'file' if changed == 1 else 'files'} would change", file=sys.stderr)
    unread = [item for item in found if item.code in ("NKI018", "NKI024")]
    for item in unread:
        print(item, file=sys.stderr)
    return 1 if changed or unread else 0


def _print(kind: str, found: Sequence[Diagnostic], answers: Sequence[Checked], mended: int) -> None:
    cells = {name: lines for answer in answers for name, lines in answer.texts.items()}
    files = sum(bool(answer.mended) for answer in answers)
    note = f"{mended} mended in {files} {'file' if files == 1 else 'files'}" if mended else ""
    if kind != "text":
        print(FORMATS[kind](found))
        if note:
            print(note, file=sys.stderr)
        return
    print(text(found, source_line=partial(_line, cells)))
    if note:
        print(note)


def _line(cells: dict[str, Sequence[str]], file: str, number: int) -> str:
    """A line of a file or of a notebook's cell."""
    lines = cells.get(file)
    if lines is None:
        return line_of(file, number)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _once(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, each once: a module that several files use is looked at with each of them."""
    return list(dict.fromkeys(found))
