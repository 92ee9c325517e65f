"""Completion of the first line of a `%%nki` cell: options, targets and kinds of inputs."""

from __future__ import annotations

import argparse
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.isa.arch import TARGETS
from nki_lab.result.inputs import NAMES


def install(shell: InteractiveShell, parser: argparse.ArgumentParser) -> None:
    """Complete `%%nki` in this shell, as its parser has it."""

    def complete(_shell: object, event: Any) -> list[str]:
        return candidates(event.text_until_cursor, parser)

    shell.set_hook("complete_command", complete, str_key="%%nki")


def candidates(line: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the possible ends of `line`: values of the option before it, else the options not yet given."""
    words = line.split()
    if not words or words[0] != "%%nki":
        return []
    part = "" if line[-1].isspace() else words[-1]
    before = words if not part else words[:-1]
    values = {
        "--target": list(TARGETS),
        "--inputs": [f"{name}(seed=0)" if name in NAMES[:2] else name for name in NAMES],
    }
    if before[-1] in values:
        return [item for item in values[before[-1]] if item.startswith(part)]
    if before[-1] == "--save":
        return []
    options = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    return [name for name in options if name.startswith(part) and name not in before and name != "--help"]
