"""A sweep on a Dask cluster of processes of their own, one of which is killed while it works."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import nki_lab
from nki_lab.sweeps import Progress
from tests.sweeps import swept

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of another package
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and two workers with one thread each; give the address and the workers."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
        log = (tmp_path / f"{arguments[0]}.log").open("ab")
        with log:
            return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log)

    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = start("dask_scheduler", *common, "--host", "127.0.0.1", "--port", "0")
    workers = [start("dask_worker", *common, "--no-nanny", "--nthreads", "1") for _ in range(2)]
    yield str(file), workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def test_nothing_is_lost_and_nothing_there_twice_when_a_worker_is_killed(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    distributed: Any = pytest.importorskip("distributed", reason="make test-all installs it")
    from pyarrow import parquet

    file, workers = cluster
    parameters = {"factor": [float(number) for number in range(24)], "TILE": [128, 512]}
    killed: list[float] = []

    def kill(progress: Progress) -> None:
        if progress.done >= 5 and not killed:
            killed.append(time.monotonic())
            workers[0].kill()

    with distributed.Client(scheduler_file=file, timeout=60) as client:
        client.wait_for_workers(2, timeout=120)
        found = nki_lab.sweep(swept.slow, parameters, args=["float32[128,512]"], executor=client, folder=tmp_path / "kept",
                              progress=kill)  # fmt: skip
    assert killed
    assert workers[0].poll() is not None
    assert len(found) == 48
    assert all(item["latency_ns"] for item in found)
    kept = [
        key for path in (tmp_path / "kept").glob("*.parquet") for key in parquet.read_table(path)["key"].to_pylist()
    ]
    assert sorted(kept) == sorted({item["key"] for item in found})
    with ThreadPoolExecutor(1) as threads:
        here = nki_lab.sweep(swept.slow, parameters, args=["float32[128,512]"], executor=threads)
    assert [item["latency_ns"] for item in here] == [item["latency_ns"] for item in found]
