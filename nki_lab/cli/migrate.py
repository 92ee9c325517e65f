"""The command `nki-lab migrate`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.cli.kernels import Settings
from nki_lab.cli.scripts import USAGE
from nki_lab.diagnostic import Diagnostic, NkiError, render
from nki_lab.printable import on_one_line

if TYPE_CHECKING:
    from nki_lab.cli.migrating import Report

RELEASES: Final = ("beta1", "0.2", "0.3", "0.4", "0.5", "0.6")
OPTIONS: Final[dict[str, Settings]] = {
    "paths": {"metavar": "PATH", "nargs": "+", "help": "files, or folders whose .py files are migrated"},
    "--from": {
        "dest": "release",
        "choices": RELEASES[:-1],
        "default": "beta1",
        "help": "the release that the kernels are written for; earlier spellings are left alone (default: beta1)",
    },
    "--to": {"choices": RELEASES[-1:], "default": RELEASES[-1], "help": "the release to migrate to (default: 0.6)"},
    "--diff": {"action": "store_true", "help": "print what would change, and change nothing (the default)"},
    "--write": {"action": "store_true", "help": "change the files"},
    "--verify": {
        "action": "store_true",
        "help": "run each kernel before and after on drawn inputs, and compare; executes the files",
    },
    "--arg": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "dest": "values",
        "help": "a=bfloat16[128,512] for a tensor of a kernel, n=4 for a constant; once for each",
    },
    "--target": {"help": "trn1, trn2 or trn3; else the environment's or the project's target"},
    "--format": {"choices": ("text", "json"), "default": "text", "help": "of what is printed (default: text)"},
}
"""The options of the command."""


def migrate(arguments: argparse.Namespace) -> int:
    """Migrate files; 1 where something is left to the author or differs, 2 where the command line is wrong."""
    from nki_lab.cli.check import target_of
    from nki_lab.cli.migrating import Report
    from nki_lab.query.source_tree import Sources

    try:
        target = target_of(arguments.target)
        given = _given(arguments.values)
    except NkiError as error:
        print(error, file=sys.stderr)
        return USAGE
    gathered = Sources()
    for path in arguments.paths:
        gathered.add(Path(path))
    reports = [
        _report(arguments, file, settings, target or settings.target, given)
        for file, settings in gathered.files
        if file.suffix != ".ipynb"
    ]
    reports += [Report(item.file, findings=[item]) for item in gathered.found]
    notebooks = sum(file.suffix == ".ipynb" for file, _ in gathered.files)
    if notebooks:
        print(f"notebooks are left alone: {notebooks}", file=sys.stderr)
    if arguments.format == "json":
        print(json.dumps([_as_data(item) for item in reports], indent=1))
    else:
        _print(arguments, reports)
    failed = any(_left(report) or report.errors for report in reports)
    apart = any(item.outcome != "equal" for report in reports for item in report.verdicts)
    return 1 if failed or apart else 0


def _given(values: Sequence[str]) -> dict[str, object]:
    from nki_lab.cli.kernels import value_of

    return dict(value_of(text) for text in values)


def _report(
    arguments: argparse.Namespace, file: Path, settings: Any, target: str | None, given: Mapping[str, object]
) -> Report:
    """Migrate one file; whatever it holds, there is a report, and a file that is not understood stays as it is."""
    from nki_lab.cli.checking import replace_file
    from nki_lab.cli.migrating import Report, migrated_file
    from nki_lab.query.checking import unreadable
    from nki_lab.source_files import read_source

    report = Report(str(file))
    try:
        report.before = report.after = read_source(file)
    except (OSError, ValueError) as error:
        report.findings = [unreadable(str(file), error)]
        return report
    try:
        migrated_file(report, settings, target, given, release=arguments.release, verify=arguments.verify)
        if arguments.write and report.is_changed:
            replace_file(file, report.before, report.after)
            report.is_written = True
    except NkiError as error:
        report.findings += error.diagnostics
    return report


# -- texts -------------------------------------------------------------------------------------------------------------


def _as_data(report: Report) -> dict[str, object]:
    return {
        "file": report.file,
        "changed": report.is_changed,
        "written": report.is_written,
        "kernels": list(report.kernels),
        "rows": {str(row): count for row, count in sorted(report.applied.items()) if count},
        "findings": [item.as_dict() for item in report.findings],
        "errors": [item.as_dict() for item in report.errors],
        "verified": [item.as_dict() for item in report.verdicts],
        "diff": _diff(report),
    }


def _diff(report: Report) -> str:
    from nki_lab.cli.checking import difference

    return difference(report.file, report.before, report.after)


def _left(report: Report) -> list[Diagnostic]:
    """Return the findings of a file that somebody is to act on: that a folder has no files is only told."""
    return [item for item in report.findings if item.code != "NKI025"]


def _print(arguments: argparse.Namespace, reports: Sequence[Report]) -> None:
    from nki_lab.migrate.rows import BY_NUMBER

    for report in reports:
        if not arguments.write or arguments.diff:
            sys.stdout.write(_diff(report))
    for report in reports:
        for item in (*report.findings, *report.errors):
            print(f"{item.severity}: {render(item)}\n")
    changed = [report for report in reports if report.is_changed]
    applied = sum((report.applied for report in reports), Counter[int]())
    verb = "migrated" if arguments.write else "would change"
    count = sum(bool(report.before or not report.findings) for report in reports)  # what is not there is no file
    print(f"{len(changed)} of {count} {'file' if count == 1 else 'files'} {verb}")
    for row, count in sorted(applied.items()):
        if count > 0:
            about = BY_NUMBER[row]
            print(f"  row {row:2}  {count:4} x  {about.before.replace('`', '')} -> {about.after.replace('`', '')}")
    left = sum(len(_left(report)) for report in reports)
    if left:
        print(f"  left to you: {left}")
    for report in reports:
        file = on_one_line(report.file)
        if report.errors:
            print(f"  {file}: {len(report.errors)} new error{'s' * (len(report.errors) != 1)} afterwards")
        for verdict in report.verdicts:
            print(f"  {file}: {verdict.kernel}: {verdict.text}")
