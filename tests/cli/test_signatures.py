"""`nki-lab signatures`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nki_lab import cli
from nki_lab.call_records import store
from nki_lab.call_records.store import CallRecord
from tests.call_records.projects import project

USED = CallRecord(
    arguments={"x": {"tensor": "float32[128,512]"}, "rows": 128},
    inner=True,
    target="trn2",
    origins=("tests/t.py::test_a",),
)
UNUSED = CallRecord(arguments={"x": {"tensor": "float32[128,1024]"}, "rows": 128}, inner=True, target="trn2")
STALE = CallRecord(arguments={"y": 1}, inner=True, target="trn2")
TABLE = {
    ("helpers.py", "load"): (USED, STALE, UNUSED),
    ("helpers.py", "gone"): (STALE,),
    ("gone.py", "load"): (USED,),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with recorded calls, where the commands run."""
    made = project(tmp_path / "project")
    store.update(made, lambda _: TABLE)
    monkeypatch.chdir(made)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    return made


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert cli.main(["signatures", *arguments]) == status
    found = capsys.readouterr()
    return found.out if status == 0 else found.err


def test_calls_are_listed_with_their_fate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys).splitlines() == [
        "gone.py::load",
        "  x: float32[128,512], rows: 128 · trn2 · tests/t.py::test_a",
        "    stale: gone.py cannot be read",
        "helpers.py::gone",
        "  y: 1 · trn2",
        "    stale: helpers.py has no function gone at its top level",
        "helpers.py::load",
        "  x: float32[128,512], rows: 128 · trn2 · tests/t.py::test_a",
        "    used: it reaches 2 calls of NKI that others do not",
        "  y: 1 · trn2",
        "    stale: load has no parameter y",
        "  x: float32[128,1024], rows: 128 · trn2",
        "    not used: it reaches no call of NKI that others do not",
        "5 calls, 1 of them used",
    ]


def test_a_path_chooses_functions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "kernels.py", "tests").strip().startswith("no recorded calls: record-signatures = true")
    assert printed(capsys, "helpers.py").splitlines()[-1] == "4 calls, 1 of them used"
    assert printed(capsys, str(folder.parent)).splitlines()[-1] == "5 calls, 1 of them used"


def test_json_has_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "helpers.py", "--format", "json"))
    assert [item["state"] for item in found["calls"]] == ["stale", "used", "stale", "not used"]
    assert found["calls"][1]["arguments"] == {"x": {"tensor": "float32[128,512]"}, "rows": 128}
    assert found["calls"][1]["from"] == ["tests/t.py::test_a"]
    assert found["removed"] == []


def test_prune_keeps_what_is_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--prune")
    assert text.splitlines()[-2:] == ["4 calls removed", "1 call, 1 of them used"]
    assert "removed helpers.py::gone y: 1 · trn2\n    stale: helpers.py has no function gone" in text
    assert store.read(folder).table == {("helpers.py", "load"): (USED,)}


def test_clear_removes_what_the_paths_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "helpers.py", "--clear") == "4 calls removed\n"
    assert [*store.read(folder).table] == [("gone.py", "load")]
    store.place_of(folder).write_text("{")
    assert cli.main(["check", "kernels.py"]) == 0
    assert "information: NKI026 it is no JSON" in capsys.readouterr().out
    assert "NKI026" in printed(capsys, status=1)
    assert printed(capsys, "--clear") == "0 calls removed\n"
    assert not store.place_of(folder).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prune", "--clear"], "--prune and --clear exclude each other"),
        (["nowhere"], "nowhere does not exist"),
        (["a\0b"], "does not exist"),
        (["--target", "trn9"], "NKI004"),
    ],
    ids=["both", "nowhere", "null", "target"],
)
def test_a_wrong_command_line_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in printed(capsys, *arguments, status=2)
    assert store.read(folder).table == TABLE


def test_wrong_settings_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("[tool.nki-lab]\nrecord-signatures = 1\n")
    assert "NKI024 record-signatures is neither true nor false" in printed(capsys, status=1)


def test_a_folder_that_is_a_link_is_not_changed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "calls"
    (folder / ".nki-lab").rename(elsewhere)
    (folder / ".nki-lab").symlink_to(elsewhere)
    assert "cannot be changed: .nki-lab is a link" in printed(capsys, "--prune", status=1)
