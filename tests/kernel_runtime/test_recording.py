"""Recordings built from arrays: what they hold, refuse and derive."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import Names, Recording, schema
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, EDGE_KINDS, SPACES
from tests.recordings import Tables, drawn, tables

BASE: Tables = {
    "rows": {"start": [0, 10, 30], "duration": [10, 5, 7], "op": [0, 0, 0], "lane": [0, 0, 1]},
    "lanes": {"name": ["tensor", "dma q0"], "kind": [0, 1]},
    "ops": {"name": ["nc_matmul"]},
    "stalls": {"name": ["none", "data"]},
}


def changed(**more: dict[str, Any]) -> Tables:
    """BASE with some columns replaced, table by table."""
    return {name: {**BASE.get(name, {}), **more.get(name, {})} for name in BASE.keys() | more.keys()}


# The schema


def test_a_row_an_access_and_an_edge_stay_within_their_bytes() -> None:
    assert schema.TABLES["rows"].row_bytes <= 64
    assert schema.TABLES["accesses"].row_bytes <= 16
    assert schema.TABLES["edges"].row_bytes <= 24


@pytest.mark.parametrize("table", schema.TABLES.values(), ids=lambda table: table.name)
def test_every_table_and_column_is_explained(table: schema.Table) -> None:
    assert table.doc.endswith(".")
    names = [column.name for column in table.columns]
    assert len(names) == len(set(names))
    for column in table.columns:
        assert column.doc.endswith(".") and len(column.doc) > 2
        assert not column.to or column.to in schema.TABLES
        assert not (column.to and column.choices)
        assert column.unit or column.storage.kind in "iu" if not column.is_text else True


def test_the_documented_schema_names_every_column() -> None:
    text = schema.markdown()
    for table in schema.TABLES.values():
        section = text.partition(f"## `{table.name}`\n")[2].partition("\n## ")[0]
        assert all(f"| `{column.name}` |" in section for column in table.columns)


def test_importing_a_recording_needs_no_parquet() -> None:
    script = "import sys, nki_lab.kernel_runtime.recording; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


# Building


def test_defaults_complete_what_is_given() -> None:
    recording = Recording(BASE)
    assert recording.rows["ready"][:].tolist() == [10, 15, 37]
    assert recording.rows["site"][:].tolist() == [-1, -1, -1]
    assert recording.rows["pace"][:].tolist() == [schema.FULL_EFFICIENCY] * 3
    assert recording.rows["confidence"][:].tolist() == [CONFIDENCES.index("guess")] * 3
    assert recording.makespan == 37
    assert recording.row(1).name == "nc_matmul"
    assert recording.row(2).lane == "dma q0"
    assert recording.summary == {"makespan_ps": 37}


def test_an_empty_run_is_a_recording() -> None:
    recording = Recording({})
    assert (len(recording), recording.makespan, recording.lanes, recording.at(5)) == (0, 0, (), -1)
    assert len(recording.sums(0, 10, 5)[1].bucket) == 0
    assert list(recording.critical_path[:]) == []


def test_equal_texts_have_one_number() -> None:
    recording = Recording(changed(ops={"name": ["load", "load"], "detail": ["", "load"]}))
    assert recording.texts("ops", "name") == ["load", "load"]
    assert recording.names.count("load") == 1
    assert recording.names[0] == ""


def test_names_may_come_as_numbers() -> None:
    names = Names()
    numbers = np.array([names.number("tensor"), names.number("dma q0")], np.uint32)
    recording = Recording(changed(lanes={"name": numbers}, names={"text": names.texts()}))
    assert [lane.name for lane in recording.lanes] == ["tensor", "dma q0"]


def test_columns_are_taken_over_without_a_copy() -> None:
    start = np.array([0, 10, 30], np.int64)
    recording = Recording(changed(rows={"start": start}))
    assert np.shares_memory(recording.rows["start"], start)


def test_a_run_may_end_after_its_last_row() -> None:
    assert Recording(BASE, makespan=1000).makespan == 1000
    assert Recording(BASE, makespan=1000).hash() != Recording(BASE).hash()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rows": {"start": [0, 9, 30]}}, r"row 1 begins 1 ps too early"),
        ({"rows": {"setup": [0, 1, 0], "setup_stall": [0, 1, 0]}}, r"row 1 begins 1 ps too early: with its setup of 1"),
        ({"rows": {"setup": [0, 0, 5]}}, r"rows\.setup without a setup_stall: row 2"),
        ({"rows": {"start": [0, 10]}}, r"rows: columns of different length"),
        ({"rows": {"start": [-1, 10, 30]}}, r"rows\.start: -1 ps is no time"),
        ({"rows": {"duration": [1, -5, 7]}}, r"rows\.duration: -5 ps is no time"),
        ({"rows": {"start": [0, 10, 2**62]}}, r"rows\.start: 4611686018427387904 ps is no time"),
        ({"rows": {"ready": [0, 9, 40]}}, r"rows\.ready is before start: row 1"),
        ({"rows": {"lane": [0, 0, 2]}}, r"rows\.lane: 2; it numbers the rows of lanes, of which there are 2"),
        ({"rows": {"lane": [0, 0, -1]}}, r"rows\.lane: -1 does not fit into uint16"),
        ({"rows": {"op": [0, 0, 1]}}, r"rows\.op: 1; it numbers the rows of ops"),
        ({"rows": {"stall": [0, 2, 0]}}, r"rows\.stall: 2; it numbers the rows of stalls"),
        ({"rows": {"site": [0, -1, -1]}}, r"rows\.site: 0; it numbers the rows of sites, of which there are 0"),
        ({"rows": {"site": [-2, -1, -1]}}, r"rows\.site: -2"),
        ({"rows": {"after": [-1, 1, 0]}}, r"rows\.after is the row itself: row 1"),
        ({"rows": {"after": [-1, 3, 0]}}, r"rows\.after: 3"),
        ({"rows": {"after": [-1, 2, 0]}}, r"rows\.after starts later than the row: row 1"),
        ({"rows": {"access": [0, 1, 1]}}, r"rows\.access: 1 is beyond the 0 accesses"),
        ({"rows": {"bytes": [0, 0, 2**32]}}, r"rows\.bytes: 4294967296 does not fit into uint32"),
        ({"rows": {"work": [0.5, 0, 1]}}, r"rows\.work: float64"),
        ({"rows": {"work": [[0, 0, 1]] * 3}}, r"rows\.work: int64 of shape \(3, 3\)"),
        ({"rows": {"begin": [0, 0, 1]}}, r"rows has no column begin"),
        ({"rows": {"confidence": [0, 0, 4]}}, r"has the choices documented, measured, inferred, guess"),
        ({"edges": {"row": [2, 1], "before": [0, 0], "kind": [0, 0]}}, r"edges\.row is not in order at 1"),
        ({"edges": {"row": [1], "before": [1], "kind": [0]}}, r"edges: a row waits for itself: row 0"),
        ({"edges": {"row": [1], "kind": [0]}}, r"edges\.before is missing"),
        ({"patterns": {"dtype": ["f"], "dim": [0], "rank": [1]}}, r"patterns: dim and rank lead beyond dims: row 0"),
        ({"iterations": {"parent": [0], "loop": ["i"], "value": [0]}}, r"iterations: an iteration within a later one: row 0"),
        ({"stalls": {"name": []}}, r"rows\.stall: 0"),
        ({"sources": {"path": [b"x"], "text": [""]}}, r"sources\.path: b'x' is not a text"),
        ({"sources": {"path": ["\ud800"], "text": [""]}}, r"sources\.path: .*surrogates"),
        ({"names": {"text": ["tensor"]}}, r"names: the first text is the empty one"),
        ({"steps": {"row": [0, 1, 2]}}, r"a recording is not built from steps"),
        ({"usage": {"time": [5, 1], "sbuf": [0, 0], "psum": [0, 0]}}, r"usage\.time is not in order at 1"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused(more: Tables, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recording(changed(**more))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object()])
def test_a_summary_is_plain_data(value: Any) -> None:
    with pytest.raises(ValueError, match="summary 'mfu' cannot be kept as JSON"):
        Recording(BASE, {"mfu": value})


def test_a_run_does_not_end_before_its_rows() -> None:
    with pytest.raises(ValueError, match="makespan 36 ps is before the last row's end, 37 ps"):
        Recording(BASE, makespan=36)


def test_a_circle_of_predecessors_is_found() -> None:
    rows = {"start": [0, 0, 30], "duration": [0, 5, 7], "after": [1, 0, 1]}
    recording = Recording(changed(rows=rows))
    with pytest.raises(ValueError, match=r"rows\.after leads in a circle"):
        recording.critical_path


# Order


@given(drawn())
def test_steps_are_rows_by_start_and_then_program_order(recording: Recording) -> None:
    start = recording.rows["start"][:].tolist()
    expected = sorted(range(len(recording)), key=lambda row: (start[row], row))
    assert recording.order[:].tolist() == expected
    assert [recording.step(number) for number in range(len(recording))] == expected
    assert [recording.step_of(row) for row in expected] == list(range(len(recording)))


@given(drawn(), st.integers(-5, 10**8))
def test_the_step_at_a_time_is_the_last_one_started(recording: Recording, time: int) -> None:
    starts = sorted(recording.rows["start"][:].tolist())
    for moment in (time, *starts[:3]):
        assert recording.at(moment) == sum(start <= moment for start in starts) - 1


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_an_index_error(row: int) -> None:
    recording = Recording(BASE)
    for ask in (recording.row, recording.step, recording.step_of, recording.accesses,
                recording.iteration, recording.predecessors, recording.successors):  # fmt: skip
        with pytest.raises(IndexError):
            ask(row)


# What is derived


@given(tables())
def test_lifetimes_span_all_accesses_of_a_buffer(given_tables: Tables) -> None:
    recording = Recording(given_tables)
    life = {
        int(buffer): (int(start), int(end), int(first), int(last))
        for buffer, start, end, first, last in zip(
            *(recording.table("lifetimes")[name][:] for name in ("buffer", "start", "end", "first", "last")),
            strict=True,
        )
    }
    expected: dict[int, tuple[int, int, int, int]] = {}
    for number in range(len(recording)):
        row = recording.row(number)
        for view, role in recording.accesses(number):
            buffer = int(recording.table("views")["buffer"][view])
            done = row.start + row.duration if role == "read" else row.ready
            begin, end, first, last = expected.get(buffer, (row.start, done, number, number))
            expected[buffer] = (min(begin, row.start), max(end, done), min(first, number), max(last, number))
    assert life == expected
    starts = recording.table("lifetimes")["start"][:]
    assert (np.diff(starts) >= 0).all()


@given(tables())
def test_usage_is_that_of_the_fullest_partition(given_tables: Tables) -> None:
    recording = Recording(given_tables)
    life, buffers = recording.table("lifetimes"), recording.table("buffers")
    usage, by_core = recording.table("usage"), recording.usage_by_core()
    for place in range(len(usage)):
        time = int(usage["time"][place])
        for space in ("sbuf", "psum"):
            fill = np.zeros((2, 256), np.int64)
            for one in range(len(life)):
                buffer = int(life["buffer"][one])
                partition = max(0, int(buffers["partition"][buffer]))
                here = SPACES[int(buffers["space"][buffer])] == space
                if here and int(life["start"][one]) <= time < int(life["end"][one]):
                    fill[int(buffers["core"][buffer]), partition : partition + int(buffers["partitions"][buffer])] += (
                        int(buffers["partition_bytes"][buffer])
                    )
            assert int(usage[space][place]) == fill.max()
            for core in range(2):
                until = by_core["time"][by_core["core"] == core].searchsorted(time, "right")
                values = by_core[space][by_core["core"] == core]
                assert (int(values[until - 1]) if until else 0) == fill[core].max()


@given(drawn())
def test_the_critical_path_leads_back_from_the_last_end(recording: Recording) -> None:
    path = recording.critical_path[:].tolist()
    if not len(recording):
        assert path == []
        return
    ends = recording.rows["start"][:] + recording.rows["duration"][:]
    assert ends[path[-1]] == ends.max()
    assert recording.row(path[0]).critical_pred == -1
    assert all(recording.row(later).critical_pred == earlier for earlier, later in itertools.pairwise(path))


@given(drawn())
def test_each_lane_s_work_waits_and_idle_time_are_disjoint(recording: Recording) -> None:
    times = recording.lane_times
    for lane in recording.lanes:
        mine = [recording.row(row) for row in range(len(recording)) if recording.rows["lane"][row] == lane.number]
        mine.sort(key=lambda row: (row.start, row.duration))
        free, expected = 0, dict.fromkeys(recording.stalls, 0)
        for row in mine:
            gap = row.start - free
            assert row.wait == (gap if row.stall != "none" else row.setup)
            if row.wait > row.setup:
                expected[row.stall] += row.wait - row.setup
            expected[row.setup_stall] += row.setup
            free = row.start + row.duration
        expected["none"] = sum(row.duration for row in mine)
        assert times[lane.number].tolist() == list(expected.values())
        assert times[lane.number].sum() <= recording.makespan


# What belongs to a row


@given(tables())
def test_a_row_s_parts_are_those_given(given_tables: Tables) -> None:
    recording = Recording(given_tables)
    rows, passes = given_tables["rows"], given_tables["iterations"]
    bounds = [*rows["access"], len(given_tables["accesses"]["view"])]
    edges = given_tables["edges"]
    pairs = list(zip(edges["row"], edges["before"], [EDGE_KINDS[kind] for kind in edges["kind"]], strict=True))
    for number in range(len(recording)):
        row = recording.row(number)
        for name in ("start", "duration", "ready", "setup", "work", "bytes"):
            assert getattr(row, name) == rows[name][number]
        assert row.critical_pred == rows["after"][number]
        views = given_tables["accesses"]["view"][bounds[number] : bounds[number + 1]]
        assert [view for view, _ in recording.accesses(number)] == list(views)
        assert recording.predecessors(number) == [(before, kind) for after, before, kind in pairs if after == number]
        assert recording.successors(number) == [(after, kind) for after, before, kind in pairs if before == number]
        chain, place = [], int(rows["iteration"][number])
        while place >= 0:
            chain.insert(0, (passes["loop"][place], passes["value"][place]))
            place = passes["parent"][place]
        assert recording.iteration(number) == tuple(chain)
        site = int(rows["site"][number])
        assert row.line == (given_tables["sites"]["line"][site] if site >= 0 else 0)


def test_a_pattern_is_dtype_sizes_and_steps() -> None:
    recording = Recording(
        changed(
            patterns={"dtype": ["f4", "f8"], "dim": [0, 1], "rank": [1, 2]}, dims={"size": [7, 8, 9], "step": [1, 9, 1]}
        )
    )
    assert recording.pattern(0) == ("f4", (7,), (1,))
    assert recording.pattern(1) == ("f8", (8, 9), (9, 1))


# Size and identity


def test_ten_million_rows_take_64_bytes_each() -> None:
    rows = {name: np.zeros(1000, column.storage) for name, column in
            ((column.name, column) for column in schema.TABLES["rows"].columns)}  # fmt: skip
    rows["start"] = np.arange(1000)
    rows["ready"] = np.arange(1000)
    rows["after"] = np.full(1000, -1)
    rows["site"] = rows["iteration"] = np.full(1000, -1)
    recording = Recording(changed(rows=rows))
    assert 64_000 <= recording.nbytes <= 64_000 + 500
    recording.sums(0, 1000, 10)
    recording.order
    assert recording.nbytes <= 64_000 + 500
    assert recording.index_nbytes <= 17 * 1000


@given(tables())
def test_equal_tables_give_equal_hashes(given_tables: Tables) -> None:
    first, second = Recording(given_tables, {"a": 1}), Recording(given_tables, {"a": 1})
    second.sums(0, 1000, 10)
    second.order
    assert first.hash() == second.hash()
    assert first.hash() != Recording(given_tables, {"a": 2}).hash()


@given(tables(), st.data())
def test_any_changed_value_changes_the_hash(given_tables: Tables, data: st.DataObject) -> None:
    before = Recording(given_tables).hash()
    table, column = data.draw(
        st.sampled_from([("rows", "work"), ("rows", "bytes"), ("views", "offset"), ("dims", "step")])
    )
    values = np.array(given_tables[table][column])
    if not len(values):
        return
    values[data.draw(st.integers(0, len(values) - 1))] += 1
    if values.max() < 2**32:
        assert Recording({**given_tables, table: {**given_tables[table], column: values}}).hash() != before


@given(drawn(10))
def test_a_recording_in_memory_can_be_sent_to_another_process(recording: Recording) -> None:
    assert pickle.loads(pickle.dumps(recording)).hash() == recording.hash()
