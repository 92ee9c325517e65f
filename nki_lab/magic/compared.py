"""`--compare` and `--targets` of a cell: its last run beside an earlier one, and on several targets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from nki_lab import quantities
from nki_lab.diagnostic import NkiError
from nki_lab.export import formatting, text
from nki_lab.export.comparison.sentence import signed_share
from nki_lab.magic.display import Bundle, bundle
from nki_lab.printable import escape
from nki_lab.result import Recorded, Run
from nki_lab.result import open as open_run

LAST: Final = "last"
"""The name of the earlier run of the same kernel."""

_KEPT: Final = 4
"""Kernels whose last run is kept."""

_HEAD: Final = ("target", "latency", "change", "Tensor", "Vector", "Scalar", "GpSimd", "DMA", "SBUF peak", "MBU")
_ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "dma")


class EarlierRuns:
    """The last runs of a session by the names of their kernels; of several kernels the latest ones."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def add(self, run: Run | None) -> None:
        """Keep a run that came to its end."""
        if run is None or run.error is not None or not run.has_recording:
            return
        self._runs[run.name] = run
        self._runs.move_to_end(run.name)
        while len(self._runs) > _KEPT:
            self._runs.popitem(last=False)

    def settle(self) -> None:
        """Take the texts of sources that may be edited until the next run; those of cells stay."""
        for run in self._runs.values():
            if any(not site.file.startswith("<") for site in run.program.sites):
                _ = run.recording

    def of(self, name: str) -> Run | None:
        """Return the last run of a kernel."""
        return self._runs.get(name)


def compared(run: Run | None, asked: str, earlier: EarlierRuns, namespace: Mapping[str, Any]) -> Bundle:
    """Return the difference between a run and an earlier one: the last one of its kernel, a run by the name of a
    variable, or a saved one by its folder. What keeps from comparing is said in its place.
    """
    if run is None:
        return _note("--compare", asked, "no kernel was called")
    if not run.has_recording:
        return _note("--compare", asked, f"the run of {run.name} has no times")
    before: Recorded | None
    if asked == LAST:
        before = earlier.of(run.name)
        if before is None:
            return _note("--compare", asked, f"this is the first run of {run.name} in this session")
    else:
        named = namespace.get(asked)
        try:
            before = named if isinstance(named, Recorded) else open_run(asked)
        except NkiError as error:
            return _note("--compare", asked, f"it is no run of the notebook, and {_message(error)}")
    try:
        found = before.compare(run)._repr_mimebundle_()
        card = bundle(str(found.pop("text/plain")).rstrip("\n"), f'<div class="card">{found.pop("text/html")}</div>')
        return {**card, **found}
    except NkiError as error:
        return _note("--compare", asked, _message(error))


def on_targets(run: Run | None, asked: str) -> Bundle:
    """Return a table of a run's call on several targets, `trn1,trn2,trn3`; changes are from the first one that works.

    A target that refuses the call has the reason in its row.
    """
    names = list(dict.fromkeys(filter(None, (name.strip() for name in asked.split(",")))))
    if run is None:
        return _note("--targets", asked, "no kernel was called")
    if not names:
        return _note("--targets", asked, "it names no target; write --targets trn1,trn2,trn3")
    rows: list[tuple[str, ...]] = []
    first: float | None = None
    for name in names:
        try:
            done = run.on(name)
            summary = done.summary
            if "makespan_ns" not in summary:
                rows.append((name, "no times: NKI801"))
                continue
        except NkiError as error:
            rows.append((name, _message(error)))
            continue
        nanoseconds = float(summary.makespan_ns)
        rows.append((name, *_figures(done, nanoseconds, first)))
        first = nanoseconds if first is None else first
    title = f"{run.name} on {', '.join(names)}, timed"
    plain = [(*row, *[""] * (len(_HEAD) - len(row))) for row in rows]
    lines = text.table(_HEAD, plain, left=(0, 1))
    left = 'style="text-align:left"'
    head = "".join(f"<th {left} scope='col'>{escape(item)}</th>" for item in _HEAD)
    body = "".join(f"<tr>{''.join(_cell(item, len(row)) for item in row)}</tr>" for row in rows)
    table = f"<section><table><tr>{head}</tr>{body}</table></section>"
    return bundle(f"{title}\n{lines}", f'<div class="card"><header><b>{escape(title)}</b></header>{table}</div>')


def _cell(item: str, count: int) -> str:
    span = f' colspan="{len(_HEAD) - 1}"' if count == 2 and len(item) > 5 else ""  # a reason in place of figures
    return f'<td style="text-align:left"{span}>{escape(item)}</td>'


def _figures(done: Run, nanoseconds: float, first: float | None) -> list[str]:
    """Return a row's cells behind the target."""
    summary = done.summary
    available = nanoseconds * summary.cores
    change = "" if not first else signed_share(nanoseconds / first - 1)
    shares = [quantities.share(quantities.ratio(summary.engine_busy_ns.get(name, 0.0), available)) for name in _ENGINES]
    return [
        formatting.makespan(summary, round(nanoseconds * 1000)),
        change,
        *shares,
        quantities.size(summary.sbuf_occupied_bytes_per_partition),
        quantities.share(summary.mbu),
    ]


def _message(error: NkiError) -> str:
    first = error.diagnostics[0]
    return f"{first.code} {first.message}"


def _note(option: str, asked: str, reason: str) -> Bundle:
    said = f"{option} {asked}: {'not compared' if option == '--compare' else 'not timed'}, {reason}"
    return bundle(said, f'<p class="note">{escape(said)}</p>')
