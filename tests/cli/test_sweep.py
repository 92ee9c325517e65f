"""`nki-lab sweep`: points of the command line, tables, a folder to go on from, and the exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nki_lab import cli
from nki_lab.cli.sweep import argument_of, parameters_of, values_of
from nki_lab.diagnostic import NkiError

pytestmark = pytest.mark.extended

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

TILE = 512


@nki.jit
def scaled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(a.shape[1] // TILE):
        x = nl.ndarray((a.shape[0], TILE), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[:, i * TILE : (i + 1) * TILE])
        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, i * TILE : (i + 1) * TILE], src=x)
    return out
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL, encoding="utf-8")
    return f"{path}::scaled"


def swept(file: str, *given: str) -> int:
    return cli.main(["sweep", file, "--workers", "2", *given])


def test_every_combination_is_a_row_and_the_best_is_code(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--vary", "TILE=256,512", "--vary", "S=1024,2048", "--arg", "a=float32[128,S]", "--target", "trn1,trn2")
    assert swept(file, *asked) == 0
    text = capsys.readouterr().out
    assert "8 of 8 points: 8 ok" in text
    peaks = [f"{space} peak in program order" for space in ("SBUF", "PSUM")]
    assert re.split(r"\s{2,}", text.splitlines()[0]) == ["TILE", "S", "target", "latency", "80 % interval", *peaks]
    assert re.search(r" µs  [\d.]+ to [\d.]+ +[12] KiB +0 B$", text, re.MULTILINE)
    assert "run = nki_lab.profile(scaled, a=nki_lab.spec((128, 1024)" in text


def test_a_name_that_goes_nowhere_is_told_with_those_that_go_somewhere(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(file, "--vary", "XYZ=1,2") == 1
    assert "= help:  scaled has the parameters a and reads TILE\n" in capsys.readouterr().err


def test_a_column_that_no_sweep_has_is_told_before_any_point(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nki_lab.sweeps.sweep", lambda *_args, **_more: pytest.fail("points are worked out"))
    assert swept(file, "--vary", "TILE=256,512", "--best", "latenci_ns") == 1
    told = capsys.readouterr().err
    assert "NKI012 the sweep has no column latenci_ns" in told and "latency_ns" in told


def test_failed_points_are_rows_with_their_finding(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--vary", "P=128,129", "--arg", "a=float32[P,1024]", "--target", "trn2", "--format", "json")
    assert swept(file, *asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(point["P"], point["status"]) for point in found["points"]] == [(128, "ok"), (129, "failed")]
    assert found["points"][1]["code"].startswith("NKI2")
    assert found["best"] == found["points"][0]
    assert "nki_lab.profile(scaled, " in found["source"]
    assert swept(file, *asked, "--strict") == 1
    capsys.readouterr()
    assert swept(file, "--vary", "P=129", "--arg", "a=float32[P,1024]", "--target", "trn2") == 1


def test_a_folder_keeps_points_for_the_next_time(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--arg", "a=float32[128,1024]", "--target", "trn2", "--folder", str(tmp_path / "points"))
    assert swept(file, "--vary", "TILE=256", *asked) == 0
    first = list((tmp_path / "points").glob("*.parquet"))
    assert swept(file, "--vary", "TILE=256,512", *asked) == 0
    assert "2 of 2 points: 2 ok" in capsys.readouterr().out
    more = list((tmp_path / "points").glob("*.parquet"))
    assert set(first) < set(more)
    assert swept(file, "--vary", "TILE=256,512", *asked) == 0
    assert sorted((tmp_path / "points").glob("*.parquet")) == sorted(more)


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_computed(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        assert swept(file, "--vary", "TILE=256", "--arg", "a=float32[128,1024]", "--folder", str(folder)) == 1
        found = capsys.readouterr()
        assert found.err.startswith("NKI021 ")
        assert found.out == ""


def test_an_interrupt_keeps_finished_points_and_ends_the_workers(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "points"
    tiles = ",".join(str(64 + number) for number in range(600))
    command = [sys.executable, "-m", "nki_lab", "sweep", file, "--vary", f"TILE={tiles}", "--workers", "2",
               "--arg", "a=float32[128,65536]", "--target", "trn2", "--folder", str(folder)]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 120
    while not list(folder.glob("*.parquet")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    assert process.poll() is None, "it was over before it could be interrupted"
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 600 points are in" in said
    assert list(folder.glob("points-*.parquet"))
    with pytest.raises(ProcessLookupError):  # no process of its group is left
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("256,512", [256, 512]),
        ("0.5", [0.5]),
        ("slab,tile", ["slab", "tile"]),
        ("True,None", [True, None]),
        ("(1, 2),(2, 1)", [(1, 2), (2, 1)]),
        ("bfloat16,4", ["bfloat16", 4]),
    ],
)
def test_values_are_read_as_python_has_them(text: str, values: list[object]) -> None:
    assert values_of(text) == values


def test_sizes_with_names_are_left_to_the_sweep() -> None:
    assert argument_of("a=float32[128,S]") == ("a", "float32[128,S]")
    name, value = argument_of("a=float32[128,64]")
    assert (name, getattr(value, "shape", None)) == ("a", (128, 64))
    assert argument_of("n=4") == ("n", 4)


@pytest.mark.parametrize("texts", [["TILE"], ["TILE="], ["=4"], ["TILE=1", "TILE=2"]])
def test_a_wrong_list_of_values_is_said(texts: list[str]) -> None:
    with pytest.raises(NkiError, match="NKI012"):
        parameters_of(texts, None)


def test_a_parameter_that_nothing_reads_is_said(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert swept(file, "--vary", "TILES=4", "--arg", "a=float32[128,1024]") == 1
    said = capsys.readouterr().err
    assert said.startswith("NKI012 ")
    assert "TILE" in said


def test_charts_of_a_sweep_are_a_page(file: str, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    asked = ("--vary", "TILE=256,512", "--arg", "a=float32[128,1024]", "--target", "trn2", "--html", str(page))
    assert swept(file, *asked) == 0
    text = page.read_text(encoding="utf-8")
    assert "Latency over TILE" in text
    assert "Latency and SBUF" in text
