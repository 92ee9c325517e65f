"""Workflow, citation, templates and container say what the package's metadata says."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import nki_lab


def project_of(root: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def read(root: Path, name: str) -> Any:
    return yaml.safe_load((root / name).read_text(encoding="utf-8"))


def classified(root: Path, topic: str) -> list[str]:
    texts = project_of(root)["classifiers"]
    return [text.removeprefix(f"{topic} :: ") for text in texts if text.startswith(f"{topic} :: ")]


def test_the_matrix_has_the_systems_and_pythons_of_the_classifiers(root: Path) -> None:
    matrix = read(root, ".github/workflows/test.yml")["jobs"]["core"]["strategy"]["matrix"]
    versions = [text for text in classified(root, "Programming Language :: Python") if re.fullmatch(r"3\.\d+", text)]
    assert matrix["python"] == versions
    assert project_of(root)["requires-python"] == f">={versions[0]}"
    systems = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}
    assert [systems[name.partition("-")[0]] for name in sorted(matrix["os"])] == [
        systems[name] for name in ("macos", "ubuntu", "windows")
    ]
    assert set(classified(root, "Operating System")) == set(systems.values())


def test_every_workflow_runs_what_there_is(root: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = sorted((root / ".github" / "workflows").glob("*.yml"))
    assert len(found) > 1
    for file in found:
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
        steps = [step for job in jobs.values() for step in job["steps"]]
        commands = "\n".join(step["run"] for step in steps if "run" in step)
        assert set(re.findall(r"\bmake ([a-z][a-z-]*)", commands)) <= targets
        for path in re.findall(r"\b(?:scripts|tests|requirements)/[\w./-]+", commands):
            assert (root / path).exists(), path
        assert all(re.fullmatch(r"[\w./-]+@\S+", step["uses"]) for step in steps if "uses" in step)
        assert all("timeout-minutes" in job or "environment" in job for job in jobs.values())


def test_the_citation_names_this_version(root: Path) -> None:
    told = read(root, "CITATION.cff")
    assert told["version"] == nki_lab.__version__
    assert told["license"] == project_of(root)["license"]
    assert told["repository-code"] == project_of(root)["urls"]["Homepage"]
    assert told["keywords"] == project_of(root)["keywords"]
    assert {"cff-version", "message", "title", "authors"} <= told.keys()


def test_the_addresses_are_of_one_repository(root: Path) -> None:
    urls = project_of(root)["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())


def test_the_changelog_has_this_version_below_what_is_not_released(root: Path) -> None:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == nki_lab.__version__


def test_templates_have_the_parts_that_forms_need(root: Path) -> None:
    forms = [file for file in (root / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if file.name != "config.yml"]
    assert len(forms) > 1
    for file in forms:
        form = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= form.keys()
        identifiers = [item["id"] for item in form["body"] if item["type"] != "markdown"]
        assert len(identifiers) == len(set(identifiers))
        assert all(item["attributes"]["label"] for item in form["body"] if item["type"] != "markdown")


def test_the_container_has_a_supported_python_and_makes_an_environment(root: Path) -> None:
    told = json.loads((root / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    version = re.search(r"python:(3\.\d+)", told["image"])
    assert version is not None
    assert version[1] in classified(root, "Programming Language :: Python")
    assert "make .venv/.ready" in told["postCreateCommand"]


def test_a_release_has_written_steps(root: Path) -> None:
    text = (root / "RELEASING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([\w./-]+\.(?:py|json|cff|md|toml|yml))`", text):
        assert (root / name).exists(), name
