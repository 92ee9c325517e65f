"""The command line: `nki-lab run`, `check`, `signatures`, `migrate`, `compile`, `profile`, `sweep`, `view`,
`compare`, `cache`, `explain`, `stubs`, `lsp`, `demo` and `doctor`.

Exit status: 0 done, 1 a kernel or a file is wrong, 2 the command line is wrong, 130 cancelled.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from nki_lab.cli import cache, colour, kernels, stubs
from nki_lab.cli import check as checks
from nki_lab.cli import compare as comparisons
from nki_lab.cli import migrate as migrations
from nki_lab.cli import signatures as recorded
from nki_lab.cli import sweep as sweeping
from nki_lab.cli.kernels import Settings
from nki_lab.cli.progress_bar import shown
from nki_lab.cli.report import explain
from nki_lab.cli.scripts import execute, import_folder, readable, status_of
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import private_folder
from nki_lab.own_faults import version

CANCELLED = 130
_NOT_TAKEN: Final = {errno.ENOSPC, errno.EFBIG, errno.EIO}
"""Errors of a disk that does not take our output."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name; that of the process where not given)."""
    _replace_closed_outputs()
    _print_what_the_encoding_lacks()
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        status = command(arguments)
        sys.stdout.flush()
    except SystemExit as leaving:  # of a script
        return status_of(leaving)
    except NkiError as error:
        if arguments.traceback:
            traceback.print_exception(error)
        else:
            print(colour.shown(str(error), sys.stderr, arguments.color), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cancelled", file=sys.stderr)
        return CANCELLED
    except BrokenPipeError:  # the reader of our output has read enough
        _drop_output()
        return 1
    except OSError as error:
        if error.errno not in _NOT_TAKEN or error.filename is not None:
            raise
        _drop_output()
        told = coded_error("NKI021", f"the output: not written: {error.strerror or error}", help="make room for it")
        print(colour.shown(str(told), sys.stderr, arguments.color), file=sys.stderr)
        return 1
    return status


def _drop_output() -> None:
    """Have what is left of the output go nowhere, so that the end of the process does not fail over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_outputs() -> None:
    """Have what is printed to a closed output go nowhere: the next file that is opened would get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _place(text: str) -> str:
    """Return the path that an argument names; an empty one is an error, as of a shell variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return text


def _print_what_the_encoding_lacks() -> None:
    """Have characters that the output cannot encode written out: on Windows, pipes and files have a code page."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


_FORMAT: Final[Settings] = {
    "choices": ("text", "json"),
    "default": "text",
    "help": "of what is printed (default: text)",
}
_FORCE: Final[Settings] = {"action": "store_true", "help": "simulate although the Neuron SDK is installed"}

_NO_PROGRESS: Final[Settings] = {"action": "store_true", "help": "show no bar; without a terminal there is none"}

_KERNEL: Final[dict[str, Settings]] = {
    "kernel": {"metavar": "FILE::KERNEL"},
    "--arg": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "dest": "values",
        "help": "a=bfloat16[128,512] for a tensor, n=4 for a constant; once for each",
    },
    "--target": {"help": "trn1, trn2 or trn3"},
    "--grid": {"type": int, "help": "physical cores, as kernel[GRID] has them"},
    "--force": _FORCE,
}
"""The options of a command that takes a kernel with its arguments."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; the site's page of commands is made of it."""
    from nki_lab.lsp import start as lsp

    parser = argparse.ArgumentParser(prog="nki-lab", description="NKI kernels on any computer.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"nki-lab {version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(
        name: str, function: Callable[[argparse.Namespace], int], text: str, options: Mapping[str, Settings]
    ) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
        )
        subparser.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")
        subparser.add_argument(
            "--color", choices=colour.CHOICES, default="auto", help="colours of findings (default: on terminals)"
        )
        for option, settings in options.items():
            kinds = ("FILE", "FOLDER") if option.startswith("--") else ("PATH",)
            named = settings.get("metavar") in kinds
            subparser.add_argument(option, **{"type": _place, **settings} if named else settings)
        subparser.set_defaults(command=function)
        return subparser

    command(
        "run",
        _run,
        "run a script with the dialects importable",
        {
            "--target": {"help": "trn1, trn2 or trn3, where the script names none"},
            "--force": _FORCE,
            "--no-progress": _NO_PROGRESS,
            "script": {"metavar": "SCRIPT", "help": "a Python file; options of this command stand before it"},
            "arguments": {
                "metavar": "ARGS",
                "nargs": argparse.REMAINDER,
                "help": "what the script finds in sys.argv",
            },
        },
    )
    command(
        "check",
        checks.check,
        "report diagnostics without running anything of yours; exit status 1 on errors",
        checks.OPTIONS,
    )
    command(
        "signatures",
        recorded.signatures,
        "list the calls of functions that runs have recorded for check, and whether it uses them",
        recorded.OPTIONS,
    )
    command(
        "migrate",
        migrations.migrate,
        "rewrite kernels of Beta 1 and of earlier releases for the current one, where that is safe",
        migrations.OPTIONS,
    )
    command(
        "compile",
        kernels.compile_program,
        "print the specialised program of a kernel",
        {**_KERNEL, "--emit": {"choices": ("ir", "json"), "default": "ir", "help": "what is printed (default: ir)"}},
    )
    command(
        "profile",
        kernels.profile,
        "time a kernel, and say what holds it back",
        {
            **_KERNEL,
            "--trip-count": {
                "action": "append",
                "default": [],
                "metavar": "NAME=N",
                "dest": "trip_counts",
                "help": "how often a device loop runs, by its line, variable or body; once for each",
            },
            "--format": _FORMAT,
            "--no-progress": _NO_PROGRESS,
            **kernels.EXPORTS,
        },
    )
    command(
        "sweep",
        sweeping.sweep,
        "profile a kernel for each combination of parameters, and say which one is the best",
        sweeping.OPTIONS,
    )
    command(
        "view",
        _view,
        "show a saved recording in the browser, or write it in another form",
        {
            "recording": {
                "metavar": "RECORDING",
                "help": "the folder of a saved run, or of a Neuron Explorer profile",
            },
            **kernels.EXPORTS,
        },
    )
    command(
        "compare",
        comparisons.compare,
        "say what changes from one saved run to another one; exit status 1 where --fail-on says so",
        comparisons.OPTIONS,
    )
    command(
        "explain",
        _explain,
        "print the page of a code, or what an instruction takes",
        {"name": {"metavar": "CODE|NAME", "help": "NKI213, moving-limit, nc_matmul"}},
    )
    command("cache", cache.show_cache, "show the cache of profiles on disk, or clear it", cache.OPTIONS)
    command(
        "stubs",
        stubs.write_stubs,
        "write type stubs of both dialects into a folder, for an editor that wants their path",
        stubs.OPTIONS,
    )
    lsp.add_arguments(
        command("lsp", lsp.serve, "serve an editor: findings, hovers and fixes while a kernel is typed", {})
    )
    command(
        "demo",
        _demo,
        "compile, check, run and profile a tiled matmul and a softmax",
        {
            "--target": {"default": "trn2", "help": "trn1, trn2 or trn3 (default: trn2)"},
            "--html": {
                "metavar": "FILE",
                "default": "demo-report.html",
                "help": "where the report goes (default: demo-report.html)",
            },
        },
    )
    command(
        "doctor",
        _doctor,
        "print versions, the target, and what of NKI is modelled",
        {
            "--coverage": {
                "action": "store_true",
                "help": "every published name: whether it is there and compared, its limits, cost",
            },
            "--format": _FORMAT,
        },
    )
    return parser


# -- run ---------------------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from nki_lab import dialects

    script = readable(arguments.script)
    dialects.activate(force=arguments.force)
    arguments_before, environment = sys.argv, dict(os.environ)
    if arguments.target:
        from nki_lab.dialects.environment import TARGET_VARIABLE, resolve_target

        os.environ[TARGET_VARIABLE] = resolve_target(arguments.target).target
    sys.argv = [arguments.script, *arguments.arguments]
    try:
        with import_folder(script), shown(quiet=arguments.no_progress):
            execute(script, "__main__", show=arguments.traceback)
    finally:
        sys.argv = arguments_before
        os.environ.clear()
        os.environ.update(environment)
    return 0


# -- view --------------------------------------------------------------------------------------------------------------


def _view(arguments: argparse.Namespace) -> int:
    from nki_lab.result import open as open_run

    kernels.require_places(arguments)
    run = open_run(arguments.recording)
    files = kernels.written(run, arguments)
    if files:
        print(*files, sep="\n")
        return 0
    import webbrowser

    with private_folder() as folder, _ended_in_order():
        page = folder / f"{run.path.stem or 'run'}.html"
        print(run.to_html(page), flush=True)
        webbrowser.open(page.as_uri())
        with contextlib.suppress(KeyboardInterrupt):
            _wait_for_reader()
    return 0


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Leave by SystemExit where the process is asked to end, as by a terminal that closes: pages are removed then."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # others may not take signals
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [(number, signal.signal(number, leave)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


GRACE: Final = 15.0
"""Seconds that a browser has to load a page where nobody can say that it did."""


def _wait_for_reader() -> None:
    """Wait until the user has seen a page that is removed then: for the Enter key, or as long as a page takes."""
    if sys.stdin is not None and sys.stdin.isatty():
        print("Press Enter to remove the page and end; --html FILE keeps one.", file=sys.stderr)
        sys.stdin.readline()
    else:
        time.sleep(GRACE)


# -- explain, demo, doctor ---------------------------------------------------------------------------------------------


def _explain(arguments: argparse.Namespace) -> int:
    print(explain(arguments.name))
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from nki_lab.demo import main as demonstrate

    return demonstrate(arguments.target, arguments.html)


def _doctor(arguments: argparse.Namespace) -> int:
    from nki_lab.cli import coverage, doctor

    module = coverage if arguments.coverage else doctor
    facts = coverage.coverage() if arguments.coverage else doctor.findings()
    print(json.dumps(facts, indent=1) if arguments.format == "json" else module.as_text(facts))
    return 0
