"""Overlays: placed tensors that take turns at the same bytes, and may as well have memory of their own.

An allocator of the user's places thousands of tiles over each other. Where each is read only as it was written itself,
and none is used after the next one has begun, nobody can tell whether they share bytes. Memory of their own holds
floats in float32, as that of other tiles; shared bytes have to be converted by each instruction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask, box_of
from nki_lab.kernel_runtime.ir import Program, Variant, access_columns
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.tensor import Buffer

_MOST_BOXES: Final = 4096  # of one memory, which are compared with each other


def overlays(program: Program, suspects: Collection[int]) -> Mask:
    """Return the overlays of a complete program without device loops, by buffer.

    `suspects` are tensors with elements that are read before an instruction has written them under this name.
    """
    found = np.zeros(len(program.buffers), bool)
    memories: dict[tuple[str, int], list[Buffer]] = defaultdict(list)
    for buffer in program.buffers:
        if buffer.address is not None and buffer.on_chip:
            memories[buffer.space.value, buffer.core].append(buffer)
    if not memories:
        return found
    usage = BufferUsage(program)
    stays = usage.is_output | _partly_written(program)
    stays[list(suspects)] = True
    first = np.minimum(usage.first_write, usage.first_read)
    for placed in memories.values():
        tiles = [tile for tile in placed if usage.last_access[tile.id] >= 0]
        numbers = np.array([tile.id for tile in tiles], np.int64)
        taking_turns = _taking_turns(tiles, first[numbers], usage.last_access[numbers], stays[numbers])
        found[numbers[taking_turns]] = True
    return found


def _partly_written(program: Program) -> Mask:
    """Return the buffers of which an instruction may leave elements as they were, where they were never written."""
    ops = program.ops_where(_leaves_elements)
    op, _, buffer, is_out = access_columns(program, indices=False)
    out = np.zeros(len(program.buffers), bool)
    out[buffer[is_out & ops[op]]] = True
    return out


def _leaves_elements(variant: Variant) -> bool:
    instruction, types = variant.instruction, variant.use.types
    scatters = any(is_out and types[name].indirect for name, is_out in zip(variant.names, variant.outs, strict=True))
    return scatters or (instruction.merges is not None and instruction.merges(variant.use))


def _taking_turns(tiles: list[Buffer], first: Column, last: Column, stays: Mask) -> Mask:
    """Return which tiles of one memory overlap others, but none while they are in use, nor one that `stays`.

    Tiles are in use from op `first` to op `last`.
    """
    out = np.zeros(len(tiles), bool)
    if not tiles:
        return out
    boxes, box = np.unique(np.array([box_of(tile) for tile in tiles], np.int64), axis=0, return_inverse=True)
    if len(boxes) > _MOST_BOXES:
        return out
    box = box.reshape(-1)
    order = np.argsort(box, kind="stable")
    start = np.searchsorted(box[order], np.arange(len(boxes) + 1))
    for number, (top, bottom, left, right) in enumerate(boxes.tolist()):
        meets = (boxes[:, 0] < bottom) & (top < boxes[:, 1]) & (boxes[:, 2] < right) & (left < boxes[:, 3])
        others = np.flatnonzero(meets).tolist()
        rows = np.concatenate([order[start[other] : start[other + 1]] for other in others])
        if len(rows) == 1 or stays[rows].any():
            continue
        mine = order[start[number] : start[number + 1]]
        begun = np.searchsorted(np.sort(first[rows]), last[mine], "right")
        over = np.searchsorted(np.sort(last[rows]), first[mine], "left")
        out[mine] = begun - over <= 1  # those in use meanwhile, itself among them
    return out
