"""Every report, export and view of a run counts the same instructions: those that are executed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import nki_lab
from nki_lab.export import text
from nki_lab.export.card import card
from nki_lab.export.text import LINES, brief
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.plots.columns import frame
from nki_lab.result import Run
from nki_lab.widgets.about import about
from nki_lab.wire import Messages
from tests.plots.runs import profiled
from tests.verdicts import kernel_file, loaded
from tests.wire.reader import read


@pytest.fixture(scope="module")
def run() -> Run:
    """Return a run of which the compiler model leaves an instruction out."""
    module = loaded(kernel_file("beta1_softmax"))
    return nki_lab.profile(module.kernel, *module.ARGUMENTS, target="trn2")


def test_the_compiler_model_leaves_an_instruction_out(run: Run) -> None:
    recording = run.recording
    assert run.summary.compiler_model
    assert recording.instructions == run.summary.instructions == len(recording) - 1
    assert int(recording.executed.sum()) == recording.instructions


def test_reports_and_lists_of_runs_count_what_is_executed(run: Run) -> None:
    recording, count = run.recording, run.summary.instructions
    assert f", {count} instructions\n" in brief(recording)
    assert f"{count} instructions" in card(recording, b"")
    assert about(recording)["instructions"] == count
    assert run.compare(run).as_dict()["before"]["instructions"] == count
    assert read(Messages(recording).whole(0, len(recording)))[0]["instructions"] == count


def test_tables_add_up_to_the_count(run: Run) -> None:
    found, count = digest(run.recording), run.summary.instructions
    assert sum(lane.rows for lane in found.lanes) == count
    assert sum(line.rows for line in found.lines) == count
    ops = text.report(run.recording).split("\ninstruction ")[1].split("\n\n")[0].splitlines()[1:]
    assert sum(int(line.split()[1]) for line in ops) == count


def test_exports_have_what_is_executed_alone(run: Run, tmp_path: Path) -> None:
    count = run.summary.instructions
    saved = nki_lab.open(run.save(tmp_path / "run.nkirec"))
    assert f"{count} instructions" in repr(saved)
    profile = nki_lab.open(run.to_explorer(tmp_path / "profile"))
    assert len(profile.recording) == profile.summary.instructions == count
    assert profile.summary.profile["Summary"]["event_count"] == count
    edges = profile.recording.table("edges")
    assert len(edges) and int(edges["row"][:].max()) < count


def test_tables_for_spreadsheets_tell_what_is_not_executed(run: Run, tmp_path: Path) -> None:
    folder, count = run.to_csv(tmp_path / "tables"), run.summary.instructions
    tables = {}
    for name in ("instructions", "lanes"):
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            tables[name] = list(csv.DictReader(stream))
    assert sum(row["origin"] != "left out" for row in tables["instructions"]) == count
    assert sum(int(row["rows"]) for row in tables["lanes"]) == count


def test_the_roofline_counts_what_is_executed(run: Run) -> None:
    points = frame(run.recording, "roofline")
    assert points["instructions"][points["what"] == "kernel"].tolist() in ([], [run.summary.instructions])


def test_shares_of_the_critical_path_in_a_report_add_up() -> None:
    report = profiled("k06_flash_attention").report()
    causes, lines = (report.split(f"\n{name} ")[1].split("\n\n")[0] for name in ("critical path", "line"))
    shares = [float(share) for share in re.findall(r"([\d.]+) %$", causes, re.MULTILINE)]
    assert len(shares) == LINES + 1
    assert re.search(r"^\d+ other causes ", causes, re.MULTILINE)
    assert sum(shares) == pytest.approx(100, abs=2)
    of_lines = [float(share) for share in re.findall(r"([\d.]+) %", lines)]
    assert re.search(r"^\d+ other lines ", lines, re.MULTILINE)
    assert sum(of_lines) == pytest.approx(100, abs=2)
