"""Commands about one kernel of a file: its program, and its times."""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.cli.program import as_data
from nki_lab.cli.scripts import execute, readable, status_of
from nki_lab.diagnostic import diagnose, error_of

if TYPE_CHECKING:
    from nki_lab.result import Recorded

_EXPORTS: Final = {
    "html": ("FILE", "write a report that any browser shows, without a network"),
    "perfetto": ("FILE", "write a trace for the Perfetto viewer"),
    "explorer": ("FOLDER", "write the tables of a Neuron Explorer profile"),
    "csv": ("FOLDER", "write tables for a spreadsheet: instructions, lanes, lines of source"),
    "save": ("FOLDER", "save the recording, for nki_lab.open"),
}


def compile_program(arguments: argparse.Namespace) -> int:
    """Print the specialised program of a kernel."""
    found = _load(arguments)
    if isinstance(found, int):
        return found
    from nki_lab.result import compile as compile_kernel

    kernel, values = found
    program = compile_kernel(kernel, target=arguments.target, grid=arguments.grid, **values)
    text = program.text() if arguments.emit == "ir" else json.dumps(as_data(program), indent=1) + "\n"
    print(text, end="")
    return 0


def profile(arguments: argparse.Namespace) -> int:
    """Print when a kernel would do what; files are written first, so that a failure prints nothing."""
    found = _load(arguments)
    if isinstance(found, int):
        return found
    from nki_lab.result import profile as profile_kernel

    kernel, values = found
    counts = dict(trip_count_of(text) for text in arguments.trip_counts)
    done = profile_kernel(kernel, target=arguments.target, grid=arguments.grid, trip_counts=counts, **values)
    written(done, arguments)
    if arguments.format == "json":
        findings = [item.as_dict() for item in done.diagnostics]
        print(json.dumps({"kernel": done.name, **done.summary, "diagnostics": findings}, indent=1))
    else:
        print(done.report(), end="")
    return 0


def take_exports(parser: argparse.ArgumentParser) -> None:
    """Have a command take the files and folders that a recording is written to."""
    for form, (place, text) in _EXPORTS.items():
        parser.add_argument(f"--{form}", metavar=place, help=text)


def written(run: Recorded, arguments: argparse.Namespace) -> list[Path]:
    """Write the recording in each form that the command line asks for."""
    chosen = {form: getattr(arguments, form) for form in _EXPORTS}
    writers = {form: run.save if form == "save" else getattr(run, f"to_{form}") for form in chosen}
    return [writers[form](path) for form, path in chosen.items() if path]


def _load(arguments: argparse.Namespace) -> tuple[Any, dict[str, Any]] | int:
    """The kernel that a command names and its arguments, or the exit status of a script that left by itself."""
    from nki_lab import dialects

    file, found, name = arguments.kernel.rpartition("::")
    if not found or not name:
        raise error_of(diagnose("NKI012", f"{arguments.kernel!r} names no kernel", limit="FILE::KERNEL",
                                help=f"for example {arguments.kernel or 'kernels.py'}::my_kernel"))  # fmt: skip
    script = readable(file)
    values = dict(value_of(text) for text in arguments.values)
    dialects.activate(force=arguments.force)
    former = sys.path[0]
    sys.path[0] = str(script.resolve().parent)
    try:
        scope = execute(script, script.stem, show=arguments.traceback)
    except SystemExit as leaving:
        return status_of(leaving)
    finally:
        sys.path[0] = former
    return _kernel(scope, name, script), values


def _kernel(scope: dict[str, Any], name: str, script: Path) -> Any:
    if callable(scope.get(name)):
        return scope[name]
    from nki_lab.dialects.kernel import Kernel
    from nki_lab.isa.spelling import did_you_mean

    kernels = [key for key, value in scope.items() if isinstance(value, Kernel)]
    near = did_you_mean(name, kernels)
    raise error_of(diagnose("NKI102", f"{script} has no kernel {name}", help=near,
                            limit=f"kernels: {', '.join(kernels) or 'none'}"))  # fmt: skip


def trip_count_of(text: str) -> tuple[str, int]:
    """A `--trip-count`: `i=16` for the device loop over i, `12=16` for the one on line 12."""
    name, equals, count = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", name) or not re.fullmatch(r"\d+", count):
        raise error_of(diagnose("NKI012", f"--trip-count {text} has no NAME=N", limit="N is a whole number, 0 or more",
                                help="for example --trip-count i=16, or --trip-count 12=16 by line"))  # fmt: skip
    return name, int(count)


def value_of(text: str) -> tuple[str, Any]:
    """An `--arg`: `a=bfloat16[128,512]` is a tensor, `dtype=bfloat16` a dtype, other values are Python constants."""
    from nki_lab.query.configuration import tensor_or_dtype

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise error_of(
            diagnose("NKI012", f"--arg {text} has no NAME=VALUE", help="for example --arg a=bfloat16[128,512]")
        )
    known = tensor_or_dtype(value)
    if known is not None:
        return name, known
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[\w-]+", value):
            return name, value
    raise error_of(diagnose("NKI012", f"--arg {text}: the value is neither a tensor nor a constant",
                            help="a tensor is dtype[size,size], for example bfloat16[128,512]"))  # fmt: skip
