"""From what a builder gives to the tables of a recording: converted, completed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.recording import check, results, schema
from nki_lab.kernel_runtime.recording.columns import Array, Column, Columns, Json, MemoryColumns

Values = Any
"""A column as a builder gives it: an array, or a list of numbers or texts."""
Given = Mapping[str, Mapping[str, Values]]

_NO_WAIT: Final = "none"


class Names:
    """Texts and their numbers; the empty text is number 0."""

    __slots__ = ("_numbers",)

    def __init__(self, texts: Sequence[str] = ("",)) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}
        if len(self._numbers) != len(texts) or not texts or texts[0]:
            raise ValueError("names: the first text is the empty one, and no two are equal")

    def number(self, text: str) -> int:
        """The number of `text`, a new one where it was not seen before."""
        return self._numbers.setdefault(text, len(self._numbers))

    def texts(self) -> list[str]:
        """The texts in order of their numbers."""
        return list(self._numbers)


def build(tables: Given, summary: Mapping[str, Json], makespan: int | None) -> dict[str, Columns]:
    """Every recorded table, with defaults filled in, and those derived ones that are given.

    ValueError where the tables are no recording.
    """
    unknown = tables.keys() - {name for name, spec in schema.TABLES.items() if not spec.index and name != "summary"}
    if unknown:
        raise ValueError(f"a recording is not built from {', '.join(sorted(unknown))}")
    names = Names(list(tables.get("names", {}).get("text", [""])))
    given = {name: dict(columns) for name, columns in tables.items() if name != "names"}
    given.setdefault("stalls", {"name": [_NO_WAIT]})
    out = {
        name: _table(spec, given.get(name, {}), names)
        for name, spec in schema.TABLES.items()
        if not spec.index and (name in given or not spec.derived) and name not in ("names", "summary")
    }
    out["names"] = _table(schema.TABLES["names"], {"text": names.texts()}, names)
    out["summary"] = summary_table({**summary, results.MAKESPAN: _end(out["rows"], makespan)})
    return out


def summary_table(summary: Mapping[str, Json]) -> Columns:
    """The table `summary` of some results; ValueError where JSON cannot say one."""
    lines = {"name": list(summary), "json": [results.dumped(name, value) for name, value in summary.items()]}
    return _table(schema.TABLES["summary"], lines, Names())


def _end(rows: Columns, makespan: int | None) -> int:
    """When the run ends, in picoseconds."""
    if makespan is None:
        return check.end_of(rows)
    check.check_end(rows, makespan)
    return int(makespan)


def _table(spec: schema.Table, given: dict[str, Values], names: Names) -> Columns:
    unknown = given.keys() - {column.name for column in spec.columns}
    if unknown:
        raise ValueError(f"{spec.name} has no column {', '.join(sorted(unknown))}")
    length = _length(spec, given)
    columns: dict[str, Column] = {}
    texts: dict[str, Sequence[str]] = {}
    for column in spec.columns:
        where = f"{spec.name}.{column.name}"
        values = given.get(column.name)
        if column.is_text:
            texts[column.name] = _texts(where, values or ())
        elif values is not None:
            if column.dtype == "name" and not isinstance(values, np.ndarray):
                values = [names.number(text) if isinstance(text, str) else text for text in values]
            columns[column.name] = converted(where, values, column)
        elif column.default is not None or not length or column.name == "ready":
            columns[column.name] = np.full(length, column.default or 0, column.storage)
        else:
            raise ValueError(f"{where} is missing")
    if spec.name == "rows" and "ready" not in given:  # results are visible at a row's end
        columns["ready"] = columns["start"][:] + columns["duration"][:]
    return MemoryColumns(spec, columns, texts, length)


def _length(spec: schema.Table, given: Mapping[str, Values]) -> int:
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{spec.name}: columns of different length: {lengths}")
    return next(iter(lengths.values()), 0)


def _texts(where: str, values: Sequence[object]) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{where}: {value!r} is not a text")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{where}: {error}") from error
    return [str(value) for value in values]


def converted(where: str, values: Values, column: schema.Column) -> Array:
    """`values` in the column's dtype; ValueError where one does not fit."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(f"{where}: {array.dtype} of shape {array.shape}, expected a list of integers")
    storage = column.storage
    if array.dtype == storage:
        return array
    if array.size:
        limits = np.iinfo(storage)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise ValueError(f"{where}: {low if low < limits.min else high} does not fit into {storage}")
    return array.astype(storage)
