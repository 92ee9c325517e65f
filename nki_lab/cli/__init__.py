"""The command line: `nki-lab run`, `check`, `compile`, `profile`, `view`, `explain`, `lsp`, `demo`, `doctor`.

Exit status: 0 done, 1 a kernel or a file is wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from nki_lab.cli import check as checks
from nki_lab.cli import kernels
from nki_lab.cli.report import explain, version
from nki_lab.cli.scripts import execute, import_folder, readable, status_of
from nki_lab.diagnostic import NkiError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name; that of the process where not given)."""
    arguments = _parser().parse_args(argv)
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
            print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    from nki_lab.lsp import start as lsp

    parser = argparse.ArgumentParser(prog="nki-lab", description="NKI kernels on any computer.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"nki-lab {version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
        )
        subparser.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")
        subparser.set_defaults(command=function)
        return subparser

    run = command("run", _run, "run a script with the dialects importable")
    run.add_argument("--target", help="trn1, trn2 or trn3, where the script names none")
    run.add_argument("--force", action="store_true", help="simulate although the Neuron SDK is installed")
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")

    check = command(
        "check", checks.check, "report diagnostics without running anything of yours; exit status 1 on errors"
    )
    checks.add_arguments(check)

    compile_ = command("compile", kernels.compile_program, "print the specialised program of a kernel")
    _take_kernel(compile_)
    compile_.add_argument("--emit", choices=("ir", "json"), default="ir", help="what is printed (default: ir)")

    profile = command("profile", kernels.profile, "say when a kernel would do what, and what holds it back")
    _take_kernel(profile)
    profile.add_argument(
        "--trip-count",
        action="append",
        default=[],
        metavar="NAME=N",
        dest="trip_counts",
        help="how often a device loop runs, by its line, variable or body; once for each",
    )
    profile.add_argument("--format", choices=("text", "json"), default="text", help="of what is printed")
    kernels.take_exports(profile)

    view = command("view", _view, "show a saved recording in the browser, or write it in another form")
    view.add_argument(
        "recording", metavar="RECORDING", help="the folder of a saved run, or of a Neuron Explorer profile"
    )
    kernels.take_exports(view)

    page = command("explain", _explain, "print the page of a code, or what an instruction takes")
    page.add_argument("name", metavar="CODE|NAME", help="NKI213, moving-limit, nc_matmul")

    server = command("lsp", lsp.serve, "serve an editor: findings, hovers and fixes while a kernel is typed")
    lsp.add_arguments(server)

    demo = command("demo", _demo, "compile, check, run and profile a tiled matmul and a softmax")
    demo.add_argument("--target", default="trn2", help="trn1, trn2 or trn3 (default: trn2)")
    demo.add_argument(
        "--html", metavar="FILE", default="demo-report.html", help="where the report goes (default: demo-report.html)"
    )

    health = command("doctor", _doctor, "print versions, the target, and what of NKI is modelled")
    health.add_argument(
        "--coverage",
        action="store_true",
        help="every published name: whether it is there and compared, its limits, cost",
    )
    health.add_argument("--format", choices=("text", "json"), default="text", help="of what is printed")
    return parser


def _take_kernel(parser: argparse.ArgumentParser) -> None:
    """Have a command take a kernel with its arguments."""
    parser.add_argument("kernel", metavar="FILE::KERNEL")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="values",
        help="a=bfloat16[128,512] for a tensor, n=4 for a constant; once for each",
    )
    parser.add_argument("--target", help="trn1, trn2 or trn3")
    parser.add_argument("--grid", type=int, help="physical cores, as kernel[GRID] has them")
    parser.add_argument("--force", action="store_true", help="simulate although the Neuron SDK is installed")


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
        with import_folder(script):
            execute(script, "__main__", show=arguments.traceback)
    finally:
        sys.argv = arguments_before
        os.environ.clear()
        os.environ.update(environment)
    return 0


# -- view --------------------------------------------------------------------------------------------------------------


def _view(arguments: argparse.Namespace) -> int:
    from nki_lab.result import open as open_run

    run = open_run(arguments.recording)
    files = kernels.written(run, arguments)
    if files:
        print(*files, sep="\n")
        return 0
    import tempfile
    import webbrowser

    # The browser reads the page after this process has ended: the file stays.
    with tempfile.NamedTemporaryFile(prefix=f"{run.path.stem}-", suffix=".html", delete=False) as file:
        pass
    print(run.to_html(file.name))
    webbrowser.open(Path(file.name).as_uri())
    return 0


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
