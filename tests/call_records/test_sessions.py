"""Runs and test sessions record the calls of a project's functions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.call_records.projects import ROOT, project, python, recorded, session_of

RUN = """
import sys
from pathlib import Path
import conftest
import numpy as np
import nki, nki_lab
from helpers import Config
from kernels import double
columns = int(sys.argv[1])
{call}
"""
CALLS = {
    "run": "nki_lab.run(double, np.ones((128, columns), np.float32), Config(columns))",
    "call": "double(np.ones((128, columns), np.float32), Config(columns))",
    "simulate": "nki.simulate(double)(np.ones((128, columns), np.float32), Config(columns))",
    "profile": "nki_lab.profile(double, nki_lab.spec((128, columns), 'float32'), Config(columns))",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a project after a session of its tests, and what that printed."""
    folder = project(tmp_path_factory.mktemp("project"))
    done = session_of(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_a_session_records_kernels_and_helpers(session: tuple[Path, str]) -> None:
    folder, printed = session
    found = recorded(folder)
    assert [*found] == ["helpers.py::load", "helpers.py::scale", "kernels.py::double"]
    assert f"7 calls recorded in {folder}" in printed
    widths = [item["arguments"]["x"]["tensor"] for item in found["kernels.py::double"]]
    assert widths == ["float32[128,128]", "float32[128,512]"]  # and not the one that is refused
    assert found["kernels.py::double"][0]["from"] == ["tests/test_double.py::test_double[128]"]


def test_a_helper_is_recorded_where_it_reaches_a_new_place(session: tuple[Path, str]) -> None:
    calls = recorded(session[0])["helpers.py::scale"]
    assert [(item["arguments"]["tile"]["tensor"], item["arguments"]["wide"]) for item in calls] == [
        ("float32[128,128]", False),
        ("float32[128,512]", True),
        ("float32[128,512]", False),
    ]
    assert calls[0]["arguments"]["tile"]["memory"] == "sbuf"
    assert calls[0]["arguments"]["config"] == {
        "object": "Config",
        "fields": {"width": 128, "layout": {"member": "Layout.rows"}},
    }
    assert all(item["inner"] for item in calls)


def test_an_argument_that_is_bound_again_is_unknown(session: tuple[Path, str]) -> None:
    first, _ = recorded(session[0])["helpers.py::load"]
    assert first["arguments"] == {"x": {"tensor": "float32[128,128]"}, "rows": {"unknown": "changed"}}


@pytest.mark.slow
def test_the_option_records_where_the_project_does_not(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.nki-lab]\ntarget = "trn2"\n')
    assert session_of(folder).returncode == 0
    assert not (folder / ".nki-lab").exists()
    assert session_of(folder, "--nki-record-signatures", "-k", "double").returncode == 0
    first = (folder / ".nki-lab" / "signatures.json").read_bytes()
    assert b"kernels.py::double" in first
    assert session_of(folder, "--nki-record-signatures").returncode == 0
    assert (folder / ".nki-lab" / "signatures.json").read_bytes() == first


def test_every_kind_of_run_records_and_processes_do_not_lose_each_others_calls(tmp_path: Path) -> None:
    folder = project(tmp_path)
    running = []
    for script in ("run call", "simulate profile"):
        calls = "\n".join(f"columns *= 2; {CALLS[name]}" for name in script.split())
        (folder / f"{script}.py").write_text(RUN.format(call=calls), encoding="utf-8")
        command = [sys.executable, f"{script}.py", str(8 * len(script))]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        running.append(subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True))
    for item in running:
        _, errors = item.communicate(timeout=120)
        assert item.returncode == 0, errors
    found = recorded(folder)["kernels.py::double"]
    assert {item["arguments"]["x"]["tensor"]: item["from"] for item in found} == {
        "float32[128,128]": ["run call.py"],
        "float32[128,256]": ["run call.py", "simulate profile.py"],
        "float32[128,512]": ["simulate profile.py"],
    }


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / ".nki-lab").write_text("a file where the folder would be")  # the superuser may write everywhere
    done = session_of(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("calls are not recorded in") <= 2
    assert "calls are not recorded in" in done.stdout
    (folder / "run.py").write_text(RUN.format(call=CALLS["run"] + "\n" + CALLS["run"]), encoding="utf-8")
    done = python(folder, "run.py", "64")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("calls are not recorded in") == 1


def test_the_plugin_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, pytest; before = {*sys.modules}; import nki_lab.pytest_plugin; print(sorted({*sys.modules} - before))"
    loaded = python(tmp_path, "-c", code).stdout
    assert "nki_lab.pytest_plugin" in loaded
    assert "numpy" not in loaded
    assert "ml_dtypes" not in loaded
    assert "nki_lab.dialects" not in loaded
