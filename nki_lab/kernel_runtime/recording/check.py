"""Check a recording against its schema, when it is built and when it is opened: both have the same invariants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from nki_lab.kernel_runtime.recording import derive, schema
from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, whole


def check_ranges(tables: Mapping[str, Columns]) -> None:
    """ValueError where a value is beyond the range of its column, or names a row that is not there.

    Cheap also on disk: reads limits, not values.
    """
    for table in tables.values():
        if len(table) > table.spec.most:
            raise ValueError(f"{table.spec.name} has {len(table):,} rows, at most {table.spec.most:,} are read")
        for column in table.spec.columns:
            if not column.is_text and len(table):
                _check_range(tables, table, column)


def _check_range(tables: Mapping[str, Columns], table: Columns, column: schema.Column) -> None:
    where, (least, most) = f"{table.spec.name}.{column.name}", column.range
    low, high = table.limits(column.name)
    other = column.to or column.into
    if other:
        if other not in tables:
            raise ValueError(f"{where} refers to {other}, which is missing")
        most = min(most, len(tables[other]) - (1 if column.to else 0))
    if low >= least and high <= most:
        return
    bad = high if high > most else low
    if column.choices:
        reason = f"; it has the choices {', '.join(column.choices)}, of which there are {len(column.choices)}"
    elif column.to:
        reason = f"; it numbers the rows of {other}, of which there are {len(tables[other])}"
    elif column.into:
        reason = f" is beyond the {len(tables[other])} {other}"
    else:
        reason = " ps is no time in a run" if column.unit == "ps" else f"; it lies between {least} and {most}"
    raise ValueError(f"{where}: {bad}{reason}")


def check_rows(tables: Mapping[str, Columns]) -> None:
    """ValueError where a table is not in the order, or a row not in the form, that the schema promises."""
    for table in tables.values():
        _check_table(tables, table)
    if not len(tables["stalls"]):
        raise ValueError("stalls: the first is no wait at all, and is missing")
    if not len(tables["names"]) or tables["names"].texts("text")[0]:
        raise ValueError("names: the first text is the empty one, and is missing")
    rows = tables["rows"]
    start = whole(rows["start"])
    for low, high in pieces(len(rows)):
        after = rows["after"][low:high]
        _refuse((after >= 0) & (start[after] > start[low:high]), low, "rows.after starts later than the row")
    _check_elements(tables)


def _check_table(tables: Mapping[str, Columns], table: Columns) -> None:
    """Check the order and the rules of a table, a piece after the other."""
    name, spec = table.spec.name, table.spec
    ordered = [column.name for column in spec.columns if column.ordered and name != "lane_rows"]
    stretches = [column for column in spec.columns if column.count]
    wanted = {*ordered, *(name for one in stretches for name in (one.name, one.count))}
    wanted |= {one for rule in spec.rules for one in rule.columns if one != schema.NUMBER}
    last: dict[str, int] = {}
    for low, high in pieces(len(table)):
        table.prefetch(sorted(wanted), low, high)
        for column in ordered:
            values = table[column][low:high]
            falls = np.diff(values.astype(np.int64), prepend=np.int64(last.get(column, values[0]))) < 0
            if falls.any():
                raise ValueError(f"{name}.{column} is not in order at {low + int(np.argmax(falls))}")
            last[column] = int(values[-1])
        for one in stretches:
            ends = table[one.name][low:high].astype(np.int64) + table[one.count][low:high]
            _refuse(ends > len(tables[one.into]), low, f"{name}: {one.name} and {one.count} lead beyond {one.into}")
        for rule in spec.rules:
            number = np.arange(low, high)
            given = (number if one == schema.NUMBER else table[one][low:high] for one in rule.columns)
            _refuse(rule.broken(*given), low, rule.fault)
    for text in spec.columns:
        if text.is_text:
            check_texts(f"{name}.{text.name}", table.texts(text.name), text)


def _refuse(wrong: Array, first: int, fault: str) -> None:
    """Raise ValueError at the first place that is wrong, counted from `first`."""
    if wrong.any():
        raise ValueError(f"{fault}: row {first + int(np.argmax(wrong))}")


def check_texts(where: str, texts: Iterable[str], column: schema.Column) -> None:
    """ValueError where a text is too long."""
    for number, text in enumerate(texts):
        if 4 * len(text) > column.longest and (size := len(text.encode())) > column.longest:
            raise ValueError(f"{where}: row {number} has {size:,} bytes, at most {column.longest:,} are read")


def _check_elements(tables: Mapping[str, Columns]) -> None:
    """ValueError where a pattern has more elements than can be counted."""
    patterns, size = tables["patterns"], whole(tables["dims"]["size"]).astype(np.float64)
    dim, rank = (whole(patterns[name]).astype(np.int64) for name in ("dim", "rank"))
    elements = np.ones(len(dim))
    for level in range(int(rank.max(initial=0))):
        deep = np.flatnonzero(rank > level)
        elements[deep] *= np.maximum(size[dim[deep] + level], 1)  # an empty dimension hides no other one
    _refuse(elements > schema.LARGEST, 0, f"patterns: more than {schema.LARGEST:,} elements")


def check_lanes(rows: Columns, lane_rows: Array, gaps: Array) -> None:
    """ValueError where two rows of a lane overlap, or a setup reaches into the row before."""
    for low, high in pieces(len(gaps)):
        row = lane_rows[low:high]
        missing = rows["setup"][row] - gaps[low:high]
        if missing.size and int(missing.max()) > 0:
            place = int(missing.argmax())
            raise ValueError(
                f"row {int(row[place])} begins {int(missing[place])} ps too early: with its setup of"
                f" {int(rows['setup'][row[place]])} ps it overlaps the row before it on its lane"
            )


def check_end(rows: Columns, makespan: int) -> None:
    """ValueError where a run ends before one of its rows does."""
    if makespan < (end := end_of(rows)):
        raise ValueError(f"makespan {makespan} ps is before the last row's end, {end} ps")


def end_of(rows: Columns) -> int:
    """Return when the last row has ended and the last result is visible, in picoseconds."""
    end = 0
    for low, high in pieces(len(rows)):
        rows.prefetch(("start", "duration", "ready"), low, high)
        ends = rows["start"][low:high] + rows["duration"][low:high]
        end = max(end, int(ends.max()), int(rows["ready"][low:high].max()))
    return end


def check_indices(tables: Mapping[str, Columns], makespan: int) -> None:
    """ValueError where an index is not that of the rows."""
    rows = tables["rows"]
    lane, start, duration = (whole(rows[name]) for name in ("lane", "start", "duration"))
    places, firsts = derive.lane_rows(lane, start, duration, len(tables["lanes"]))
    gaps = derive.gaps(places, firsts, start, duration)
    check_lanes(rows, places, gaps)
    expected = {
        "steps": derive.table("steps", {"row": derive.steps(start)}),
        "lane_rows": derive.lane_table(rows, places, gaps),
        "lane_spans": derive.table("lane_spans", derive.spans(places, firsts)),
    }
    for name, table in expected.items():
        columns = [column.name for column in table.spec.columns]
        for low, high in pieces(len(table)):
            tables[name].prefetch(columns, low, high)
            for column in columns:
                found, right = (one[column][low:high] for one in (tables[name], table))
                _refuse(found != right, low, f"{name}.{column} is not that of the rows")
    if len(tables["critical"]) > len(rows):
        raise ValueError(f"critical has {len(tables['critical'])} rows, the run {len(rows)}")
    if ("lane_sums" in tables) is not ("lane_sum_levels" in tables):
        raise ValueError("lane_sums and lane_sum_levels are there together, or not at all")
    if "lane_sum_levels" in tables:
        _check_levels(tables, makespan)


def _check_levels(tables: Mapping[str, Columns], makespan: int) -> None:
    """ValueError where buckets are out of order or behind the end of the run."""
    levels, bucket = tables["lane_sum_levels"], tables["lane_sums"]["bucket"]
    columns = (levels[name][:].tolist() for name in ("shift", "first", "entries"))
    for number, (shift, first, entries) in enumerate(zip(*columns, strict=True)):
        for low, high in pieces(entries):
            mine = bucket[first + low : first + high].astype(np.int64)
            _refuse(np.diff(mine, prepend=mine[0]) < 0, first + low, "lane_sums.bucket is not in order")
            if int(mine[-1]) > makespan >> shift:
                raise ValueError(f"lane_sum_levels: a bucket of row {number} is behind the end of the run")
