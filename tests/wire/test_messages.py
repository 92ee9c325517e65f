"""Messages: what was recorded, in the order of steps, as narrow as it can be."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import wire
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.wire import Messages, compact, encode
from nki_lab.wire.message import Delta, message, narrow
from nki_lab.wire.overview import sums
from nki_lab.wire.rows import Steps
from tests.recordings import drawn, synthetic, tables
from tests.scale import scaled
from tests.wire.reader import read

some = settings(max_examples=scaled(40), deadline=None)  # a recording takes milliseconds
PLAIN = (
    "setup",
    "op",
    "site",
    "iteration",
    "work",
    "bytes",
    "lane",
    "pace",
    "stall",
    "setup_stall",
    "held",
    "confidence",
)


@some
@given(drawn())
def test_rows_come_in_the_order_of_steps(recording: Recording) -> None:
    _, told = read(encode(recording))
    rows, order = told["rows"], whole(recording.order)
    step_of = np.argsort(order)
    assert rows["row"].tolist() == order.tolist()
    for name in PLAIN:
        assert rows[name].tolist() == whole(recording.rows[name])[order].tolist(), name
    assert (rows["start"] + rows["ready"]).tolist() == whole(recording.rows["ready"])[order].tolist()
    assert rows["wait"].tolist() == recording.waits()[order].tolist()
    for step, row in enumerate(order.tolist()):
        after = int(recording.rows["after"][row])
        assert step - int(rows["after"][step]) == (int(step_of[after]) if after >= 0 else step)
    critical = np.zeros(len(recording), int)
    critical[whole(recording.critical_path)] = 1
    assert rows["critical"].tolist() == critical[order].tolist()


@some
@given(drawn())
def test_operands_and_edges_go_with_their_rows(recording: Recording) -> None:
    _, told = read(encode(recording))
    order = whole(recording.order).tolist()
    step_of = {row: step for step, row in enumerate(order)}
    operands, edges = (np.concatenate(([0], np.cumsum(told["rows"][name]))) for name in ("accesses", "edges"))
    for step, row in enumerate(order):
        mine = slice(int(operands[step]), int(operands[step + 1]))
        roles = [("read", "write", "accumulate")[role] for role in told["accesses"]["role"][mine]]
        assert list(zip(told["accesses"]["view"][mine].tolist(), roles, strict=True)) == recording.accesses(row)
        mine = slice(int(edges[step]), int(edges[step + 1]))
        before = [step - back for back in told["edges"]["before"][mine].tolist()]
        assert before == [step_of[other] for other, _ in recording.predecessors(row)]


@some
@given(drawn(), st.integers(1, 20))
def test_chunks_add_up_to_the_whole(recording: Recording, size: int) -> None:
    messages = Messages(recording)
    _, told = read(messages.whole(0, len(recording)))
    chunks = [read(messages.rows(first, size))[1] for first in range(0, len(recording), size)]
    for table in ("rows", "accesses", "edges"):
        for name, values in told[table].items():
            parts = [chunk[table][name] for chunk in chunks]
            assert np.concatenate([[], *parts]).tolist() == values.tolist(), (table, name)


@some
@given(drawn(), st.integers(-5, 50), st.integers(-5, 50))
def test_a_range_is_cut_to_the_steps_that_there_are(recording: Recording, first: int, count: int) -> None:
    header, told = read(Messages(recording).rows(first, count))
    steps = [step for step in range(max(0, first), max(0, first) + max(0, count)) if step < len(recording)]
    if first >= 0:
        assert told["rows"]["row"].tolist() == whole(recording.order)[steps].tolist()
    assert header["count"] == len(told["rows"]["row"]) <= max(0, count)
    assert 0 <= header["first"] <= len(recording)


@some
@given(drawn(), st.data())
def test_nothing_else_happens_while_a_range_shows_all(recording: Recording, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(recording)))
    count = data.draw(st.integers(0, len(recording)))
    header, _ = read(Messages(recording).rows(first, count))
    order, waits = whole(recording.order), recording.waits()
    assert header["from"] <= header["until"]
    for step, row in enumerate(order.tolist()):
        if header["from"] < header["until"] and not first <= step < first + count:
            start, end = (int(recording.rows["start"][row]) + add for add in (0, int(recording.rows["duration"][row])))
            assert end <= header["from"] or start - int(waits[row]) >= header["until"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], "u1"), ([0, 255], "u1"), ([-1, 127], "i1"), ([0, 256], "u2"), ([-1, 255], "i2"), ([65536], "u4"),
        ([-1, 65535], "i4"), ([2**32], "f8"), ([-(2**31) - 1], "f8"), ([2**53], "f8"), ([0.5], "f8"),
    ],
)  # fmt: skip
def test_a_column_is_as_narrow_as_its_values(values: list[float], dtype: str) -> None:
    narrowed = narrow(np.array(values))
    assert narrowed.dtype == np.dtype(f"<{dtype}")
    assert narrowed.tolist() == values


@given(st.lists(st.integers(-(2**40), 2**40)))
def test_differences_add_up_again(values: list[int]) -> None:
    _, told = read(message({}, {"t": {"a": Delta(np.array(values, np.int64)), "b": np.array(values, np.int64)}}))
    assert told["t"]["a"].tolist() == told["t"]["b"].tolist() == values


def test_what_json_cannot_say_is_null() -> None:
    given_ = {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}, "e": "größe \ud800"}
    header, _ = read(message(given_, {}))
    assert header == {"a": None, "b": [None, 1.5], "c": {"d": None}, "e": "größe \ud800"}


def test_the_compact_form_is_zlib() -> None:
    told = encode(Recording(synthetic(100), {"kernel": "k"}))
    assert zlib.decompress(compact(told)) == told
    assert len(compact(told)) < len(told) / 2


@some
@given(drawn(), st.integers(1, 60))
def test_sums_are_those_of_the_rows(recording: Recording, buckets: int) -> None:
    shift, told = sums(recording, buckets)
    totals = np.zeros((len(recording.lanes), len(recording.stalls)), np.int64)
    np.add.at(totals, (told["zoom"]["lane"], told["zoom"]["reason"]), told["zoom"]["time"])
    assert (totals == recording.lane_times).all()
    assert len(set(told["zoom"]["bucket"].tolist())) <= buckets + 1
    started = np.zeros(len(recording.lanes), np.int64)
    np.add.at(started, told["zoom"]["lane"], told["zoom"]["rows"])
    assert started.tolist() == np.bincount(whole(recording.rows["lane"]), minlength=len(recording.lanes)).tolist()
    last = max(recording.makespan, 1) >> shift
    touched = set()
    for row in whole(recording.critical_path).tolist():
        start, duration = int(recording.rows["start"][row]), int(recording.rows["duration"][row])
        end = max(start, start + duration - 1) >> shift
        touched |= {(int(recording.rows["lane"][row]), min(at, last)) for at in range(start >> shift, end + 1)}
    critical = told["zoom_critical"]
    assert set(zip(critical["lane"].tolist(), critical["bucket"].tolist(), strict=True)) == touched


def test_a_run_comes_opening_first_and_then_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CHUNK", 40)
    opening, *chunks = [read(item) for item in Messages(Recording(synthetic(100), {"kernel": "k"}))]
    assert opening[0]["count"] == 0
    assert len(opening[1]["zoom"]["time"])
    assert [(header["first"], header["count"]) for header, _ in chunks] == [(0, 40), (40, 40), (80, 20)]
    assert all(set(told) == {"rows", "accesses", "edges", "changes"} for _, told in chunks)


def test_of_a_large_run_the_first_range_comes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WHOLE", 60), ("RANGE", 30), ("CHUNK", 20)):
        monkeypatch.setattr(wire, name, value)
    _, *chunks = [read(item)[0] for item in Messages(Recording(synthetic(100), {"kernel": "k"}))]
    assert [(header["first"], header["count"]) for header in chunks] == [(0, 20), (20, 10)]


def test_a_header_tells_the_run() -> None:
    given_: dict[str, Any] = synthetic(50)
    recording = Recording(given_, {"kernel": "k", "target": "trn2", "diagnostics": [{"code": "A"}]})
    header, _ = read(encode(recording, fault=7))
    assert (header["kernel"], header["target"], header["steps"]) == ("k", "trn2", 50)
    assert header["makespan"] == recording.makespan
    assert header["capacity"]["psumBank"] == 2048
    assert header["fault"] == int(np.argsort(whole(recording.order))[7])
    assert header["findings"] == [{"code": "A"}]
    assert "diagnostics" not in header["summary"]
    assert header["summary"]["kernel"] == "k"
    assert sum(header["path"]["work"].values()) + sum(header["path"]["waits"].values()) == recording.makespan
    for lane in header["lane_times"]:
        assert lane["busy"] + sum(lane["waits"].values()) + lane["empty"] == recording.makespan
    assert sum(line["rows"] for line in header["lines"]) == 50
    assert read(encode(Recording(given_, {})))[0]["capacity"]["sbuf"] == 0


def test_findings_are_those_recorded() -> None:
    assert read(encode(Recording({}, {"diagnostics": [{"code": "A"}]})))[0]["findings"] == [{"code": "A"}]
    assert read(encode(Recording({})))[0]["findings"] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    tile = nl.ndarray(x)", "tile"),
        ("größe: Tile = nl.ndarray(x)", "größe"),
        ("tiles = [nl.ndarray(x) for i in y]", "tiles"),
        ("tiles.append(nl.ndarray(x))", "tiles"),
        ("return nl.ndarray(x)", "tile 1"),
        ("f(a == nl.ndarray(x))", "tile 1"),
        ("nl.ndarray(x)", "tile 1"),
    ],
)
def test_a_buffer_without_a_name_is_called_as_in_the_source(line: str, name: str) -> None:
    tables_: dict[str, Any] = {
        "buffers": {"name": [""], "space": [0], "partition_bytes": [4], "site": [0]},
        "sites": {"source": [0], "line": [2], "column": [len(line.partition("nl.ndarray")[0].encode())]},
        "sources": {"path": ["kernel.py"], "text": [f"\n{line}\n"]},
        "stalls": {"name": ["none"]},
    }
    header, told = read(encode(Recording(tables_, {})))
    assert (header["names"][told["buffers"]["name"][0]] or "tile 1") == name


@some
@given(tables())
def test_lifetimes_are_told_in_steps(given_: dict[str, dict[str, Any]]) -> None:
    recording = Recording(given_, {})
    _, told = read(encode(recording))
    life, view_of = told["lifetimes"], whole(recording.table("views")["buffer"]).tolist()
    used: dict[int, list[tuple[int, str]]] = {}
    for step, row in enumerate(whole(recording.order).tolist()):
        for view, role in recording.accesses(row):
            used.setdefault(view_of[view], []).append((step, role))
    assert sorted(life["buffer"].tolist()) == sorted(used)
    for place, buffer in enumerate(life["buffer"].tolist()):
        steps = [step for step, _ in used[buffer]]
        assert (int(life["first"][place]), int(life["last"][place])) == (steps[0], steps[-1])
        writes = [step for step, role in used[buffer] if role != "read"]
        rows = whole(recording.order)
        assert int(life["writer"][place]) == (int(recording.rows["lane"][rows[writes[0]]]) if writes else -1)
        assert int(Steps(recording).lifetimes["iteration"][place]) == int(recording.rows["iteration"][rows[steps[0]]])
