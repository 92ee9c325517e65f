"""How much of the calls of NKI's functions was checked, as pages: an index, and one page a file with its lines marked.

The pages are static, need neither scripts nor the network, and tell states by signs and words as well as by colour.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import Diagnostic, character_at
from nki_lab.export.colours import COLOURS
from nki_lab.export.files import replacing_folder, require_replaceable
from nki_lab.export.findings import by_severity, counts
from nki_lab.file_system import relative, write_whole
from nki_lab.printable import escape
from nki_lab.quantities import share
from nki_lab.query.call_sites import REASONS, STATES, CallSite, State, counted, reasons

SIGNS: Final[Mapping[State, str]] = {"fully": "●", "partly": "◐", "by name": "○", "skipped": "×"}
_CLASSES: Final[Mapping[State, str]] = {"fully": "full", "partly": "part", "by name": "name", "skipped": "skip"}
_ORDER: Final = tuple(STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The lines of a file, or of a cell of a notebook, with the calls in them. `title` names a cell."""

    title: str = ""
    lines: Sequence[str]
    sites: Sequence[CallSite]
    findings: Sequence[Diagnostic]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that was checked: its parts, and findings in it that have no line there."""

    file: str
    parts: Sequence[Part]

    @property
    def sites(self) -> list[CallSite]:
        """Return the calls of all parts."""
        return [site for part in self.parts for site in part.sites]

    @property
    def findings(self) -> list[Diagnostic]:
        """Return the findings in all parts."""
        return [item for part in self.parts for item in part.findings]


class _OwnNames:
    """The names of files that a folder of pages may hold."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _NAME.fullmatch(name) is not None


_NAME: Final = re.compile(r"index\.html|[\w.-]+\.[0-9a-f]{12}\.html")


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Raise NKI021 where `write` would refuse a folder: a file stands there, or other files than such pages."""
    require_replaceable(folder, _OwnNames())


def write(files: Iterable[SourceFile], folder: str | os.PathLike[str]) -> Path:
    """Write the pages into a folder of their own, all or none; gives the index.

    They replace earlier ones. Raises NKI021 where the folder holds anything else, or the disk does not take them.
    """
    pages = [(item, page_name(item.file)) for item in _shortened(list(files))]
    with replacing_folder(folder, _OwnNames()) as draft:
        for item, name in pages:
            write_whole(draft / name, file_page(item).encode("utf-8", "replace"))
        write_whole(draft / "index.html", index_page(pages).encode("utf-8", "replace"))
    return Path(folder) / "index.html"


def _shortened(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return the files by their paths below the folder that they share, where their paths are absolute."""
    names = [item.file for item in files]
    if not names or not all(map(os.path.isabs, names)):
        return list(files)
    folder = os.path.commonpath([Path(name).parent for name in names])
    return [replace(item, file=relative(item.file, folder)) for item in files]


def page_name(file: str) -> str:
    """Return the name of a file's page: readable, and its own."""
    digest = hashlib.sha256(file.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", file).strip("-.")[-80:] or "file"
    return f"{readable}.{digest}.html"


# -- pages -------------------------------------------------------------------------------------------------------------


def index_page(pages: Iterable[tuple[SourceFile, str]]) -> str:
    """Return the index: counts of all files and of each, with links."""
    items = list(pages)
    sites = [site for item, _ in items for site in item.sites]
    with_calls = [(item, name) for item, name in items if item.sites]
    without = [(item, name) for item, name in items if not item.sites]
    rows = "".join(_row(item, name) for item, name in with_calls)
    table = (
        '<table class="files"><thead><tr><th scope="col">File</th><th scope="col" class="n">Calls</th>'
        + "".join(f'<th scope="col" class="n">{_label(state)}</th>' for state in STATES)
        + '<th scope="col">Share</th><th scope="col">Findings</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    more = ""
    if without:
        links = "".join(
            f'<li><a href="{escape(name)}">{escape(item.file)}</a> {escape(counts(item.findings))}</li>'
            for item, name in without
        )
        title = f"{len(without)} {'file' if len(without) == 1 else 'files'} without calls of NKI"
        more = f"<details><summary>{title}</summary><ul>{links}</ul></details>"
    body = f"<h1>Checked calls of NKI</h1>{_overview(sites)}<h2>Files</h2>{table if rows else '<p>No calls.</p>'}{more}"
    return _page("Checked calls of NKI", body)


def file_page(item: SourceFile) -> str:
    """Return the page of one file: its counts, its findings, and its lines."""
    parts = "".join(_part(part, number) for number, part in enumerate(item.parts))
    body = (
        '<nav><a href="index.html">All files</a></nav>'
        f'<h1 class="path">{escape(item.file)}</h1>{_overview(item.sites)}{_findings(item)}<h2>Source</h2>{parts}'
    )
    return _page(f"{item.file}: checked calls of NKI", body)


def _page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_style()}</style>\n</head>\n<body>\n<main>{body}</main>\n</body>\n</html>\n"
    )


def _overview(sites: Sequence[CallSite]) -> str:
    """Return the counts with their meaning, a bar of their shares, and the reasons."""
    total, number = len(sites), counted(sites)
    if not total:
        return "<p>No calls of NKI.</p>"
    cards = "".join(
        f'<div class="card {_CLASSES[state]}"><dt>{_label(state)}</dt>'
        f"<dd><b>{number[state]}</b> {share(number[state] / total)}</dd><dd>{escape(STATES[state])}</dd></div>"
        for state in STATES
    )
    why = "".join(
        f'<tr><td class="n">{count}</td><td class="{_CLASSES[state]}">{_label(state)}</td>'
        f"<td>{escape(REASONS[reason])}</td></tr>"
        for (state, reason), count in reasons(sites).items()
    )
    table = (
        f'<h2>Why calls are not checked fully</h2><table class="why"><thead><tr><th scope="col" class="n">Calls</th>'
        f'<th scope="col">Checked</th><th scope="col">Reason</th></tr></thead><tbody>{why}</tbody></table>'
    )
    unit = "call" if total == 1 else "calls"
    head = f'<p class="total"><b>{total}</b> {unit} of NKI</p>{_bar(number)}'
    return f'{head}<dl class="cards">{cards}</dl>{table if why else ""}'


def _row(item: SourceFile, name: str) -> str:
    number = counted(item.sites)
    cells = "".join(f'<td class="n">{number[state] or _NONE}</td>' for state in STATES)
    return (
        f'<tr><th scope="row"><a href="{escape(name)}">{escape(item.file)}</a></th>'
        f'<td class="n">{len(item.sites)}</td>{cells}<td>{_bar(number)}</td>'
        f"<td>{escape(counts(item.findings)) or _NONE}</td></tr>"
    )


_NONE: Final = '<span class="none">–</span>'


def _bar(number: Mapping[State, int]) -> str:
    """Return the shares of the states as a bar."""
    told = ", ".join(f"{count} {state}" for state, count in number.items() if count)
    total = sum(number.values()) or 1
    parts = "".join(
        f'<i class="{_CLASSES[state]}" style="width:{100 * count / total:.2f}%"></i>'
        for state, count in number.items()
        if count
    )
    return f'<div class="bar" role="img" aria-label="{told}" title="{told}">{parts}</div>'


def _label(state: State) -> str:
    return f'<span class="state {_CLASSES[state]}"><span aria-hidden="true">{SIGNS[state]}</span> {state}</span>'


def _findings(item: SourceFile) -> str:
    rows = "".join(
        f'<tr class="{finding.severity}"><td class="n"><a href="#{_anchor(number, finding.line)}">'
        f"{escape(f'{part.title} ')}{finding.line}</a></td>"
        f'<td><span class="severity">{finding.severity}</span></td><td>{finding.code}</td>'
        f"<td>{escape(finding.message)}{_help(finding)}</td></tr>"
        for number, part in enumerate(item.parts)
        for finding in by_severity(part.findings)
    )
    if not rows:
        return "<h2>Findings</h2><p>No findings.</p>"
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Line", "Severity", "Code", "Finding"))
    return f'<h2>Findings</h2><table class="findings"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _help(finding: Diagnostic) -> str:
    parts = [("limit", finding.limit), ("help", finding.help)]
    return "".join(f'<div class="more"><b>{name}:</b> {escape(text)}</div>' for name, text in parts if text)


# -- lines -------------------------------------------------------------------------------------------------------------


def _anchor(part: int, line: int) -> str:
    return f"L{line}" if part == 0 else f"P{part}-L{line}"


def _part(part: Part, number: int) -> str:
    starting: dict[int, list[CallSite]] = {}
    covering: dict[int, list[CallSite]] = {}
    for site in part.sites:
        starting.setdefault(site.line, []).append(site)
        for line in range(site.line, site.end_line + 1):
            covering.setdefault(line, []).append(site)
    found: dict[int, list[Diagnostic]] = {}
    for item in part.findings:
        found.setdefault(item.line, []).append(item)
    rows = "".join(
        _line(text, line, number, starting.get(line, ()), covering.get(line, ()), found.get(line, ()))
        for line, text in enumerate(part.lines, start=1)
    )
    title = f"<h3>{escape(part.title)}</h3>" if part.title else ""
    head = '<th scope="col" class="n">Line</th><th scope="col">Source</th><th scope="col">Checked</th>'
    table = f'<table class="source"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'{title}<div class="scroll">{table}</div>'


def _line(
    text: str,
    line: int,
    part: int,
    starting: Sequence[CallSite],
    covering: Sequence[CallSite],
    found: Sequence[Diagnostic],
) -> str:
    """Return the row of a line: its number, its text with calls marked, and what is known of them."""
    kind = f' class="{_CLASSES[_least(covering)]}"' if covering else ""
    notes = "".join(
        f"<div>{_label(item.state)} <code>{escape(_short(item.name))}</code>{_why(item)}</div>" for item in starting
    )
    notes += "".join(
        f'<div class="{item.severity}"><span class="severity">{item.severity}</span> {item.code}'
        f" {escape(item.message)}</div>"
        for item in found
    )
    code = "".join(_marked(text, line, covering))
    return (
        f'<tr id="{_anchor(part, line)}"{kind}><td class="n">{line}</td>'
        f'<td class="code"><pre>{code}</pre></td><td class="note">{notes}</td></tr>'
    )


def _least(sites: Iterable[CallSite]) -> State:
    return max((item.state for item in sites), key=_ORDER.index)


def _short(name: str) -> str:
    """Return the name with its module's last part: `isa.nc_matmul`."""
    return ".".join(name.split(".")[-2:])


def _why(site: CallSite) -> str:
    return f': <span class="reason">{escape(REASONS[site.reason])}</span>' if site.reason else ""


def _marked(text: str, line: int, sites: Sequence[CallSite]) -> Iterator[str]:
    """Yield the text of a line with the calls in it marked, the innermost where they are nested."""
    owner: list[CallSite | None] = [None] * len(text)
    for site in sites:  # the outer ones come first
        start = character_at(text, site.column) if site.line == line else len(text) - len(text.lstrip())
        end = character_at(text, site.end_column) if site.end_line == line else len(text.rstrip())
        owner[start:end] = [site] * len(owner[start:end])
    at = 0
    while at < len(text):
        mine, end = owner[at], at
        while end < len(text) and owner[end] is mine:
            end += 1
        piece = escape(text[at:end])
        if mine is None:
            yield piece
        else:
            tip = f"{mine.state}: {_short(mine.name)}" + (f": {REASONS[mine.reason]}" if mine.reason else "")
            yield f'<mark class="{_CLASSES[mine.state]}" title="{escape(tip)}">{piece}</mark>'
        at = end


# -- style -------------------------------------------------------------------------------------------------------------

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_USED: Final = (
    "bg", "sunk", "hover", "line", "line2", "ink", "ink2", "ink3", "tensor", "error", "error-ground", "warn",
    "warn-ground", "ok", "ok-ground",
)  # fmt: skip


def _style() -> str:
    colours = "".join(f"--{name}:light-dark({COLOURS[name].light},{COLOURS[name].dark});" for name in _USED)
    return f":root{{color-scheme:light dark;{colours}}}{_RULES}"


_RULES: Final = """
body{margin:0;background:var(--bg);color:var(--ink);font:14px/1.5 system-ui,sans-serif}
main{max-width:1680px;margin:0 auto;padding:24px}
nav{margin-bottom:8px}
h1{font-size:22px;line-height:1.25;margin:0 0 8px}
h1.path{font:600 17px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
h2{font-size:16px;margin:28px 0 8px}
h3{font-size:14px;margin:20px 0 6px}
a{color:var(--tensor)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--tensor);outline-offset:2px}
p{margin:8px 0}
.total{color:var(--ink2)} .total b{font-size:18px;color:var(--ink)}
.full{--c:var(--ok);--g:var(--ok-ground)} .part{--c:var(--warn);--g:var(--warn-ground)}
.name{--c:var(--ink3);--g:var(--hover)} .skip{--c:var(--error);--g:var(--error-ground)}
.state{color:var(--c);font-weight:600;white-space:nowrap}
.bar{display:flex;height:10px;min-width:120px;border-radius:3px;overflow:hidden;background:var(--hover)}
.bar i{display:block;background:var(--c);box-shadow:inset -1px 0 var(--bg)}
.bar .part{background:repeating-linear-gradient(135deg,var(--c) 0 4px,var(--g) 4px 6px)}
.bar .name{background:repeating-linear-gradient(90deg,var(--c) 0 1px,var(--g) 1px 4px)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:12px;margin:12px 0}
.card{border:1px solid var(--line);border-top:3px solid var(--c);border-radius:4px;padding:8px 12px}
.card dd{margin:0;color:var(--ink2)} .card b{font-size:18px;color:var(--ink)}
table{border-collapse:collapse;width:100%}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{color:var(--ink2);font-weight:600;border-bottom-color:var(--line2);white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:first-child.n,th:first-child.n{width:1%}
.none{color:var(--ink3)}
.files tbody th{font:13px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
.files .bar{margin-top:5px} .files tbody tr:hover{background:var(--sunk)}
.why td:nth-child(2),.findings td:nth-child(2),.findings td:nth-child(3){width:1%;white-space:nowrap}
.severity{font-weight:600} .error .severity{color:var(--error)} .warning .severity{color:var(--warn)}
.more{color:var(--ink2)}
details{margin:16px 0} summary{cursor:pointer}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:4px}
.source td,.source th{border-bottom:0;padding:1px 12px}
.source thead th{padding:6px 12px;background:var(--sunk)}
.source td.n{color:var(--ink3);user-select:none;border-left:4px solid transparent;font:12px/1.6 ui-monospace,monospace}
.source tr.full td.n{border-left:4px solid var(--c)} .source tr.part td.n{border-left:4px double var(--c)}
.source tr.name td.n{border-left:4px dotted var(--c)} .source tr.skip td.n{border-left:4px solid var(--c)}
.source tr:target{background:var(--sunk)}
.source{table-layout:fixed} .source th:first-child{width:72px} .source th:last-child{width:34%}
.code pre{margin:0;font:12px/1.6 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;tab-size:4}
mark{background:var(--g);color:inherit;border-bottom:2px solid var(--c);border-radius:2px}
mark.part{border-bottom-style:double;border-bottom-width:3px} mark.name{border-bottom-style:dotted}
mark.skip{border-bottom-style:dashed}
.note{font-size:12px;line-height:1.6;color:var(--ink2)}
.note code{font:12px ui-monospace,monospace;color:var(--ink)}
@media(max-width:800px){main{padding:12px} .source{min-width:640px}}
@media print{.scroll{overflow:visible}}
"""
