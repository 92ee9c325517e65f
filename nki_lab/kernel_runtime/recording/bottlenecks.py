"""The sentences that say what holds a run back; reports and pages show the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.number_sets import ranked
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.digest import Digest, digest
from nki_lab.kernel_runtime.recording.recording import Recording
from nki_lab.kernel_runtime.vocabulary import (
    DATA_FROM,
    KINDS,
    kind_of_lane,
    kind_of_stall,
    known_kind,
    lane_label,
    reason,
)

SENTENCES: Final = {
    "empty": "No instruction was recorded.",
    "instant": "No instruction takes any time.",
    "nothing": "Nothing is on the critical path.",
    "works": "{what} is on the critical path {share} of the time.",
    "path_waits": "The critical path waits {share} of the time for {what}.",
    "waits_for": "{lane} waits for {what}.",
    "advice": "{line} could gain {share} ({code}).",
    "line": "{line} costs most: {share}.",
    "awaited": "{rank} is the slowest: the others wait {share} of the time for it.",
    "ends_last": "{rank} is the slowest: it ends last.",
}
"""Sentences with places for parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a sentence: plain `text`, or a `share` of 1 in place of text.

    `kind` is the kind of lane that the text names. `row` is the instruction that waits for what the text names, `file`
    and `line` the line of source.
    """

    text: str = ""
    share: float | None = None
    kind: str = ""
    row: int = -1
    file: str = ""
    line: int = 0


Sentence = tuple[Part, ...]


def bottlenecks(recording: Recording) -> tuple[Sentence, ...]:
    """Return the sentences, the most important first; at least one.

    Of several ranks the slowest is named first. The largest part of the critical path is named next, then the advice
    that gains most, which comes from timing the run without what it advises against. Where the part is work, the lane
    follows that waits longest on the path for the results of it; then the line of source that costs most of the path.
    """
    times = digest(recording)
    if not len(recording):
        return (_sentence("empty"),)
    if not times.makespan:
        return (_sentence("instant"),)
    out = _ranks(recording, times)
    work, wait = (next(iter(parts.items()), ("", 0)) for parts in (times.work, times.waits))
    if max(work[1], wait[1]) == 0:
        return (_sentence("nothing"),)
    share = Part(share=max(work[1], wait[1]) / times.makespan)
    advice = _advice(recording)
    if work[1] >= wait[1]:
        what = Part(text=KINDS.get(work[0], work[0]), kind=known_kind(work[0]))
        out.append(_sentence("works", what=what, share=share))
        out += [*advice, *_waiting(recording, times, work[0])]
    else:
        out.append(_sentence("path_waits", what=Part(text=reason(wait[0]), kind=kind_of_stall(wait[0])), share=share))
        out += advice
    if times.lines and times.lines[0].critical:
        line = times.lines[0]
        where = Part(text=f"Line {line.line}", file=line.file, line=line.line)
        out.append(_sentence("line", line=where, share=Part(share=line.critical / times.makespan)))
    return tuple(out)


def _ranks(recording: Recording, times: Digest) -> list[Sentence]:
    """Name the slowest of several ranks, where one is."""
    ranks = recording.summary.get("ranks")
    if recording.ranks == 1 or not isinstance(ranks, Mapping):
        return []
    slowest, awaited = ranks.get("slowest", -1), ranks.get("awaited_ns", ())
    if not isinstance(slowest, int) or not 0 <= slowest < recording.ranks or not isinstance(awaited, (list, tuple)):
        return []
    rank = Part(text=f"Rank {slowest}")
    if len(awaited) != recording.ranks or not awaited[slowest] or not times.makespan:
        return [_sentence("ends_last", rank=rank)]
    share = awaited[slowest] * 1000 / (times.makespan * (recording.ranks - 1))
    return [_sentence("awaited", rank=rank, share=Part(share=share))]


def _sentence(name: str, **places: Part) -> Sentence:
    """A sentence with parts in its places."""
    pieces = SENTENCES[name].replace("{", "}").split("}")
    return tuple(places[piece] if at % 2 else Part(text=piece) for at, piece in enumerate(pieces) if piece)


def _advice(recording: Recording) -> list[Sentence]:
    """Name the line and the gain of the advice that gains most."""
    found = recording.summary.get("diagnostics")
    told = [item for item in found if isinstance(item, Mapping)] if isinstance(found, (list, tuple)) else []
    kinds = {"gain": float, "line": int, "file": str, "code": str}
    told = [item for item in told if all(isinstance(item.get(name), kind) for name, kind in kinds.items())]
    told = [item for item in told if item["line"] and item["file"]]
    if not told:
        return []
    best = max(told, key=lambda item: item["gain"])
    line = Part(text=f"Line {best['line']}", file=best["file"], line=best["line"])
    return [_sentence("advice", line=line, share=Part(share=best["gain"]), code=Part(text=best["code"]))]


def _waiting(recording: Recording, times: Digest, kind: str) -> list[Sentence]:
    """Name the lane of another kind, and the row, that wait longest on the critical path for results of a kind."""
    path, name = times.path, DATA_FROM + kind
    if name not in recording.stalls:
        return []
    others = np.array([kind_of_lane(lane.name, lane.kind) != kind for lane in recording.lanes])[path.lane]
    waits = np.flatnonzero((path.stall == recording.stalls.index(name)) & (path.rest > 0) & others)
    if not len(waits):
        return []
    row, rest = path.row[waits], path.rest[waits]
    site = whole(recording.rows["site"])[row].astype(np.int64) + 1
    groups, group = ranked(path.lane[waits] * (int(site.max()) + 1) + site)
    mine = group == np.bincount(group, weights=rest, minlength=len(groups)).argmax()
    longest = int(row[mine][rest[mine].argmax()])
    lane = recording.lanes[int(recording.rows["lane"][longest])]
    place = recording.core_names[lane.core]
    label = f"{lane_label(lane.name)}, {place}" if place else lane_label(lane.name)
    what = Part(text=reason(name), row=longest)
    return [_sentence("waits_for", lane=Part(text=label, kind=kind_of_lane(lane.name, lane.kind)), what=what)]
