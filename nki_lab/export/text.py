"""A recording as a page of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, render
from nki_lab.export import words
from nki_lab.export.found import capacities, findings, lines_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import Digest, LaneTime, digest

_LINES: Final = 10
_WIDTH: Final = 72


def report(recording: Recording) -> str:
    """What a run did and what held it back: makespan, engines, memory, traffic, costly lines, findings."""
    summary, told = recording.summary, digest(recording)
    parts = [[*_head(recording, summary, told)], [*_lanes(summary, told)], [*_numbers(recording, summary)]]
    parts += [[*_lines(told)], [*_findings(recording)]]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _head(recording: Recording, summary: Mapping[str, Any], told: Digest) -> Iterator[str]:
    about = "about " if words.is_unsure(summary) else ""
    name = summary.get("kernel", "a kernel")
    count = f"{len(recording):,} instruction{'' if len(recording) == 1 else 's'}"
    yield f"{name} on {summary.get('target', 'an unknown target')}: {about}{words.duration(told.makespan)}, {count}"
    if sure := words.confidence_text(summary):
        yield f"  critical path: {sure}"
    if options := summary.get("options"):
        yield "  with " + ", ".join(f"{option}={value!r}" for option, value in options.items())
    if len(recording):
        yield "  " + " ".join(words.held_back(told))


def _lanes(summary: Mapping[str, Any], told: Digest) -> Iterator[str]:
    cores = len({lane.core for lane in told.lanes})
    rows = [(words.lane_name(lane, cores), *_shares(lane, told.makespan)) for lane in told.lanes
            if lane.kind != "dma" and lane.rows]  # fmt: skip
    queues = [lane for lane in told.lanes if lane.kind == "dma" and lane.rows]
    busy = summary.get("engine_busy_ns", {}).get("dma")
    if queues and busy is not None:
        part = words.share(words.ratio(1000 * busy, told.makespan))
        rows.append((f"DMA, any of {len(queues)}" if len(queues) > 1 else "DMA", part, "", ""))
    if rows:
        width = max(len(row[0]) for row in rows)
        yield f"  {'':{width}}  {'busy':>6}  {'waits':>6}  mostly for"
        for name, works, waits, cause in rows:
            yield f"  {name:{width}}  {works:>6}  {waits:>6}  {cause}".rstrip()


def _shares(lane: LaneTime, makespan: int) -> tuple[str, str, str]:
    first = next(iter(lane.waits), "")
    waits = words.share(words.ratio(sum(lane.waits.values()), makespan))
    return words.share(words.ratio(lane.busy, makespan)), waits, words.reason(first) if first else ""


def _numbers(recording: Recording, summary: Mapping[str, Any]) -> Iterator[str]:
    for space, peak, capacity in capacities(summary):
        of = f" of {words.size(capacity)}" if capacity else ""
        yield f"  {space} peak    {words.size(peak)}{of} per partition"
    read, written = summary.get("hbm_read_bytes"), summary.get("hbm_write_bytes")
    if read is not None and written is not None:
        yield f"  HBM          {words.size(read)} read, {words.size(written)} written"
    if "dma_bytes" in summary:
        yield f"  DMA          {words.size(summary['dma_bytes'])} moved"
    uses = [f"{name.upper()} {words.share(summary[name])}" for name in ("mfu", "hfu", "mbu") if summary.get(name)]
    if uses:
        yield f"  use          {', '.join(uses)}"


def _lines(told: Digest) -> Iterator[str]:
    costly = lines_of(told)
    if costly:
        yield "  critical path by line"
        places = [f"{PurePath(line.file).name}:{line.line}" for line in costly[:_LINES]]
        width = max(len(place) for place in places)
        for place, line in zip(places, costly, strict=False):
            part = words.share(words.ratio(line.critical, told.makespan))
            text = line.text if len(line.text) <= _WIDTH else f"{line.text[: _WIDTH - 1]}…"
            yield f"  {part:>6}  {place:{width}}  {text}".rstrip()
        if len(costly) > _LINES:
            yield f"          and {len(costly) - _LINES} more lines"


def _findings(recording: Recording) -> Iterator[str]:
    found = findings(recording)
    texts = dict(zip(recording.texts("sources", "path"), recording.texts("sources", "text"), strict=True))
    yield "\n\n".join(_finding(item, texts) for item in found) if found else "no findings"


def _finding(item: Diagnostic, texts: Mapping[str, str]) -> str:
    def source_line(file: str, line: int) -> str:
        listing = texts.get(file, "").splitlines()
        return listing[line - 1] if 0 < line <= len(listing) else ""

    return f"{item.severity}: {render(item, source_line=source_line)}"
