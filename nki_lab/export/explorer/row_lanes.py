"""The assignment of a profile's rows: lanes, places in the source, critical predecessors."""

from __future__ import annotations

import re
from heapq import heappop, heappush
from typing import Final

import numpy as np

from nki_lab.export.explorer.tables import ENGINES
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.vocabulary import LANE_KINDS

LaneColumns = dict[str, list[str | int]]

_PLACE: Final = re.compile(r"""([^\[\]"',;]+):(\d+)""")


def lane_name(track: str) -> str:
    """An engine's own name for what a profile calls it."""
    return track.lower() if track.lower() in ENGINES else track or "engine"


def lanes_of(keys: list[tuple[bool, int, str]], start: Array, duration: Array) -> tuple[Array, LaneColumns]:
    """The lane of each row, and the columns of the lanes, for rows of (is DMA, core, name).

    Engines come first. Each engine and queue has as many lanes as it needs for rows that overlap.
    """
    order = sorted(set(keys), key=_drawing_order)
    number = {key: place for place, key in enumerate(order)}
    group = np.array([number[key] for key in keys], np.int64)
    lane = np.zeros(len(keys), np.int64)
    lanes: LaneColumns = {"name": [], "kind": [], "core": []}
    for place, (is_dma, core, name) in enumerate(order):
        mine = np.flatnonzero(group == place)
        mine = mine[np.lexsort((duration[mine], start[mine]))]
        copies = apart(start[mine], duration[mine])
        lane[mine] = len(lanes["name"]) + copies
        for copy in range(int(copies.max()) + 1):
            lanes["name"].append(name if not copy else f"{name} {copy + 1}")
            lanes["kind"].append(LANE_KINDS.index("dma" if is_dma else "engine"))
            lanes["core"].append(max(0, core))
    return lane, lanes


def _drawing_order(key: tuple[bool, int, str]) -> tuple[object, ...]:
    is_dma, core, name = key
    engines = list(ENGINES)
    # Numbers within names count as numbers: q2 is before q10.
    parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
    return is_dma, core, engines.index(name) if name in engines else len(engines), parts


def apart(start: Array, duration: Array) -> Array:
    """The least numbers such that rows of one number do not overlap; rows are in order of start."""
    end = start + duration
    if not bool(np.any(start[1:] < end[:-1])):
        return np.zeros(len(start), np.int64)
    out: list[int] = []
    running: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        while running and running[0][0] <= begin:
            heappush(free, heappop(running)[1])
        if free:
            number = heappop(free)
        else:
            number, used = used, used + 1
        heappush(running, (stop, number))
        out.append(number)
    return np.array(out, np.int64)


def sites_of(places: list[str]) -> tuple[Array, dict[str, list[int]], dict[str, list[str]]]:
    """The site of each place in the source, of which the first `file:line` counts."""
    numbers: dict[tuple[str, int], int] = {}
    known = {
        place: numbers.setdefault((found[1].strip(), int(found[2])), len(numbers)) if found else -1
        for place, found in ((place, _PLACE.search(place)) for place in dict.fromkeys(places))
    }
    paths = list(dict.fromkeys(path for path, _ in numbers))
    sites = {"source": [paths.index(path) for path, _ in numbers], "line": [line for _, line in numbers]}
    return np.array([known[place] for place in places], np.int64), sites, {"path": paths, "text": [""] * len(paths)}


def critical_predecessors(rows: dict[str, Array], edges: dict[str, Array], previous: Array) -> Array:
    """Of the rows that a row depends on and the one before it on its lane, the last to end that has ended by then."""
    end = rows["start"] + rows["duration"]
    row = np.concatenate((edges["row"], np.flatnonzero(previous >= 0)))
    before = np.concatenate((edges["before"], previous[previous >= 0]))
    # Only earlier rows, so that no circle closes among rows of no length.
    some = (before < row) & (end[before] <= rows["start"][row])
    row, before = row[some], before[some]
    order = np.lexsort((before, end[before], row))
    out = np.full(len(end), -1)
    out[row[order]] = before[order]  # the last of each row stays
    return out
