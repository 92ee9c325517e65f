"""A recording in a few lines of HTML, for places that show nothing livelier: a picture, and the numbers around it."""

from __future__ import annotations

import base64
from typing import Final

from nki_lab import quantities
from nki_lab.diagnostic import Diagnostic
from nki_lab.export import formatting, picture
from nki_lab.export.colours import COLOURS
from nki_lab.export.findings import capacities, findings
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.recording.figures import DEFINITIONS
from nki_lab.printable import escape

_FINDINGS: Final = 5
_QUIET: Final = 'style="color:#767676"'


def card(recording: Recording, png: bytes, note: str = "") -> str:
    """Return the card around the recording's picture. `note` says where there is more.

    Styles stand at the elements: some pages drop style sheets.
    """
    summary, count = recording.summary, recording.instructions
    times = digest(recording)
    parts = [
        str(summary.get("target") or ""),
        f"{quantities.number(count)} instruction{'s' * (count != 1)}",
        formatting.makespan(summary, times.makespan),
    ]
    if "fault" in summary:
        parts.append("up to the fault")
    if "cancelled" in summary:
        parts.append("cancelled")
    head = f"<b>{escape(str(summary.get('kernel') or 'kernel'))}</b> {escape(' · '.join(filter(None, parts)))}"
    sentences = " ".join(formatting.held_back(recording))
    peaks = [
        f"{space} {quantities.size(peak)}{f' of {quantities.size(capacity)}' if capacity else ''}"
        for space, peak, capacity in capacities(summary)
    ]
    found = findings(recording)
    items = [f"<div>{_finding(item)}</div>" for item in found[:_FINDINGS]]
    if len(found) > _FINDINGS:
        items.append(f"<div {_QUIET}>and {len(found) - _FINDINGS} more findings</div>")
    lines = [head, escape(sentences), _drawing(recording, png), _peaks(peaks)]
    body = "".join(f"<div>{line}</div>" for line in lines if line)
    tail = f"<div {_QUIET}>{escape(note)}</div>" if note else ""
    return f'<div style="line-height:1.5;max-width:1100px">{body}{"".join(items)}{tail}</div>'


def _drawing(recording: Recording, png: bytes) -> str:
    """The picture with a name and a share beside each of its rows."""
    drawn, busy_lines = picture.lines(recording), picture.busy_lines(recording)
    if not drawn:
        return ""
    left_out = len(busy_lines) - len(drawn)
    more = f"<div {_QUIET}>and {left_out} more row{'s' * (left_out != 1)} of engines and DMA</div>" if left_out else ""
    busy = escape(DEFINITIONS["busy"])
    names = "".join(
        f'<div title="{busy}" style="height:{picture.LANE}px;line-height:{picture.LANE}px;white-space:nowrap">'
        f'<span style="color:{COLOURS[line.kind].light}">■</span> {escape(line.name)} '
        f"{escape(quantities.share(min(1.0, line.busy)))}</div>"
        for line in drawn
    )
    height = picture.height(len(drawn))
    data = base64.b64encode(png).decode("ascii")
    image = f'<img alt="Timeline" src="data:image/png;base64,{data}" style="width:100%;height:{height}px">'
    return (
        f'<div style="display:flex;gap:12px;margin:6px 0"><div style="flex:none;font-size:11px">{names}</div>'
        f'<div style="flex:1;min-width:0">{image}</div></div>{more}'
    )


def _peaks(peaks: list[str]) -> str:
    return f'<span {_QUIET} title="{escape(DEFINITIONS["peak"])}">{escape("; ".join(peaks))}</span>'


def _finding(item: Diagnostic) -> str:
    where = f" (line {item.line})" if item.line else ""
    return escape(f"{item.severity}: {item.code} {item.message}{where}")
