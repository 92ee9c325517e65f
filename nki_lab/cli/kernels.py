"""Commands about one kernel of a file: its program, and its times."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nki_lab.cli.program import as_data
from nki_lab.cli.progress_bar import shown
from nki_lab.cli.scripts import execute, import_folder, readable
from nki_lab.diagnostic import NkiError, Span, coded_error, error_of
from nki_lab.late_annotations import signature_of

if TYPE_CHECKING:
    from nki_lab.result import Recorded

T = TypeVar("T")

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Settings = Mapping[str, Any]
"""The keywords that declare an option to argparse."""

EXPORTS: Final[dict[str, Settings]] = {
    "--html": {"metavar": "FILE", "help": "write a report that any browser shows, without a network"},
    "--perfetto": {"metavar": "FILE", "help": "write a trace for the Perfetto viewer"},
    "--explorer": {"metavar": "FOLDER", "help": "write the tables of a Neuron Explorer profile"},
    "--csv": {"metavar": "FOLDER", "help": "write tables for a spreadsheet: instructions, lanes, lines of source"},
    "--save": {"metavar": "FOLDER", "help": "save the recording, for nki_lab.open"},
}
"""The options of a command that takes the files and folders that a recording is written to."""


def compile_program(arguments: argparse.Namespace) -> int:
    """Print the specialised program of a kernel."""
    from nki_lab.result import compile as compile_kernel

    kernel, values = _load(arguments)
    program = compile_kernel(kernel, target=arguments.target, grid=arguments.grid, **values)
    text = program.text() if arguments.emit == "ir" else json.dumps(as_data(program), indent=1) + "\n"
    print(text, end="")
    return 0


def profile(arguments: argparse.Namespace) -> int:
    """Print when a kernel would do what; files are written first, so that a failure prints nothing."""
    from nki_lab.result import profile as profile_kernel

    require_places(arguments)
    kernel, values = _load(arguments)
    counts = once("--trip-count", map(trip_count_of, arguments.trip_counts))
    with shown(quiet=arguments.no_progress):
        done = profile_kernel(kernel, target=arguments.target, grid=arguments.grid, trip_counts=counts, **values)
    written(done, arguments)
    if arguments.format == "json":
        findings = [item.as_dict() for item in done.diagnostics]
        print(json.dumps({"kernel": done.name, **done.summary, "diagnostics": findings}, indent=1))
    else:
        print(done.report(), end="")
    return 0


def written(run: Recorded, arguments: argparse.Namespace) -> list[Path]:
    """Write the recording in each form that the command line asks for."""
    return [getattr(run, "save" if form == "save" else f"to_{form}")(path) for form, path in _places(arguments).items()]


def require_places(arguments: argparse.Namespace) -> None:
    """Raise NKI012 where the command line has two forms of a recording written to one place."""
    seen: dict[str, str] = {}
    for form, path in _places(arguments).items():
        place = os.path.realpath(path)
        if place in seen and place != os.devnull:
            raise coded_error(
                "NKI012",
                f"--{seen[place]} and --{form} name the same place, {path}",
                operand=f"--{form}",
                limit="a path of its own for each form",
                help=f"for example --{form} {path}.{form}",
            )
        seen[place] = form


def _places(arguments: argparse.Namespace) -> dict[str, str]:
    """Return where the command line has a recording written, by form."""
    forms = [option.removeprefix("--") for option in EXPORTS]
    return {form: path for form in forms if (path := getattr(arguments, form)) is not None}


def _load(arguments: argparse.Namespace) -> tuple[Callable[..., object], dict[str, Any]]:
    """Return the kernel that a command names, and its arguments."""
    kernel = kernel_of(arguments)
    values = once("--arg", map(value_of, arguments.values))
    _require_arguments(kernel, values)
    return kernel, values


def once(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return names and values of an option that is given once for each name; NKI012 for a name that comes twice."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise coded_error(
                "NKI012", f"{option} {name} stands twice", operand=option, help="keep the one that is meant"
            )
        found[name] = value
    return found


def kernel_of(arguments: argparse.Namespace) -> Callable[..., object]:
    """Return the kernel that a command names as FILE::KERNEL; NKI012 and NKI102 where there is none."""
    from nki_lab import dialects

    file, found, name = arguments.kernel.rpartition("::")
    if not file or not name:
        if not found and name.count(":") == 1 and all(name.split(":")):
            raise _misspelt(f"{arguments.kernel!r} names no kernel", name.replace(":", "::"), limit="FILE::KERNEL")
        example = f"{(file if found else name) or 'kernels.py'}::{(found and name) or 'my_kernel'}"
        raise _misspelt(f"{arguments.kernel!r} names no kernel", example, limit="FILE::KERNEL")
    script = readable(file)
    dialects.activate(force=arguments.force)
    with import_folder(script):
        scope = execute(script, script.stem, show=arguments.traceback)
    return _kernel(scope, name, script)


def _require_arguments(kernel: Callable[..., object], values: dict[str, Any]) -> None:
    """Refuse a command line whose `--arg` do not fit the kernel, at the kernel's definition."""
    from nki_lab.session.arguments import bound

    try:
        bound(kernel, (), values)
    except NkiError as error:
        missing = [
            name
            for name, item in signature_of(kernel).parameters.items()
            if item.default is item.empty and item.kind not in _VARIADIC and name not in values
        ]
        examples = " ".join(f"--arg {name}=float32[128,512]" for name in missing)
        first = error.diagnostics[0]
        remedy = first.help or f"arguments: {', '.join(signature_of(kernel).parameters)}"
        remedy = f"{examples}, for tensors of that shape" if first.code == "NKI003" else remedy
        raise error_of(replace(first, help=remedy, span=_definition(kernel))) from None


def _definition(kernel: Callable[..., object]) -> Span | None:
    """Return the span of a kernel's name in its definition; None where that is not at hand."""
    from nki_lab.source.callables import code_of
    from nki_lab.source.module import module_at

    code = code_of(kernel)
    module = None if code is None else module_at(code.co_filename)
    node = None if code is None or module is None else module.function(code.co_name)
    if code is None or node is None:
        return None
    column = node.col_offset + len("def ")
    end = column + len(node.name.encode())
    return Span.from_bytes(code.co_filename, node.lineno, column, node.lineno, end)


def _misspelt(message: str, example: str, *, limit: str = "") -> NkiError:
    return coded_error("NKI012", message, limit=limit, help=f"for example {example}")


def _kernel(scope: dict[str, object], name: str, script: Path) -> Callable[..., object]:
    found = scope.get(name)
    if callable(found):
        return found
    from nki_lab.dialects.kernel import Kernel
    from nki_lab.isa.spelling import did_you_mean

    kernels = [key for key, value in scope.items() if isinstance(value, Kernel)]
    limit = f"kernels: {', '.join(kernels) or 'none'}"
    remedy = "" if kernels else "decorate a function at the top level of the file with @nki.jit"
    near = did_you_mean(name, kernels) or remedy or f"for example {script}::{kernels[0]}"
    raise coded_error("NKI102", f"{script} has no kernel {name}", help=near, limit=limit)


def trip_count_of(text: str) -> tuple[str, int]:
    """A `--trip-count`: `i=16` for the device loop over i, `12=16` for the one on line 12."""
    from nki_lab.query.configuration import whole_number

    name, equals, count = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", name) or not re.fullmatch(r"\d+", count):
        example = "--trip-count i=16, or --trip-count 12=16 by line"
        raise _misspelt(f"--trip-count {text} has no NAME=N", example, limit="N is a whole number, 0 or more")
    return name, whole_number(count, f"--trip-count {name}: N")


def value_of(text: str) -> tuple[str, object]:
    """An `--arg`: `a=bfloat16[128,512]` is a tensor, `dtype=bfloat16` a dtype, other values are Python constants."""
    from nki_lab.query.configuration import EXAMPLE, NO_VALUE, shortened, tensor_or_dtype, whole_number

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise _misspelt(f"--arg {text} has no NAME=VALUE", "--arg a=bfloat16[128,512]")
    option = f"--arg {name}={shortened(value)}"
    try:
        if value.isdecimal():
            whole_number(value, "the value")
        known = tensor_or_dtype(value)
    except NkiError as error:
        first = error.diagnostics[0]
        raise error_of(replace(first, message=f"{option}: {first.message}")) from None
    if known is not None:
        return name, known
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[\w-]+", value):
            return name, value
    raise coded_error("NKI012", f"{option}: {NO_VALUE}", help=EXAMPLE)
