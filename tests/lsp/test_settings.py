"""Which target is checked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nki_lab.lsp.settings import Hints, Settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that says trn1."""
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    (tmp_path / "pyproject.toml").write_text("[tool.nki-lab]\ntarget = 'trn1'\n", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    return tmp_path


def settings(said: list[str] | None = None) -> Settings:
    return Settings([].append if said is None else said.append)


def test_the_editor_comes_first_then_the_environment_then_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings()
    file = str(project / "deep" / "k.py")
    assert found.arch(file).target == "trn1"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert found.arch(file).target == "trn2"
    found.take({"target": "gen4"})
    assert found.arch(file).target == "trn3"
    found.take({})
    assert found.arch(file).target == "trn2"


@pytest.mark.parametrize("values", [{"target": "trn1"}, {"nki-lab": {"target": "trn1"}}, {"nki-lab.target": "trn1"}])
def test_settings_are_understood_with_and_without_their_section(values: Any) -> None:
    found = settings()
    found.take(values)
    assert found.arch("").target == "trn1"


@pytest.mark.parametrize("values", [None, [], "trn2", {"target": 3}, {"target": ""}, {"nki-lab": "trn2"}])
def test_other_settings_leave_the_default(values: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    found = settings()
    found.take(values)
    assert found.arch("").target == "trn3"


def test_an_unknown_target_is_said_once_and_passed_over(project: Path) -> None:
    said: list[str] = []
    found = settings(said)
    found.take({"target": "trn9"})
    assert [found.arch(str(project / "k.py")).target for _ in range(3)] == ["trn1"] * 3
    assert said == ["the setting nki-lab.target is passed over: 'trn9' is no target"]


def test_a_changed_project_file_is_read_again(project: Path) -> None:
    found, file = settings(), project / "pyproject.toml"
    assert found.arch(str(project / "k.py")).target == "trn1"
    file.write_text("[tool.nki-lab]\ntarget = 'trn2' # longer\n", encoding="utf-8")
    assert found.arch(str(project / "k.py")).target == "trn2"


@pytest.mark.parametrize("text", ["not toml [", "[tool.nki-lab]\ntarget = 3", "[tool.nki-lab]\ntarget = 'trn9'"])
def test_a_project_file_that_cannot_be_understood_is_said_once(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    said: list[str] = []
    found = settings(said)
    assert [found.arch(str(project / "k.py")).target for _ in range(3)] == ["trn3"] * 3
    assert len(said) == 1
    assert said[0].startswith(str(project / "pyproject.toml"))


@pytest.mark.parametrize("path", ["", "untitled:Untitled-1", "k.py"])
def test_texts_without_a_path_have_no_project(path: str) -> None:
    assert settings().project(path).target is None


def test_the_editor_names_the_environment() -> None:
    found = settings()
    found.take({"nki-lab": {"python": ".venv"}})
    assert found.python("") == ".venv"
    found.take({"nki-lab": {"python": 7}})
    assert not found.python("")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, Hints()),
        ({"hints": {"bytes": True, "shapes": False}}, Hints(shapes=False, bytes=True)),
        ({"hints.trips": True}, Hints(trips=True)),
        ({"nki-lab": {"hints": {"cost": True}}}, Hints(cost=True)),
        ({"nki-lab.hints.cost": True}, Hints(cost=True)),
        ({"hints": {"bytes": "yes", "more": 3}}, Hints()),
        ({"hints": [True]}, Hints()),
        ("hints", Hints()),
    ],
)
def test_hints_are_asked_for_one_by_one(given: object, wanted: Hints) -> None:
    found = settings()
    found.take(given)
    assert found.hints("") == wanted
