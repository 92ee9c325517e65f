"""`nki-lab doctor`: what a report of a fault needs, and how much of NKI there is, for people and for programs."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_lab import cli
from nki_lab.cli import coverage, doctor
from nki_lab.isa.spec import TABLE
from tests.coverage.inventory import inventory


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["doctor", *words]) == 0
    return capsys.readouterr().out


def test_a_report_has_versions_target_and_library(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    found = json.loads(printed(capsys, "--format", "json"))
    assert found["packages"]["numpy"] == np.__version__
    assert found["executable"] == sys.executable
    assert (found["target"], found["real_packages"]) == ("trn3", {})
    text = printed(capsys)
    assert re.search(rf"^numpy {{2,}}{re.escape(np.__version__)}$", text, re.MULTILINE)
    rows = text.split("\n\n")[0].splitlines()
    assert len({match.end() for row in rows if (match := re.match(r"(?:timing walk|\w+) +", row))}) == 1
    assert "target in force: trn3" in text


def test_the_origin_of_the_target_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.nki-lab]\ntarget = "trn1"\n', encoding="utf-8")
    assert f"target in force: trn1 (from [tool.nki-lab] in {tmp_path / 'pyproject.toml'})" in printed(capsys)
    (tmp_path / "pyproject.toml").unlink()
    assert "trn3 (from the default)" in printed(capsys)


def test_real_packages_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nki_lab.dialects.activation.real_packages", lambda: {"nki": "site/nki/__init__.py"})
    assert re.search(r"^nki {2,}a real package, site/nki/__init__.py", printed(capsys), re.MULTILINE)


def test_one_processor_and_one_thread_are_no_plural(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "--format", "json")) | {"processors": 1, "blas": "BLAS", "blas_threads": 1}
    text = doctor.as_text(found)
    assert ", 1 processor\n" in text and "BLAS, 1 thread\n" in text


@pytest.fixture(scope="module")
def covered() -> dict[str, Any]:
    return coverage.coverage()


def test_coverage_has_every_item_and_every_limit(covered: dict[str, Any]) -> None:
    known = inventory()["items"]
    assert [item["name"] for item in covered["items"]] == [item["qualname"] for item in known]
    for item, listed in zip(covered["items"], known, strict=True):
        assert [limit["text"] for limit in item["limits"]] == listed["constraints"]
        assert all(limit["kind"] in coverage.KINDS for limit in item["limits"])


def test_totals_are_sums_of_the_items(covered: dict[str, Any]) -> None:
    totals = covered["totals"]
    assert totals["items"] == len(covered["items"]) >= totals["declared"] >= totals["compared"] > 200
    assert totals["limits"]["all"] == sum(totals["limits"][kind] for kind in coverage.KINDS)
    assert totals["limits"]["reason"] <= totals["limits"]["all"] / 10
    assert totals["guessed_costs"] == sum("guess" in item["cost"].values() for item in covered["items"])


def test_coverage_lists_instructions_that_are_not_awss(monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage.coverage()["own"] == []
    own = replace(TABLE["reciprocal"], name="zigzag", index=len(TABLE))
    monkeypatch.setitem(TABLE, "zigzag", own)
    found = coverage.coverage()
    assert [item["name"] for item in found["own"]] == ["nki.isa.zigzag"]
    assert found["own"][0]["cost"] == coverage.confidences(TABLE["reciprocal"])
    assert "nki.isa.zigzag" not in {item["name"] for item in found["items"]}
    assert f"declared and not part of NKI {found['release']}: nki.isa.zigzag" in coverage.as_text(found)


def test_every_declared_instruction_has_a_cost_on_its_generations(covered: dict[str, Any]) -> None:
    priced = {item["name"].removeprefix("nki.isa.") for item in covered["items"] if item["cost"]}
    assert priced == set(TABLE)
    assert set().union(*(item["cost"].values() for item in covered["items"])) <= set(coverage.CONFIDENCES)


def test_what_is_not_there_is_not_declared() -> None:
    assert coverage.is_declared("nki.isa.nc_matmul")
    assert coverage.is_declared("nki.language.NkiTensor.permute")
    assert coverage.is_declared("nki.language._TileSize.pmax")
    assert not coverage.is_declared("nki.isa.nc_matmull")
    assert not coverage.is_declared("nki.language.NkiTensor.twist")


def test_the_table_ends_with_the_totals(capsys: pytest.CaptureFixture[str], covered: dict[str, Any]) -> None:
    text = printed(capsys, "--coverage")
    assert f"{covered['totals']['declared']} declared" in text
    line = next(line for line in text.splitlines() if line.startswith("nki.isa.nc_matmul "))
    assert line.split()[1:3] == ["yes", "yes"]
    assert json.loads(printed(capsys, "--coverage", "--format", "json")) == covered


def test_findings_are_plain_data() -> None:
    assert json.loads(json.dumps(doctor.findings())) == doctor.findings()
