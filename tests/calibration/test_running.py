"""Workers: what they answer, how a failure, a crash and a late run look, and when an answer is used again."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

import nki_lab
from benchmarks.calibration import running, worker
from benchmarks.calibration.comparison import rows_of
from benchmarks.calibration.published import Figure, Kernel, Published, Run

SOURCE = """
import enum
import os
import time

import nki
import nki.isa as nisa
import nki.language as nl


class Mode(enum.Enum):
    FAST = 1


@nki.jit
def kernel(x, mode, what=""):
    assert mode is Mode.FAST
    if what == "crash":
        os._exit(3)
    if what == "sleep":
        time.sleep(60)
    tile = nl.load(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(tile))
    return out if what != "fail" else nl.load(out[0:300])
"""


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    repository = tmp_path / "kernels" / "r"
    repository.mkdir(parents=True)
    (repository / "k.py").write_text(SOURCE)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=n@x.org", "commit", "-qm", "k"],
    ):
        subprocess.run(["git", *command], cwd=repository, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    kernel = Kernel(id="k", repository="r", commit=commit, file="k.py", sha256=hashlib.sha256(SOURCE.encode()).hexdigest(),
                    form="module", function="kernel", dialect="current")  # fmt: skip
    shared: dict[str, Any] = {"0": {"tensor": "float32[128,512]"}, "1": {"name": ":Mode.FAST"}}
    runs = {
        name: Run(
            id=name, kernel="k", family="f", target="trn2", cores=1, arguments={**shared, **more}, dtype="float32"
        )
        for name, more in (
            ("good", {}),
            ("crash", {"what": "crash"}),
            ("fail", {"what": "fail"}),
            ("after", {"what": "-"}),
        )
    }
    figures = (Figure(id=1, run="good", metric="makespan_ns", value=2e4, kind="measured", tier="A", source="s"),
               Figure(id=2, run="good", metric="engine_busy_share.scalar", value=0.1, kind="measured", tier="A", source="s"),
               Figure(id=3, run="fail", metric="makespan_ns", value=2e4, kind="measured", tier="A", source="s"))  # fmt: skip
    monkeypatch.setattr(running, "BUILD", tmp_path / "build")
    return Published({"r": "o/r"}, {"k": kernel}, runs, figures)


@pytest.mark.slow
def test_a_worker_answers_for_each_run_and_a_crash_costs_one_answer(published: Published, tmp_path: Path) -> None:
    limits = running.Limits(seconds=60, jobs=1)
    answers = running.predict(published, tmp_path / "kernels", limits=limits, progress=False)
    assert list(answers) == ["good", "crash", "fail", "after"]
    figures = answers["good"]["figures"]
    assert figures["makespan_ns"] > figures["without"]["launch_overhead"]
    assert figures["engine_instructions"]["scalar"] == 1
    assert answers["after"]["figures"] == figures
    assert answers["crash"]["failure"].startswith("the worker ended with 3")
    assert "NKI" in answers["fail"]["failure"]
    time, busy, failed = rows_of(published, answers)
    assert time["predicted"] == figures["makespan_ns"]
    assert (busy["metric"], busy["published"]) == ("engine_busy_ns.scalar", pytest.approx(2e3))
    assert failed["predicted"] is None
    assert failed["failure"]

    kept = running.predict(published, tmp_path / "none", only=["good", "crash"], limits=limits, progress=False)
    assert kept["good"] == answers["good"]  # kept
    assert "there is no clone" in kept["crash"]["failure"]  # asked again


def test_arguments_are_tensors_names_calls_and_constants() -> None:
    spec = worker.argument({"tensor": "bfloat16[2,3]"}, "")
    assert (spec.shape, spec.dtype.name) == ((2, 3), "bfloat16")
    assert worker.argument({"name": "nki_lab:Options"}, "") is nki_lab.Options
    made = worker.argument({"call": ":Options", "arguments": {"power_ramp": False}}, "nki_lab")
    assert made.power_ramp is False
    assert worker.argument([[1, 2], None], "") == ((1, 2), None)
    for wrong in ({"tensor": "bfloat16"}, {"what": 1}):
        with pytest.raises(ValueError, match="tensor"):
            worker.argument(wrong, "")


def test_the_mechanisms_are_the_options_of_time() -> None:
    assert {"power_ramp", "launch_overhead", "bandwidth_sharing"} <= set(worker.mechanisms())
    assert not {"precise", "strict"} & set(worker.mechanisms())


def test_the_hash_of_the_sources_changes_with_any_of_them(tmp_path: Path) -> None:
    (tmp_path / "isa").mkdir()
    (tmp_path / "isa" / "a.py").write_text("a = 1\n")
    first = running.source_hash(("isa", "absent"), tmp_path)
    assert running.source_hash(("isa",), tmp_path) == first
    (tmp_path / "isa" / "a.py").write_text("a = 2\n")
    assert running.source_hash(("isa",), tmp_path) != first
