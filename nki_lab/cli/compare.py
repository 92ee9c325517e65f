"""`nki-lab compare A B`: two recordings side by side, and an exit status for continuous integration."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nki_lab.cli import colour
from nki_lab.cli.scripts import USAGE
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.quantities import significant

if TYPE_CHECKING:
    from nki_lab.result.comparison import RunComparison

_RECORDING: Final = "the folder of a saved run, or of a Neuron Explorer profile"

OPTIONS: Final[dict[str, Mapping[str, Any]]] = {
    "before": {"metavar": "BEFORE", "help": _RECORDING},
    "after": {"metavar": "AFTER", "help": "the same, of the later run"},
    "--format": {"choices": ("text", "json", "html"), "default": "text", "help": "of what is printed (default: text)"},
    "--html": {"metavar": "FILE", "help": "write the comparison as a page that any browser shows, without a network"},
    "--fail-on": {
        "metavar": "SHARE",
        "help": "end with status 1 where the latency grows by more: 5%%, or 0.05; 0 for any growth",
    },
}
"""The options of the command."""


def compare(arguments: argparse.Namespace) -> int:
    """Print what changes from a recording to another one; status 1 where the latency grows by more than allowed, 2
    where what is allowed is no share.
    """
    from nki_lab.result import open as open_run

    try:
        allowed = None if arguments.fail_on is None else share_of(arguments.fail_on)
    except NkiError as error:
        print(colour.shown(str(error), sys.stderr, arguments.color), file=sys.stderr)
        return USAGE
    found = open_run(arguments.before).compare(open_run(arguments.after))
    if arguments.html:
        found.to_html(arguments.html)
    print(_printed(found, arguments.format), end="")
    if allowed is None or found.slowdown <= allowed:
        return 0
    growth = found.slowdown
    grows = f"{significant(100 * growth)} %" if math.isfinite(growth) else "more than any share, from 0 ns on"
    print(f"the latency grows by {grows}, --fail-on allows {significant(100 * allowed)} %", file=sys.stderr)
    return 1


def _printed(found: RunComparison, form: str) -> str:
    if form == "json":
        return json.dumps(found.as_dict(), indent=1, ensure_ascii=False) + "\n"
    if form == "html":
        return found.html()
    return found.report()


def share_of(text: str) -> float:
    """Return the share that `5%` or `0.05` is; NKI012 for anything else."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(%?)", text.strip())
    if found is None:
        raise coded_error(
            "NKI012",
            f"--fail-on {text!r} is no share",
            operand="--fail-on",
            limit="a number, 0 or more, with or without %",
            help="for example --fail-on 5%, or --fail-on 0.05",
        )
    return float(found[1]) / (100 if found[2] else 1)
