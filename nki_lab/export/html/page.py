"""The page around the drawings: header, shares, tables and findings. All text of users goes through `escape`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.export import words
from nki_lab.export.found import capacities, findings, lines_of
from nki_lab.export.html.colours import KINDS, of_lane, of_reason
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import Digest, LaneTime, LineTime

_LINES: Final = 15
_CAUSES: Final = 8
_FINDINGS: Final = 50
_NOTES: Final = 10
_ICONS: Final = {"error": "✕ error", "warning": "⚠ warning", "information": "ℹ information", "hint": "ℹ hint"}
_CLOSING: Final = ("</script", "<\\/script")  # inside a script's strings both mean the same
# Not even a formula or a damaged name can make the page ask the network for something.
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(
    recording: Recording, told: Digest, *, style: str, figures: str = "", scripts: Sequence[str] = (), note: str = ""
) -> str:
    """The whole page. `figures` is JSON for the script that draws them; without it there is no timeline."""
    summary = recording.summary
    name = str(summary.get("kernel") or "kernel")
    body = [
        _head(recording, summary, told, name),
        _timeline(note) if figures else "",
        f'<div class="two">{_shares(recording, summary, told)}{_causes(told)}</div>' if figures else "",
        _lines(told),
        _findings(findings(recording)),
    ]
    data = figures.replace("<", "\\u003c")  # inside strings only: JSON itself has no such sign
    drawn = f'<script type="application/json" id="figures">{data}</script>' if figures else ""
    code = "".join(f"<script>{script.replace(*_CLOSING)}</script>" for script in scripts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}: {words.duration(told.makespan)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n{''.join(body)}\n<footer>{_origin(summary)}</footer>\n</main>\n"
        f"{drawn}\n{code}\n</body>\n</html>\n"
    )


def _section(title: str, content: str, quiet: str = "") -> str:
    said = f'<span class="quiet">{escape(quiet)}</span>' if quiet else ""
    return f"<section><header><h2>{escape(title)}</h2>{said}</header>{content}</section>\n"


def _time_of(summary: Mapping[str, Any]) -> str:
    """What kind of times these are: those of a profile may come from a device."""
    return "Profiled" if "profile" in summary else "Simulated"


def _origin(summary: Mapping[str, Any]) -> str:
    read = "Read from a Neuron Explorer profile by nki_lab."
    return read if "profile" in summary else "Simulated by nki_lab; no device was used."


def _percent(part: float, whole: float) -> str:
    """A width in a style."""
    return f"{100 * words.ratio(part, whole):.3f}%"


# -- header ------------------------------------------------------------------------------------------------------------


def _head(recording: Recording, summary: Mapping[str, Any], told: Digest, name: str) -> str:
    count = len(recording)
    said = [str(summary.get("target", "unknown target")), f"{words.number(count)} instruction{'s' * (count != 1)}"]
    options = summary.get("options")
    said += [f"{option} = {value!r}" for option, value in options.items()] if isinstance(options, dict) else []
    value, _, unit = words.duration(told.makespan).rpartition(" ")
    about = "<small>about</small> " if words.is_unsure(summary) else ""
    sure = words.confidence(summary)
    bar = "".join(f'<i class="{escape(kind)}" style="width:{100 * part:.2f}%"></i>' for kind, part in sure)
    sentences = "".join(f"<p>{escape(text)}</p>" for text in words.held_back(told))
    return (
        f'<section><header class="top"><h1 class="code">{escape(name)}</h1>'
        f'<span class="quiet">{escape(" · ".join(said))}</span></header><div class="head"><div>'
        f'<div class="label">{_time_of(summary)} time</div>'
        f'<div class="makespan">{about}{value} <small>{unit}</small></div>'
        f'<div class="sure">{bar}</div><div class="quiet">{escape(words.confidence_text(summary))}</div></div>'
        f'<div class="says"><div class="label">What holds it back</div>{sentences}</div>'
        f'<dl class="numbers">{_numbers(summary)}</dl></div></section>\n'
    )


def _numbers(summary: Mapping[str, Any]) -> str:
    rows = [(name.upper(), words.share(summary[name])) for name in ("mfu", "mbu") if name in summary]
    rows += [(label, words.size(summary[name])) for label, name in (
        ("HBM read", "hbm_read_bytes"), ("HBM written", "hbm_write_bytes")) if name in summary]  # fmt: skip
    said = "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in rows)
    for space, peak, capacity in capacities(summary):
        over = ' class="over"' if capacity and peak > capacity else ""
        value = f"{words.size(peak)}{f' of {words.size(capacity)}' if capacity else ''}"
        said += f"<dt>{space} peak</dt><dd{over}>{value}</dd>"
    return said


# -- timeline ----------------------------------------------------------------------------------------------------------


def _timeline(note: str) -> str:
    legend = (
        '<div class="legend"><span><i class="kind-tensor solid"></i>working</span>'
        '<span><i class="kind-dma hatch"></i>waiting, in the colour of what it waits for</span>'
        '<span><i class="kind-tensor solid under"></i>on the critical path</span>'
        '<span class="quiet">Drag or Ctrl + wheel zooms, double click shows the whole run.</span></div>'
    )
    return _section("Timeline", f'<div id="drawing"></div>{legend}', note)


# -- shares ------------------------------------------------------------------------------------------------------------


def _shares(recording: Recording, summary: Mapping[str, Any], told: Digest) -> str:
    cores = len({lane.core for lane in told.lanes})
    kinds = {lane.number: of_lane(lane) for lane in recording.lanes}
    used = [lane for lane in told.lanes if lane.rows]
    rows = [_lane(lane, kinds[lane.number], told.makespan, cores) for lane in used if lane.kind != "dma"]
    queues = [lane for lane in used if lane.kind == "dma"]
    more = ""
    if len(queues) > 2:
        rows.append(_queues(queues, summary, told))
        inner = "".join(_lane(lane, "dma", told.makespan, cores) for lane in queues)
        more = f'<details><summary>Each DMA queue</summary><div class="shares">{inner}</div></details>'
    else:
        rows += [_lane(lane, "dma", told.makespan, cores) for lane in queues]
    legend = (
        '<div class="legend"><span><i class="kind-tensor solid"></i>critical</span>'
        '<span><i class="kind-tensor light"></i>overlapped</span>'
        '<span><i class="kind-dma hatch"></i>waiting</span>'
        '<span><i style="background:var(--nki-sunk)"></i>nothing queued</span></div>'
    )
    quiet = f"{words.duration(told.makespan)} per engine"
    return _section("Where the time goes", f'<div class="shares">{"".join(rows)}</div>{legend}{more}', quiet)


def _lane(lane: LaneTime, kind: str, makespan: int, cores: int) -> str:
    parts = [_part(f"kind-{kind} solid", lane.critical, makespan, "on the critical path"),
             _part(f"kind-{kind} light", lane.busy - lane.critical, makespan, "overlapped")]  # fmt: skip
    parts += [_part(f"kind-{of_reason(name)} hatch", time, makespan, f"waits for {words.reason(name)}")
              for name, time in lane.waits.items()]  # fmt: skip
    waits = next(iter(lane.waits.items()), None)
    why = f"waits {words.share(words.ratio(waits[1], makespan))} for {words.reason(waits[0])}" if waits else ""
    return _share(words.lane_name(lane, cores), kind, "".join(parts), words.ratio(lane.busy, makespan), why)


def _queues(queues: Sequence[LaneTime], summary: Mapping[str, Any], told: Digest) -> str:
    busy = summary.get("engine_busy_ns", {}).get("dma")
    critical = told.work.get("dma", 0)
    together = max(lane.busy for lane in queues) if busy is None else round(1000 * busy)
    parts = [_part("kind-dma solid", min(critical, together), told.makespan, "on the critical path"),
             _part("kind-dma light", max(0, together - critical), told.makespan, "overlapped")]  # fmt: skip
    share = words.ratio(together, told.makespan)
    return _share(f"DMA, any of {len(queues)}", "dma", "".join(parts), share, "")


def _share(name: str, kind: str, parts: str, busy: float, why: str) -> str:
    said = f"busy {words.share(busy)}{f', {why}' if why else ''}"
    return (
        f'<div><i class="swatch kind-{kind}"></i>{escape(name)}</div><div class="bar">{parts}</div>'
        f'<div class="says-why">{escape(said)}</div>'
    )


def _part(look: str, time: int, makespan: int, what: str) -> str:
    if time <= 0:
        return ""
    title = escape(f"{words.duration(time)}, {what}")
    return f'<i class="{look}" style="width:{_percent(time, makespan)}" title="{title}"></i>'


def _causes(told: Digest) -> str:
    items = [(f"{words.ENGINES.get(name, name)} works", name if name in KINDS else "sync", "solid", time)
             for name, time in told.work.items()]  # fmt: skip
    items += [(f"Waits for {words.reason(name)}", of_reason(name), "hatch", time) for name, time in told.waits.items()]
    items.sort(key=lambda item: -item[3])
    largest = items[0][3] if items else 0
    rows = "".join(
        f'<div>{escape(what)}</div><div class="bar"><i class="kind-{kind} {look}" '
        f'style="width:{_percent(time, largest)}"></i></div>'
        f'<div class="says-why">{words.share(words.ratio(time, told.makespan))}</div>'
        for what, kind, look, time in items[:_CAUSES]
    )
    left = sum(time for *_, time in items[_CAUSES:])
    if left:
        part = words.share(words.ratio(left, told.makespan))
        rows += f'<div>{len(items) - _CAUSES} other parts</div><div></div><div class="says-why">{part}</div>'
    return _section("What the critical path consists of", f'<div class="shares">{rows}</div>', "adds up to 100 %")


# -- lines and findings ------------------------------------------------------------------------------------------------


def _lines(told: Digest) -> str:
    costly = lines_of(told)
    if not costly:
        return ""
    several = len({line.file for line in told.lines}) > 1
    rows = "".join(_line(line, told.makespan, costly[0].critical, several) for line in costly[:_LINES])
    rest = f"{_LINES} of {len(costly)} lines" if len(costly) > _LINES else ""
    where = "" if several else PurePath(costly[0].file).name
    head = (
        '<tr><th>Critical path</th><th class="n">Line</th><th>Source</th><th class="n">Instructions</th>'
        '<th class="n">Busy</th><th>Waits mostly for</th></tr>'
    )
    table = f'<div class="scroll"><table>{head}{rows}</table></div>'
    return _section("Lines that cost most", table, ", ".join(filter(None, (where, rest))))


def _line(line: LineTime, makespan: int, largest: int, several: bool) -> str:
    part = words.share(words.ratio(line.critical, makespan))
    place = f"{PurePath(line.file).name}:{line.line}" if several else f"{line.line}"
    cause = escape(words.reason(next(iter(line.waits)))) if line.waits else ""
    width = f"{120 * words.ratio(line.critical, largest):.1f}px"
    return (
        f'<tr><td class="share"><span>{part}</span><span class="part" style="width:{width}"></span></td>'
        f'<td class="n place" title="{escape(line.file)}">{escape(place)}</td>'
        f'<td class="text"><code>{escape(line.text)}</code></td><td class="n">{words.number(line.rows)}</td>'
        f'<td class="n">{words.duration(line.busy)}</td><td class="cause" title="{cause}">{cause}</td></tr>'
    )


def _findings(found: Sequence[Diagnostic]) -> str:
    if not found:
        return _section("Findings", '<p class="nothing">None.</p>')
    shown = "".join(_finding(item) for item in found[:_FINDINGS])
    rest = f"{_FINDINGS} of {len(found)}" if len(found) > _FINDINGS else ""
    return _section("Findings", shown, rest)


def _finding(item: Diagnostic) -> str:
    def parts() -> Iterator[str]:
        yield f"<p><b>{_ICONS[item.severity]}</b> <code>{escape(item.code)}</code> {escape(item.message)}</p>"
        place = f"{PurePath(item.file).name}:{item.line}:{item.column}" if item.span else ""
        notes = [f"{note.message}{f' (line {note.span.line})' if note.span else ''}" for note in item.related[:_NOTES]]
        for label, text in (
            ("", place),
            *(("", note) for note in notes),
            ("limit: ", item.limit),
            ("help: ", item.help),
        ):
            if text:
                yield f'<p class="quiet">{label}{escape(text)}</p>'

    return f'<div class="finding {item.severity}">{"".join(parts())}</div>'
