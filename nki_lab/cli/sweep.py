"""`nki-lab sweep FILE::KERNEL`: profiles a kernel for each combination of parameters, and says which is the best."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nki_lab.cli.kernels import kernel_of, once, trip_count_of, value_of
from nki_lab.diagnostic import coded_error

if TYPE_CHECKING:
    from nki_lab.sweeps import Progress, Sweep

_TENSOR: Final = re.compile(r"\w+\[[^\]]*\]")

OPTIONS: Final[dict[str, Mapping[str, Any]]] = {
    "kernel": {"metavar": "FILE::KERNEL"},
    "--vary": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUES",
        "dest": "parameters",
        "help": "TILE=256,512: a parameter of the kernel, a global that it reads, an option, grid, or a size of --arg",
    },
    "--arg": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "dest": "values",
        "help": "a=bfloat16[128,S] for a tensor, where S may be varied; n=4 for a constant; once for each",
    },
    "--target": {"metavar": "TARGETS", "help": "trn1, trn2 or trn3; several with commas"},
    "--trip-count": {
        "action": "append",
        "default": [],
        "metavar": "NAME=N",
        "dest": "trip_counts",
        "help": "how often a device loop runs, by its line, variable or body; once for each",
    },
    "--folder": {
        "metavar": "FOLDER",
        "help": "keep finished points there, as Parquet; the same command goes on with those that are missing",
    },
    "--workers": {"type": int, "metavar": "N", "help": "processes (default: as many as there are processors)"},
    "--best": {
        "metavar": "COLUMN",
        "default": "latency_ns",
        "help": "the column that is to be small (default: latency_ns)",
    },
    "--html": {"metavar": "FILE", "help": "write charts of the sweep as a page; needs nki-lab[plots]"},
    "--format": {
        "choices": ("table", "json", "code"),
        "default": "table",
        "help": "of what is printed (default: table)",
    },
    "--strict": {"action": "store_true", "help": "end with status 1 where any point failed, not only where all did"},
    "--force": {"action": "store_true", "help": "simulate although the Neuron SDK is installed"},
}
"""The options of the command."""


def sweep(arguments: argparse.Namespace) -> int:
    """Print what each combination takes; status 1 where no point is ok, or with `--strict` not every one."""
    from nki_lab.sweeps import sweep as sweep_kernel
    from nki_lab.sweeps.table import columns_of, require_columns

    parameters = parameters_of(arguments.parameters, arguments.target)
    require_columns(columns_of(parameters), arguments.best)
    last: list[Progress] = []
    try:
        found = sweep_kernel(
            kernel_of(arguments),
            parameters,
            args=once("--arg", map(argument_of, arguments.values)),
            trip_counts=once("--trip-count", map(trip_count_of, arguments.trip_counts)),
            folder=arguments.folder,
            workers=arguments.workers,
            progress=_remembering(last),
        )
    except KeyboardInterrupt:
        if arguments.folder and last:
            kept = f"{last[-1].done} of {last[-1].total} points are in {arguments.folder}"
            print(f"{kept}; the same command goes on with the others", file=sys.stderr)
        raise
    if arguments.html:
        _charts(found, arguments.html)
    print(_printed(found, arguments.format, arguments.best), end="")
    failed = len(found.failures)
    return 1 if failed == len(found) or (arguments.strict and failed) else 0


def _remembering(last: list[Progress]) -> Any:
    """Return what is told about progress: the line of a terminal, and the latest state for an interrupt."""
    from nki_lab.sweeps.progress import reporter

    shown = reporter(None)

    def note(progress: Progress) -> None:
        last[:] = [progress]
        shown(progress)

    return note


def _printed(found: Sweep, form: str, column: str) -> str:
    if form == "json":
        return found.to_json() + "\n"
    if form == "code":
        return f"{found.best(column)!r}\n"
    text = found.text()
    if column != "latency_ns":
        text += f"\nleast {column}:\n{found.best(column)!r}\n"
    return text


def _charts(found: Sweep, path: str) -> Path:
    from nki_lab import plots

    written: Path = plots.save(
        [plots.sweep(found), plots.sweep(found, pareto=True)], path, title=f"Sweep of {found.name}"
    )
    return written


def parameters_of(texts: list[str], targets: str | None) -> dict[str, list[object]]:
    """Return the values of each `--vary`, and the targets, in their order; NKI012 for one without values, or twice."""
    found: dict[str, list[object]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.isidentifier() or not values.strip():
            raise coded_error(
                "NKI012",
                f"--vary {text} has no NAME=VALUES",
                operand="--vary",
                limit="values with commas between them",
                help="for example --vary TILE=256,512",
            )
        if name in found:
            raise coded_error("NKI012", f"--vary {name} stands twice", operand="--vary", help="give all values in one")
        found[name] = values_of(values)
    if targets:
        found["target"] = [name.strip() for name in targets.split(",") if name.strip()]
    return found


def values_of(text: str) -> list[object]:
    """Return the values of a list as Python reads it; words that it does not know are texts, `None` is None."""
    try:
        found = ast.literal_eval(f"({text},)")
    except (ValueError, SyntaxError):
        return [_value(part.strip()) for part in text.split(",") if part.strip()]
    return list(found)


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def argument_of(text: str) -> tuple[str, object]:
    """An `--arg`: a tensor with names in its shape stays text, for the sweep to fill in; else as `profile` has it."""
    name, equals, value = text.partition("=")
    if equals and name.isidentifier() and _TENSOR.fullmatch(value) and re.search(r"\[.*[A-Za-z_]", value):
        return name, value
    return value_of(text)
