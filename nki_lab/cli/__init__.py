"""The command line: `nki-lab run`, `check`, `compile`, `explain`, `demo`, `doctor`.

Exit status: 0 done, 1 a kernel or a file is wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from nki_lab.cli.report import FORMATS, doctor, explain, version
from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name; that of the process where not given)."""
    arguments = _parser().parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = arguments.command
        status = command(arguments)
        sys.stdout.flush()
    except NkiError as error:
        if arguments.traceback:
            traceback.print_exception(error)
        else:
            print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nki-lab", description="NKI kernels on any computer.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"nki-lab {version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        made.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")
        made.set_defaults(command=function)
        return made

    run = command("run", _run, "run a script with the dialects importable")
    run.add_argument("--target", help="trn1, trn2 or trn3, where the script names none")
    run.add_argument("--force", action="store_true", help="simulate although the Neuron SDK is installed")
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")

    check = command("check", _check, "report diagnostics without running anything of yours; exit status 1 on errors")
    check.add_argument("paths", metavar="PATH", nargs="+", help="files, or folders whose .py files are checked")
    check.add_argument("--target", help="trn1, trn2 or trn3")
    check.add_argument("--format", choices=("text", "json", "github", "sarif"), default="text")

    compile_ = command("compile", _compile, "print the specialised program of a kernel")
    compile_.add_argument("kernel", metavar="FILE::KERNEL")
    compile_.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", dest="values",
                          help="a=bfloat16[128,512] for a tensor, n=4 for a constant; once for each")  # fmt: skip
    compile_.add_argument("--target", help="trn1, trn2 or trn3")
    compile_.add_argument("--grid", type=int, help="physical cores, as kernel[GRID] has them")
    compile_.add_argument("--emit", choices=("ir",), default="ir", help="what is printed (default: ir)")
    compile_.add_argument("--force", action="store_true", help="simulate although the Neuron SDK is installed")

    page = command("explain", _explain, "print the page of a code, or what an instruction takes")
    page.add_argument("name", metavar="CODE|NAME", help="NKI213, moving-limit, nc_matmul")

    demo = command("demo", _demo, "compile, check and run a tiled matmul and a softmax, and compare with references")
    demo.add_argument("--target", default="trn2", help="trn1, trn2 or trn3 (default: trn2)")

    health = command("doctor", _doctor, "print versions, targets, and what is modelled")
    health.add_argument("--coverage", action="store_true", help="every published name, modelled or not")
    return parser


# -- run ---------------------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from nki_lab import dialects

    script = _readable(arguments.script)
    dialects.activate(force=arguments.force)
    former, environment = (sys.argv, sys.path[0]), dict(os.environ)
    if arguments.target:
        from nki_lab.dialects.environment import TARGET_VARIABLE, resolve_target

        os.environ[TARGET_VARIABLE] = resolve_target(arguments.target).target
    sys.argv = [arguments.script, *arguments.arguments]
    sys.path[0] = str(script.resolve().parent)
    try:
        _execute(script, "__main__", show=arguments.traceback)
    except SystemExit as leaving:
        return _status(leaving)
    finally:
        sys.argv, sys.path[0] = former
        os.environ.clear()
        os.environ.update(environment)
    return 0


def _execute(script: Path, name: str, *, show: bool) -> dict[str, Any]:
    """Run a file as Python does; its errors come out as NkiErrors, with the traceback printed where asked for."""
    try:
        return runpy.run_path(str(script), run_name=name)
    except (NkiError, SystemExit, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        if error.filename != str(script):
            raise error_of(_failed(error, script, show)) from None
        from nki_lab.rules.facts import unparsable

        lines = tuple(script.read_text(encoding="utf-8", errors="replace").splitlines()) or ("",)
        raise error_of(unparsable(error, str(script), lines, in_bytes=True)) from None
    except Exception as error:  # noqa: BLE001 - whatever the script raises is shown
        raise error_of(_failed(error, script, show)) from None


def _failed(error: Exception, script: Path, show: bool) -> Diagnostic:
    """What a script raised by itself, at the line in the script that led there."""
    from nki_lab.kernel_runtime.frontend.issue import site_at, span_of

    if show:
        traceback.print_exception(error)
    found: TracebackType | None = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(script):
            found = step
        step = step.tb_next
    span = None if found is None else span_of(site_at(found.tb_frame.f_code, found.tb_lasti))
    text = f": {error}" if str(error) else ""
    return diagnose("NKI007", f"the script raised {type(error).__name__}{text}", span=span,
                    help="" if show else "nki-lab run --traceback shows how it came there")  # fmt: skip


def _status(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0)
    print(leaving.code, file=sys.stderr)
    return 1


def _readable(path: str) -> Path:
    """The file at `path`; NKI018 where there is none."""
    file = Path(path)
    if file.is_file():
        return file
    reason = "is a folder" if file.is_dir() else "does not exist"
    near = ""
    if not file.exists() and file.parent.is_dir():
        from nki_lab.isa.spelling import did_you_mean

        near = did_you_mean(file.name, (item.name for item in file.parent.iterdir()))
    raise error_of(diagnose("NKI018", f"{path} {reason}", help=near))


# -- check -------------------------------------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace) -> int:
    from nki_lab.result import check

    found: list[Diagnostic] = []
    for path in arguments.paths:
        for file in _files(path):
            try:
                found += check(path=file, target=arguments.target)
            except NkiError as error:
                found += error.diagnostics
    print(FORMATS[arguments.format](found))
    return 1 if any(item.severity == "error" for item in found) else 0


def _files(path: str) -> Iterable[Path]:
    """The file, or the Python files below a folder, without what tools keep in hidden folders."""
    place = Path(path)
    if not place.is_dir():
        return [place]
    inside = sorted(place.rglob("*.py"))
    return [file for file in inside if not any(part.startswith(".") for part in file.relative_to(place).parts)]


# -- compile -----------------------------------------------------------------------------------------------------------


def _compile(arguments: argparse.Namespace) -> int:
    from nki_lab import dialects
    from nki_lab.result import compile as compile_kernel

    file, found, name = arguments.kernel.rpartition("::")
    if not found or not name:
        raise error_of(diagnose("NKI012", f"{arguments.kernel!r} names no kernel", limit="FILE::KERNEL",
                                help=f"for example {arguments.kernel or 'kernels.py'}::my_kernel"))  # fmt: skip
    script = _readable(file)
    dialects.activate(force=arguments.force)
    former = sys.path[0]
    sys.path[0] = str(script.resolve().parent)
    try:
        scope = _execute(script, script.stem, show=arguments.traceback)
    except SystemExit as leaving:
        return _status(leaving)
    finally:
        sys.path[0] = former
    values = dict(_value(text) for text in arguments.values)
    kernel = _kernel(scope, name, script)
    print(compile_kernel(kernel, target=arguments.target, grid=arguments.grid, **values).text(), end="")
    return 0


def _kernel(scope: dict[str, Any], name: str, script: Path) -> Any:
    if callable(scope.get(name)):
        return scope[name]
    from nki_lab.dialects.kernel import Kernel
    from nki_lab.isa.spelling import did_you_mean

    kernels = [key for key, value in scope.items() if isinstance(value, Kernel)]
    near = did_you_mean(name, kernels)
    raise error_of(diagnose("NKI102", f"{script} has no kernel {name}", help=near,
                            limit=f"kernels: {', '.join(kernels) or 'none'}"))  # fmt: skip


def _value(text: str) -> tuple[str, Any]:
    """An `--arg`: `a=bfloat16[128,512]` is a tensor, `dtype=bfloat16` a dtype, other values are Python constants."""
    import ast
    import re

    from nki_lab.isa.dtype import DTYPES
    from nki_lab.result import spec

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise error_of(
            diagnose("NKI012", f"--arg {text} has no NAME=VALUE", help="for example --arg a=bfloat16[128,512]")
        )
    tensor = re.fullmatch(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]", value.strip())
    if tensor:
        return name, spec(tuple(int(size) for size in tensor[2].split(",")), tensor[1])
    if value in DTYPES:
        return name, DTYPES[value].host
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[\w-]+", value):
            return name, value
    raise error_of(diagnose("NKI012", f"--arg {text}: the value is neither a tensor nor a constant",
                            help="a tensor is dtype[size,size], for example bfloat16[128,512]"))  # fmt: skip


# -- explain, demo, doctor ---------------------------------------------------------------------------------------------


def _explain(arguments: argparse.Namespace) -> int:
    print(explain(arguments.name))
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from nki_lab.demo import main as demonstrate

    return demonstrate(arguments.target)


def _doctor(arguments: argparse.Namespace) -> int:
    print(doctor(coverage=arguments.coverage))
    return 0
