"""Names of tensors as the views show them: `acc`, `acc[2]` in a loop, `tile 12` without a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.wire.rows import Steps

Values = tuple[int, ...]
"""The values of the loops around an instruction, outermost first."""

_TARGET: Final = re.compile(r"(\w+)\s*(?::[^=]*)?=\s*\[?\s*$|(\w+)\.append\(\s*$")
"""The text before a call whose result gets a name: `tile = `, `tile: Tile = `, `tiles = [`, `tiles.append(`."""


class Names:
    """The texts that tables of a message number, and among them the label of each buffer."""

    def __init__(self, steps: Steps) -> None:
        self.all = list(steps.recording.names)
        numbers = {text: number for number, text in enumerate(self.all)}
        labels = tensor_labels(steps)
        for label in labels:
            if label not in numbers:
                numbers[label] = len(self.all)
                self.all.append(label)
        self.of_buffers: Array = np.array([numbers[label] for label in labels], np.uint32)


def tensor_labels(steps: Steps) -> list[str]:
    """Return the label of each buffer of a recording.

    Copies of one name, made at one place, get the values of those loops that tell them apart, else a number.
    """
    buffers = steps.recording.table("buffers")
    texts = _names(steps.recording)
    keys = zip(texts, whole(buffers["site"]).tolist(), whole(buffers["space"]).tolist(), strict=True)
    copies: dict[tuple[str, int, int], list[int]] = {}
    for number, key in enumerate(keys):
        copies.setdefault(key, []).append(number)
    labels = [text or f"tile {number + 1}" for number, text in enumerate(texts)]
    several = [mine for (text, _, _), mine in copies.items() if text and len(mine) > 1]
    if several:
        loops = _first_iterations(steps, len(texts))
        for mine in several:
            indices = _tell_apart([loops[number] for number in mine])
            for number, index in zip(mine, indices, strict=True):
                labels[number] = f"{texts[number]}[{index}]"
    return labels


def _names(recording: Recording) -> list[str]:
    """The name of each buffer: that recorded, else the one that the source gives it; empty where neither does."""
    buffers, texts = recording.table("buffers"), recording.names
    site = whole(buffers["site"]).tolist()
    found: dict[int, str] = {}
    out = [texts[name] for name in whole(buffers["name"]).tolist()]
    for number, (text, place) in enumerate(zip(out, site, strict=True)):
        if not text and place >= 0:
            if place not in found:
                found[place] = _assigned(recording, place)
            out[number] = found[place]
    return out


def _assigned(recording: Recording, site: int) -> str:
    """The name that the result of a call gets where it stands; empty where it gets none."""
    sites = recording.table("sites")
    text = recording.table("sources").texts("text")[int(sites["source"][site])]
    lines, line = text.splitlines(), int(sites["line"][site])
    if not 0 < line <= len(lines):
        return ""
    before = lines[line - 1].encode()[: int(sites["column"][site])].decode(errors="replace")
    match = _TARGET.search(before)
    return (match[1] or match[2]) if match else ""


def _first_iterations(steps: Steps, count: int) -> list[Values]:
    """Return the loop values around the first use of each buffer."""
    iterations = steps.recording.table("iterations")
    parent, value = whole(iterations["parent"]).tolist(), whole(iterations["value"]).tolist()
    known: dict[int, Values] = {-1: ()}

    def values(iteration: int) -> Values:
        inner: list[int] = []
        while iteration not in known:
            inner.append(iteration)
            iteration = parent[iteration]
        for one in reversed(inner):
            known[one] = (*known[iteration], value[one])
            iteration = one
        return known[iteration]

    out: list[Values] = [()] * count
    used = whole(steps.recording.table("lifetimes")["buffer"]).tolist()
    for buffer, iteration in zip(used, steps.lifetimes["iteration"].tolist(), strict=True):
        out[buffer] = values(iteration)
    return out


def _tell_apart(loops: Sequence[Values]) -> list[str]:
    """Return an index for each, of the loops whose values differ; numbers from 0 where those are not enough."""

    def at(values: Values, level: int) -> int | None:
        return values[level] if level < len(values) else None

    levels = [
        level
        for level in range(max(map(len, loops)))
        if any(at(values, level) != at(loops[0], level) for values in loops)
    ]
    indices = [
        ", ".join("–" if (value := at(item, level)) is None else str(value) for level in levels) for item in loops
    ]
    return indices if len(set(indices)) == len(indices) else [str(number) for number in range(len(indices))]
