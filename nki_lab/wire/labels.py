"""Names of tensors as the views show them: `acc`, `acc[2]` in a loop, `tile 12` without a name."""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.lifetimes import in_steps
from nki_lab.wire.overview import Names
from nki_lab.wire.rows import Steps

Values = tuple[int, ...]
"""The values of the loops around an instruction, outermost first."""


def tensor_labels(recording: Recording) -> list[str]:
    """Return the label of each buffer of a recording.

    Copies of one name, made at one place, get the values of those loops that tell them apart, else a number.
    """
    names = Names(recording)
    buffers = recording.table("buffers")
    texts = [names.all[number] for number in names.of_buffers.tolist()]
    keys = zip(texts, whole(buffers["site"]).tolist(), whole(buffers["space"]).tolist(), strict=True)
    copies: dict[tuple[str, int, int], list[int]] = {}
    for number, key in enumerate(keys):
        copies.setdefault(key, []).append(number)
    labels = [text or f"tile {number + 1}" for number, text in enumerate(texts)]
    several = [mine for (text, _, _), mine in copies.items() if text and len(mine) > 1]
    if several:
        loops = _first_iterations(recording, len(texts))
        for mine in several:
            indices = _tell_apart([loops[number] for number in mine])
            for number, index in zip(mine, indices, strict=True):
                labels[number] = f"{texts[number]}[{index}]"
    return labels


def _first_iterations(recording: Recording, count: int) -> list[Values]:
    """Return the loop values around the first use of each buffer."""
    iterations = recording.table("iterations")
    parent, value = whole(iterations["parent"]).tolist(), whole(iterations["value"]).tolist()
    known: dict[int, Values] = {-1: ()}
    for number, above in enumerate(parent):  # an iteration comes after the one around it
        known[number] = (*known[above], value[number])
    out: list[Values] = [()] * count
    used = whole(recording.table("lifetimes")["buffer"]).tolist()
    first = in_steps(recording.table, Steps(recording).step_of)["iteration"].tolist()
    for buffer, iteration in zip(used, first, strict=True):
        out[buffer] = known[iteration]
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
