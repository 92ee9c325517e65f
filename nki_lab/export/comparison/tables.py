"""The tables of a comparison: headers, and rows of texts; text and HTML show the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.comparison.amounts import Amount
from nki_lab.comparison.compared import Compared, LineDifference
from nki_lab.export.comparison.sentence import amount_text, change_text, is_written, signed_share
from nki_lab.export.formatting import file_name
from nki_lab.kernel_runtime.vocabulary import KINDS, reason

LINES: Final = 12
"""Lines of source, and reasons to wait, that tables show."""

_CODE: Final = 70  # characters of a source line
_WITHIN: Final = " ~"
"""Behind a change that is within the error of the prediction."""

WITHIN_NOTE: Final = "~ within the error of the prediction"

MEMORY_LABELS: Final = {
    "sbuf_peak_bytes_per_partition": "SBUF peak in program order",
    "psum_peak_bytes_per_partition": "PSUM peak in program order",
    "sbuf_occupied_bytes_per_partition": "SBUF peak",
    "psum_occupied_bytes_per_partition": "PSUM peak",
    "hbm_read_bytes": "read from HBM",
    "hbm_write_bytes": "written to HBM",
    "dma_bytes": "moved by DMA",
    "flops": "operations",
    "mfu": "MFU",
    "hfu": "HFU",
    "mbu": "MBU",
    "dma_transfers": "DMA transfers",
    "dma_transfer_bytes": "mean transfer",
    "dma_descriptors": "DMA descriptors",
    "dma_descriptor_bytes": "mean descriptor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts. Columns `left` are to the left, all others are numbers; `changes` have signs.

    `slower` are the rows in which the run became slower, `faster` those in which it became faster.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    slower: tuple[int, ...] = ()
    faster: tuple[int, ...] = ()


def tables(found: Compared) -> list[Table]:
    """Return the tables that have rows."""
    return [
        table for table in (_latency(found), _path(found), _engines(found), _lines(found), _memory(found)) if table.rows
    ]


def _signs(changes: Sequence[float | None]) -> dict[str, tuple[int, ...]]:
    return {
        "slower": tuple(n for n, change in enumerate(changes) if change and change > 0 and is_written(change, "ps")),
        "faster": tuple(n for n, change in enumerate(changes) if change and change < 0 and is_written(change, "ps")),
    }


def _cells(amount: Amount) -> tuple[str, str, str]:
    change = change_text(amount.change, amount.unit) + (_WITHIN if amount.within_error and _has_change(amount) else "")
    return amount_text(amount.before, amount.unit), amount_text(amount.after, amount.unit), change


def _has_change(amount: Amount) -> bool:
    return is_written(amount.change, amount.unit)


def _latency(found: Compared) -> Table:
    quotient = found.latency.quotient
    percent = "" if quotient is None or not _has_change(found.latency) else signed_share(quotient)
    row = ("latency", *_cells(found.latency), percent)
    return Table(title="", header=("", "before", "after", "change", ""), rows=(row,), **_signs([found.latency.change]))


def _path(found: Compared) -> Table:
    named = [(f"{KINDS.get(item.name, item.name)} works", item) for item in found.work]
    named += [(f"waits for {reason(item.name)}", item.critical) for item in found.stalls]
    shown = sorted((pair for pair in named if _has_change(pair[1])), key=lambda pair: -abs(pair[1].change or 0))[:LINES]
    return Table(
        title="Critical path",
        header=("critical path", "before", "after", "change"),
        rows=tuple((label, *_cells(amount)) for label, amount in shown),
        **_signs([amount.change for _, amount in shown]),
    )


def _engines(found: Compared) -> Table:
    rows = []
    for item in found.engines:
        utilisation = amount_text(item.utilisation.before, "share"), amount_text(item.utilisation.after, "share")
        rows.append((KINDS[item.kind], *_cells(item.busy), *utilisation, *_cells(item.waiting)))
    header = ("engine", "busy before", "after", "change", "share before", "after", "waiting before", "after", "change")
    return Table(title="Engines", header=header, rows=tuple(rows))


def _lines(found: Compared) -> Table:
    shown = [item for item in found.lines if any(map(_has_change, (item.critical, item.busy, item.rows)))][:LINES]
    rows = tuple(
        (*_place(item), *_cells(item.critical), *_cells(item.busy), _counts(item), _code(item)) for item in shown
    )
    header = (
        "line before",
        "after",
        "critical before",
        "after",
        "change",
        "busy before",
        "after",
        "change",
        "times",
        "",
    )
    signs = _signs([item.critical.change for item in shown])
    return Table(title="Lines", header=header, rows=rows, left=(0, 1, 9), **signs)


def _place(item: LineDifference) -> tuple[str, str]:
    if item.place is None:
        return "no line", "no line"
    place = item.place
    return (
        f"{file_name(place.file)}:{place.line}" if place.line else "–",
        f"{file_name(place.other_file)}:{place.other_line}" if place.other_line else "–",
    )


def _counts(item: LineDifference) -> str:
    before, after = (amount_text(value, "count") for value in (item.rows.before, item.rows.after))
    return before if before == after else f"{before} → {after}"


def _code(item: LineDifference) -> str:
    if item.place is None:
        return ""
    return (item.place.other_text or item.place.text)[:_CODE]


def _memory(found: Compared) -> Table:
    shown = [item for item in found.memory if item.change is None or _has_change(item)]
    rows = tuple((MEMORY_LABELS[item.name], *_cells(item)) for item in shown)
    return Table(title="Memory", header=("memory", "before", "after", "change"), rows=rows)


def has_mark(shown: Sequence[Table]) -> bool:
    """Whether a cell is marked as within the error."""
    return any(cell.endswith(_WITHIN) for table in shown for row in table.rows for cell in row)


def legend(shown: Sequence[Table]) -> Iterator[str]:
    """Give the explanation of the marks in tables."""
    if has_mark(shown):
        yield WITHIN_NOTE
