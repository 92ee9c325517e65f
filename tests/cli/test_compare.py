"""`nki-lab compare`: saved runs side by side, with an exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import nki_lab
from nki_lab import cli
from nki_lab.cli.compare import share_of
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.quantities import duration
from tests.comparison.versions import KERNEL, as_of_a_device, edited, profiled


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The folders of a run, and of a slower one of an edited kernel."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {"before": profiled(KERNEL), "after": profiled(edited("TILE = 512", "TILE = 256"))}
    before, after = (str(run.save(folder / f"{name}.nkirec")) for name, run in runs.items())
    return before, after


def test_a_slower_run_is_told_in_text(saved: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", *saved]) == 0
    out = capsys.readouterr().out
    assert " slower (+" in out.splitlines()[0]
    assert "Edited: line 5 `TILE = 512` → `TILE = 256`." in out
    assert "critical path" in out


@pytest.mark.parametrize(("allowed", "status"), [("0", 1), ("5%", 1), ("0.05", 1), ("500%", 0), ("5", 0)])
def test_a_regression_ends_with_status_1(
    allowed: str, status: int, saved: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *saved, "--fail-on", allowed]) == status
    found = capsys.readouterr()
    assert " slower (+" in found.out
    assert ("the latency grows by " in found.err) == bool(status)


def test_a_faster_run_and_an_equal_one_are_no_regressions(saved: tuple[str, str]) -> None:
    before, after = saved
    assert cli.main(["compare", after, before, "--fail-on", "0"]) == 0
    assert cli.main(["compare", before, before, "--fail-on", "0%"]) == 0


def test_json_is_that_of_python_and_the_same_each_time(
    saved: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *saved, "--format", "json"]) == 0
    first = capsys.readouterr().out
    assert cli.main(["compare", *saved, "--format", "json"]) == 0
    assert capsys.readouterr().out == first
    found = json.loads(first)
    before, after = map(nki_lab.open, saved)
    assert found == json.loads(json.dumps(before.compare(after).as_dict()))
    assert found["latency"]["change"] == pytest.approx(after.summary.makespan_ns - before.summary.makespan_ns)
    assert set(found) == {
        "after", "before", "critical_path", "edits", "engines", "instructions", "latency", "lines", "memory", "notes",
        "same_kernel", "sentence", "stalls",
    }  # fmt: skip


def test_html_is_a_page_that_asks_nobody(
    saved: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *saved, "--format", "html", "--html", str(tmp_path / "page.html")]) == 0
    page = capsys.readouterr().out
    assert page == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    assert "http:" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "slower" in page


@pytest.mark.parametrize("text", ["", "x", "-5%", "5%%", "nan", "1e3", "5 percent"])
def test_a_wrong_share_is_said(text: str, saved: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", *saved, f"--fail-on={text}"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("NKI012 ")
    with pytest.raises(NkiError):
        share_of(text)


def test_a_recording_that_is_not_there_is_said(
    saved: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pair in ((saved[0], str(tmp_path / "none")), (str(tmp_path / "none"), saved[0])):
        assert cli.main(["compare", *pair]) == 1
        found = capsys.readouterr()
        assert found.out == ""
        assert found.err.startswith("NKI018 ")


def test_a_page_that_cannot_be_written_is_said_and_nothing_else(
    saved: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert cli.main(["compare", *saved, "--html", str(tmp_path / "file" / "page.html")]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("NKI021 ")


def test_a_run_is_compared_with_a_profile_in_the_tables_of_neuron_explorer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = profiled(KERNEL)
    measured = nki_lab.open(as_of_a_device(run.to_explorer(tmp_path / "profile")))
    found = run.compare(measured)
    assert any("measured" in note for note in found.notes)
    assert found.figures.before.measured is False
    assert found.figures.after.measured is True
    assert found.figures.latency.within_error
    assert len(found.figures.rows.before)
    pair = [str(run.save(tmp_path / "run.nkirec")), str(tmp_path / "profile")]
    assert cli.main(["compare", *pair]) == 0
    assert "does not tell the lines of its transfers" in capsys.readouterr().out
    assert cli.main(["compare", *reversed(pair), "--fail-on", "1000%"]) == 0


def test_a_run_and_the_profile_that_is_written_of_it_take_the_same_time(tmp_path: Path) -> None:
    run = profiled(KERNEL)
    found = run.compare(nki_lab.open(run.to_explorer(tmp_path / "profile")))
    assert found.sentence == f"The same latency, {duration(run.recording.makespan)}."
    assert found.figures.after.measured is False
    assert not any("measured" in note for note in found.notes)


def test_a_run_that_grows_from_nothing_has_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Recording({}, {"kernel": "scaled"}).save(tmp_path / "empty")
    profiled(KERNEL).save(tmp_path / "run")
    assert cli.main(["compare", str(tmp_path / "empty"), str(tmp_path / "run"), "--fail-on", "5"]) == 1
    assert capsys.readouterr().err == (
        "the latency grows by more than any share, from 0 ns on, --fail-on allows 500 %\n"
    )
