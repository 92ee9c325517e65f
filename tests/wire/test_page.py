"""What a page reads of messages is what was recorded: its own code, run by node."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.wire import Messages, encode
from nki_lab.wire.labels import tensor_labels
from nki_lab.wire.rows import Steps
from tests.recordings import drawn
from tests.scale import scaled

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "labextension"

Read = Callable[..., dict[str, Any]]

few = settings(
    max_examples=scaled(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """What the page reads of messages that come one after the other."""
    if not (PAGE / "node_modules" / ".ready").exists():
        subprocess.run([ROOT / "scripts" / "node-modules"], check=True)
    folder = tmp_path_factory.mktemp("page")
    script, given_ = folder / "readback.cjs", folder / "messages"
    banner = '--banner:js=const nodeRead = require("node:fs").readFileSync;'
    command = [PAGE / "node_modules/.bin/esbuild", PAGE / "tests/readback.ts", "--bundle", "--format=cjs"]
    subprocess.run([*command, "--platform=node", banner, f"--outfile={script}", "--log-level=error"], check=True)

    def read(*messages: bytes, buckets: int = 7) -> dict[str, Any]:
        given_.write_bytes(b"".join(len(item).to_bytes(4, "little") + item for item in messages))
        done = subprocess.run(["node", script, given_, str(buckets)], check=True, capture_output=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return read


@few
@given(drawn())
def test_rows_and_what_belongs_to_them(page: Read, recording: Recording) -> None:
    told = page(encode(recording))
    order = whole(recording.order).tolist()
    step_of = {row: step for step, row in enumerate(order)}
    rows = told["rows"]
    for name, column in {"start": "start", "duration": "duration", "ready": "ready", "setup": "setup", "lane": "lane",
                         "site": "site", "setupStall": "setup_stall", "bytes": "bytes"}.items():  # fmt: skip
        assert rows[name] == whole(recording.rows[column])[order].tolist(), name
    assert rows["wait"] == recording.waits()[order].tolist()
    for step, row in enumerate(order):
        mine = recording.row(row)
        unit = recording.texts("ops", "work_unit")[int(recording.rows["op"][row])]
        assert told["ops"][step] == {"name": mine.name, "detail": mine.detail, "workUnit": unit}
        assert [tuple(item) for item in told["iterations"][step]] == list(mine.iteration)
        assert [(view, role) for view, role in told["accesses"][step]] == recording.accesses(row)
        after = step_of.get(mine.critical_pred, -1)
        assert rows["after"][step] == after
        assert rows["pace"][step] == pytest.approx(mine.efficiency, abs=1e-6)
        edges = [(step_of[other], kind, step_of[other] == after) for other, kind in recording.predecessors(row)]
        if after >= 0 and not any(binding for *_, binding in edges):
            edges.append((after, "lane", True))
        found = [(edge["step"], edge["kind"], edge["binding"]) for edge in told["predecessors"][step]]
        assert sorted(found) == sorted(edges)
        assert [binding for *_, binding in found] == sorted((binding for *_, binding in found), reverse=True)
    forward = sorted((edge["step"], step) for step, edges in enumerate(told["predecessors"]) for edge in edges)
    backward = sorted((step, edge["step"]) for step, edges in enumerate(told["successors"]) for edge in edges)
    assert forward == backward


@few
@given(drawn(), st.integers(1, 40))
def test_lanes_and_exact_sums(page: Read, recording: Recording, buckets: int) -> None:
    told = page(encode(recording), buckets=buckets)
    step_of = np.argsort(whole(recording.order))
    end = max(recording.makespan, 1)
    edges = [end * place / buckets for place in range(buckets + 1)]
    for lane in told["lanes"]:
        table, span = recording.table("lane_rows"), recording.table("lane_spans")
        first = int(span["first"][lane["lane"]["id"]])
        mine = slice(first, first + int(span["rows"][lane["lane"]["id"]]))
        starts = table["start"][mine].tolist()
        assert [int(step_of[row]) for row in table["row"][mine]] == lane["steps"]
        found = lane["buckets"]
        for place, (low, high) in enumerate(pairwise(edges)):
            busy = [_inside(s, s + d, low, high) for s, d in zip(starts, table["duration"][mine].tolist(), strict=True)]
            waits = [_inside(s - w, s, low, high) for s, w in zip(starts, table["wait"][mine].tolist(), strict=True)]
            assert found["busy"][place] == pytest.approx(sum(busy), abs=1e-3)
            assert found["waiting"][place] == pytest.approx(sum(waits), abs=1e-3)
            assert found["rows"][place] == sum(low <= start < high for start in starts)


@few
@given(drawn())
def test_the_busy_time_of_the_whole_run_is_one_figure(page: Read, recording: Recording) -> None:
    told, known = page(encode(recording)), digest(recording)
    for lane, (header, window) in zip(known.lanes, told["busy"], strict=True):
        assert header == lane.busy == pytest.approx(window, abs=1e-3)
    for core, (header, window) in zip(told["cores"], told["transfers"], strict=True):
        assert header == known.dma.get(core, 0) == pytest.approx(window, abs=1e-3)


def _inside(begin: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(begin, low))


@few
@given(drawn(), st.integers(1, 15))
def test_rows_that_come_in_chunks_make_the_same_run(page: Read, recording: Recording, size: int) -> None:
    messages = Messages(recording)
    chunks = [messages.rows(first, size) for first in range(0, len(recording), size)]
    assert page(messages.opening(), *chunks) == page(encode(recording))


@few
@given(drawn())
def test_memory(page: Read, recording: Recording) -> None:
    told = page(encode(recording))
    table, usage = recording.table("buffers"), recording.table("usage")
    life = {int(buffer): place for place, buffer in enumerate(recording.table("lifetimes")["buffer"])}
    for buffer in told["buffers"]:
        number = buffer["id"]
        assert buffer["byte"] == int(table["byte"][number])
        assert buffer["partitions"] == int(table["partitions"][number])
        assert (buffer["lifetime"] is not None) == (number in life)
        if number in life:
            for name in ("start", "end"):
                assert buffer["lifetime"][name] == int(recording.table("lifetimes")[name][life[number]])
        assert buffer["core"] == int(table["core"][number])
    times = [time for time in usage["time"][:].tolist() if time < max(recording.makespan, 1)]
    for space in range(2):
        name, values = ("sbuf", "psum")[space], [_steps(found[space], times) for found in told["usage"]]
        assert np.max(values, axis=0).tolist() == usage[name][: len(times)].tolist()
        peak = told["peaks"][space]
        if len(usage):
            assert peak["bytes"] == usage.limits(name)[1]
        if peak is not None and peak["time"] < max(recording.makespan, 1):
            found = told["usage"][told["cores"].index(peak["core"])][space]
            assert _steps(found, [peak["time"]]) == [peak["bytes"]]


def _steps(pairs: list[float], times: list[int]) -> list[float]:
    """The values at some times of a curve in steps."""
    return [pairs[2 * (np.searchsorted(pairs[::2], time, "right") - 1) + 1] for time in times]


@few
@given(drawn())
def test_the_critical_path_fills_the_run(page: Read, recording: Recording) -> None:
    """Works and waits follow each other from the start to the end, and are those of the rows on the path."""
    told = page(encode(recording))["path"]
    on_path = set(np.argsort(whole(recording.order))[whole(recording.critical_path)].tolist())
    assert {step for _, _, step, _ in told} <= on_path
    for (_, end, *_), (begin, *_) in pairwise(told):
        assert begin == end
    if told:
        assert (told[0][0], told[-1][1]) == (0, recording.makespan)


@pytest.mark.parametrize(("name", "place"), [("k02_matmul", 0), ("k03_softmax", 0), ("k10_two_cores", 1)])
def test_the_critical_path_adds_up_to_the_headline(page: Read, name: str, place: int) -> None:
    """Each sum by reason is the one that headline and summary name."""
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / f"{name}.py"))
    run = nki_lab.run(module["KERNELS"][place], *module["inputs"]())
    waits: Counter[str] = Counter()
    work = 0
    for begin, end, _, reason in page(encode(run.recording))["path"]:
        if reason is None:
            work += end - begin
        else:
            waits[reason] += end - begin
    times = digest(run.recording)
    assert dict(waits) == dict(times.waits)
    assert work == sum(times.work.values())


@few
@given(drawn())
def test_the_page_calls_tensors_as_python_does(page: Read, recording: Recording) -> None:
    assert [buffer["name"] for buffer in page(encode(recording))["buffers"]] == tensor_labels(Steps(recording))


@pytest.mark.parametrize("name", ["k02_matmul", "k06_flash_attention", "k07_routing"])
def test_the_page_calls_tensors_of_kernels_as_python_does(page: Read, name: str) -> None:
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / f"{name}.py"))
    recording = nki_lab.run(module["KERNELS"][-1], *module["inputs"]()).recording
    labels = tensor_labels(Steps(recording))
    assert [buffer["name"] for buffer in page(encode(recording))["buffers"]] == labels
    assert any("[" in label for label in labels)


def test_descriptor_making_is_drawn_as_it_was_timed(page: Read) -> None:
    """The generator of a core makes descriptors one after the other, each before its transfer starts."""
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / "k02_matmul.py"))
    recording = nki_lab.run(module["load_each"], *module["inputs"]()).recording
    told = page(encode(recording))
    made = sorted((start - lead, making) for start, lead, making in told["making"])
    table = recording.table("triggers")
    assert [begin for begin, _ in made] == sorted(whole(table["start"]).tolist())
    assert len(made) == len(table) == sum(lane.rows for lane in digest(recording).lanes if lane.kind == "dma") > 0
    for (begin, making), (after, _) in pairwise(made):
        assert begin + making <= after
    # What the headline blames is what the row shows.
    busy = sum(making for _, making in made)
    assert told["flows"]["making"] == busy
    assert busy / recording.makespan == pytest.approx(
        digest(recording).waits["dma trigger"] / recording.makespan, abs=0.05
    )
    # All bytes of the run pass HBM here, one way.
    assert told["flows"]["hbm"] == pytest.approx(int(whole(recording.rows["bytes"]).sum()))


@pytest.mark.parametrize("name", ["k04_layer_norm", "k07_routing", "k10_two_cores"])
def test_the_counter_of_hbm_counts_what_mbu_counts(page: Read, name: str) -> None:
    """Also where a transfer changes the dtype or goes from HBM to HBM, and a barrier names a tensor there."""
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / f"{name}.py"))
    for kernel in module["KERNELS"]:
        run = nki_lab.run(kernel, *module["inputs"](), target="trn2")
        told = page(encode(run.recording))["flows"]
        assert told["hbm"] == run.summary.hbm_read_bytes + run.summary.hbm_write_bytes
        assert run.summary.mbu == pytest.approx(told["hbm"] / told["limit"] / (run.recording.makespan / 1e12))


@pytest.mark.parametrize("name", ["k02_matmul", "k10_two_cores"])
def test_dma_that_waits_for_descriptors_is_no_dma_with_nothing_queued(page: Read, name: str) -> None:
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / f"{name}.py"))
    recording = nki_lab.run(module["KERNELS"][0], *module["inputs"](), target="trn2").recording
    told = page(encode(recording))
    rows = recording.rows
    for core, (busy, _), waiting in zip(told["cores"], told["transfers"], told["waiting"], strict=True):
        queues = [lane.number for lane in recording.lanes if lane.kind == "dma" and lane.core == core]
        mine = np.isin(whole(rows["lane"]), queues)
        assert busy + waiting == (whole(rows["start"]) + whole(rows["duration"]))[mine].max()
