"""`--check-against` of a cell: the results of its last run beside a reference, as a short table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nki_lab.magic.display import Bundle, bundle
from nki_lab.printable import escape
from nki_lab.result import Run
from nki_lab.testing import Comparison, compare

_HEAD = ("", "largest error", "at", "actual", "expected", "allowed")


def checked(run: Run | None, expression: str, namespace: Mapping[str, Any]) -> Bundle:
    """Return the comparison of a run with what an expression of the notebook gives: arrays, or a function of the
    kernel's arguments. What keeps from comparing is said in its place.
    """
    if run is None:
        return _note(expression, "no kernel was called")
    if run.error is not None or not run.outputs:
        return _note(expression, f"{run.name} has no results")
    try:
        wanted = run.expected(eval(expression, dict(namespace)))
        found = [compare(actual, want) for actual, want in zip(run.outputs, wanted, strict=True)]
    except Exception as error:  # noqa: BLE001 - the user's expression may raise anything
        return _note(expression, f"{type(error).__name__}: {error}")
    good = all(item.close for item in found)
    cause = "" if good else run.cause(wanted)
    title = f"{run.name} {'agrees with' if good else 'differs from'} {expression}"
    rows = [_row(number, item, len(found)) for number, item in enumerate(found)]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in (_HEAD, *rows)]
    text = "\n".join([title, *(f"  {line.rstrip()}" for line in lines), *([f"  cause: {cause}"] if cause else [])])
    left = 'style="text-align:left"'
    head = "".join(f"<th {left} scope='col'>{escape(item)}</th>" for item in _HEAD)
    body = "".join(f"<tr>{''.join(f'<td {left}>{escape(item)}</td>' for item in row)}</tr>" for row in rows)
    more = f'<p class="more">cause: {escape(cause)}</p>' if cause else ""
    table = f"<section><table><tr>{head}</tr>{body}</table>{more}</section>"
    return bundle(text, f'<div class="card"><header><b>{escape(title)}</b></header>{table}</div>')


def _row(number: int, item: Comparison, count: int) -> tuple[str, ...]:
    share = f", {item.bad:,} of {item.size:,} beyond it" if item.bad else ""
    return (
        "result" if count == 1 else f"result {number}",
        f"{item.error:.3g}",
        f"[{', '.join(map(str, item.place))}]",
        f"{item.actual:.6g}",
        f"{item.expected:.6g}",
        f"{item.allowed:.3g}{share}",
    )


def _note(expression: str, reason: str) -> Bundle:
    text = f"--check-against {expression}: not compared, {reason}"
    return bundle(text, f'<p class="note">{escape(text)}</p>')
