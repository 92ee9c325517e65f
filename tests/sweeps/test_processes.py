"""Points run in processes that die, are interrupted and share a folder; no point is lost, and none is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.sweeps import Progress, Sweep
from tests.sweeps import swept

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
ARGS = ["float32[128,512]"]


def plain(found: Sweep) -> list[dict[str, Any]]:
    """Return the rows without what differs from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found.rows()]


def points_in(folder: Path) -> list[str]:
    """Return the keys of all rows in a folder, those of each file."""
    from pyarrow import parquet

    return [key for path in folder.glob("*.parquet") for key in parquet.read_table(path)["key"].to_pylist()]


def test_processes_give_what_threads_and_the_standard_pool_give() -> None:
    parameters = {"TILE": [128, 512, 1 << 20], "target": ["trn1", "trn2"]}
    args = ["float32[128,1048576]"]
    with ThreadPoolExecutor(2) as threads:
        here = nki_lab.sweep(swept.scaled, parameters, args=args, executor=threads)
    own = nki_lab.sweep(swept.scaled, parameters, args=args, workers=2)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        standard = nki_lab.sweep(swept.scaled, parameters, args=args, executor=pool)
    assert plain(here) == plain(own) == plain(standard)


class Shuffled(Executor):
    """Works on what it was given in another order, as soon as `go` calls come."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.waiting = order, []  # type: ignore[var-annotated]

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == len(self.order):
            for number in self.order:
                one, function, given_ = self.waiting[number]
                one.set_result(function(*given_))
        return future


@given(order=st.permutations(range(6)))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_do_not_depend_on_the_order_in_which_points_are_worked_out(order: list[int]) -> None:
    parameters = {"TILE": [128, 256, 512], "factor": [2.0, 3.0]}
    found = nki_lab.sweep(swept.scaled, parameters, args=ARGS, executor=Shuffled(order))
    assert plain(found) == plain(nki_lab.sweep(swept.scaled, parameters, args=ARGS, executor=Shuffled(list(range(6)))))


def test_a_point_whose_worker_dies_is_tried_again_once(tmp_path: Path) -> None:
    found = nki_lab.sweep(
        swept.scaled, {"factor": [1, 7, 13, 3], "marks": [str(tmp_path)]}, args=ARGS, reference=swept.deadly, workers=2,
        folder=tmp_path / "kept",
    )  # fmt: skip
    assert [item["status"] for item in found] == ["ok", "ok", "lost", "ok"]
    assert {mark.name: len(mark.read_text()) for mark in tmp_path.iterdir() if mark.is_file()} == {
        "1": 1, "7": 2, "13": 2, "3": 1,
    }  # fmt: skip
    assert found[2]["code"] == "NKI034"
    assert "ended with status 3" in found[2]["message"]
    kept = points_in(tmp_path / "kept")
    assert sorted(kept) == sorted(item["key"] for item in found if item.ok)


def test_a_finished_point_is_not_worked_out_again(tmp_path: Path) -> None:
    first = nki_lab.sweep(swept.scaled, {"TILE": [128, 1 << 20]}, args=["float32[128,1048576]"],
                          folder=tmp_path, executor=Counting())  # fmt: skip
    counting = Counting()
    again = nki_lab.sweep(swept.scaled, {"TILE": [1 << 20, 256, 128]}, args=["float32[128,1048576]"],
                          folder=tmp_path, executor=counting)  # fmt: skip
    assert counting.calls == 1
    assert again.reused == 2
    assert again[2].row == first[0].row
    assert again[0].row == first[1].row


class Counting(Executor):
    """Works at once, in the caller's thread, and counts."""

    calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def edited(text: str, name: str, folder: Path) -> int:
    """Write a kernel and return how many points of its sweep are worked out anew."""
    counting = Counting()
    module: dict[str, Any] = {"__name__": name}
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module)
    nki_lab.sweep(module["kernel"], {"WIDTH": [64, 128]}, args=ARGS, folder=folder / "kept", executor=counting)
    return counting.calls


KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
WIDTH = 32
OTHER = 1


def moved(dst, src):
    nisa.dma_copy(dst=dst, src=src)


@nki.jit
def kernel(x):
    tile = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.sbuf)
    result = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)
    moved(tile, x[:, 0:WIDTH])
    moved(result, tile)
    return result
"""


@pytest.mark.parametrize(
    ("old", "new", "computed"),
    [
        ("WIDTH = 32", "WIDTH = 16", 0),  # the sweep says what it is
        ("OTHER = 1", "OTHER = 2  # of nobody's concern", 0),
        ("\ndef moved", "\n# A comment above.\n\n\ndef moved", 0),
        ("    nisa.dma_copy(dst=dst, src=src)", "    nisa.dma_copy(dst=dst, src=src)\n    src.shape", 2),
        ("moved(result, tile)", "moved(result, tile)\n    moved(result, tile)", 2),
    ],
    ids=["swept-global", "unread-global", "comment", "helper", "kernel"],
)
def test_an_edit_has_those_points_computed_that_it_changes(old: str, new: str, computed: int, tmp_path: Path) -> None:
    assert edited(KERNEL, "first", tmp_path) == 2
    assert edited(KERNEL.replace(old, new), "second", tmp_path) == computed


def test_files_of_others_and_damaged_ones_are_named_and_left(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    nki_lab.sweep(swept.scaled, {"TILE": [128]}, args=ARGS, folder=tmp_path, executor=Counting())
    (own,) = tmp_path.glob("*.parquet")
    damaged = tmp_path / "points-damaged.parquet"
    damaged.write_bytes(own.read_bytes()[:-40])
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "foreign.parquet")
    later = pyarrow.table({"key": ["k"]}).replace_schema_metadata({b"nki_lab.sweep": b"2"})
    parquet.write_table(later, tmp_path / "later.parquet")
    counting = Counting()
    again = nki_lab.sweep(swept.scaled, {"TILE": [128]}, args=ARGS, folder=tmp_path, executor=counting)
    assert counting.calls == 0
    assert [next(name for name in ("damaged", "foreign", "later") if name in text) for text in again.problems] == [
        "foreign", "later", "damaged",
    ]  # fmt: skip
    assert len(list(tmp_path.glob("*.parquet"))) == 4
    assert "cannot be read, and its points are computed again" in again.text()


def test_a_folder_that_is_a_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    counting = Counting()
    for name in ("taken", "taken/below"):
        with pytest.raises(nki_lab.NkiError, match="NKI021"):
            nki_lab.sweep(swept.scaled, {"TILE": [128]}, args=ARGS, folder=tmp_path / name, executor=counting)
    assert counting.calls == 0
    assert (tmp_path / "taken").read_text() == "mine"


def test_points_that_the_disk_refuses_are_in_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "kept"

    def vanish(progress: Progress) -> None:
        if progress.done == 1 and folder.is_dir():
            folder.rmdir()  # what was there is gone, and files cannot be made

    found = nki_lab.sweep(
        swept.scaled, {"TILE": [128, 256]}, args=ARGS, folder=folder, executor=Counting(), progress=vanish
    )
    assert [item.ok for item in found] == [True, True]
    assert len(found.problems) == 1
    assert "could not be written" in found.problems[0]


def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    nki_lab.sweep(swept.scaled, {"TILE": [128, 1 << 20]}, args=["float32[128,1048576]"], progress=seen.append,
                  folder=tmp_path, executor=Counting())  # fmt: skip
    assert [item.done for item in seen] == sorted(item.done for item in seen)
    last = seen[-1]
    assert (last.finished, last.done, last.total, last.failed, last.reused) == (True, 2, 2, 1, 0)
    assert str(last).startswith("scaled: 2 of 2 points, 1 failed")


def test_a_cancelled_sweep_has_the_points_until_then(tmp_path: Path) -> None:
    cancel = threading.Event()

    def stop(progress: Progress) -> None:
        if progress.done == 2:
            cancel.set()

    with ThreadPoolExecutor(1) as threads:
        found = nki_lab.sweep(
            swept.slow, {"factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}, args=ARGS, folder=tmp_path,
            executor=threads, cancel=cancel, progress=stop,
        )  # fmt: skip
    assert found.cancelled
    assert 2 <= len(found) < 8
    assert "cancelled" in found.text()
    assert sorted(points_in(tmp_path)) == sorted(item["key"] for item in found)


SCRIPT = """
import sys
import nki_lab
nki_lab.activate()
import nki, nki.isa as nisa, nki.language as nl
import time

WIDTH = 4
PAUSE = 0

@nki.jit
def kernel(x, number=0):
    time.sleep(PAUSE)
    print("a kernel may print")
    tile = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.sbuf)
    result = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x[:, 0:WIDTH])
    nisa.dma_copy(dst=result, src=tile)
    return result

found = nki_lab.sweep(
    kernel, {"WIDTH": [8, 64], "PAUSE": [float(sys.argv[2])], "number": list(range(int(sys.argv[3])))},
    args=["float32[128,512]"], workers=2, folder=sys.argv[1],
)
print(found.text("summary"))
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Any]:
    """Start the script, which has no guard around what it does, with a folder, a pause and a number of points."""
    (tmp_path / "script.py").write_text(SCRIPT)
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "script.py"), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_script_without_a_guard_is_swept_in_processes(script: Any, tmp_path: Path) -> None:
    done = script(tmp_path / "kept", 0, 1)
    output, errors = done.communicate(timeout=200)
    assert done.returncode == 0, errors
    assert "2 of 2 points: 2 ok" in output
    assert "WIDTH = 8" in output
    assert "\r" not in errors  # no progress where there is no terminal


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_an_interrupt_ends_the_workers_and_keeps_what_was_done(script: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    process = script(folder, 0.3, 200)
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    kept = points_in(folder)
    assert 0 < len(kept) < 400
    assert len(set(kept)) == len(kept)
