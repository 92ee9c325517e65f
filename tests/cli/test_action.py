"""The GitHub action and the hooks of pre-commit: their commands are run as the files have them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")
BASH = shutil.which("bash")
BAD = "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef k(x):\n    return nl.exq(x)\n"
GOOD = "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef k(x):\n    return nl.exp(x)\n"


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def evaluated(text: str, context: dict[str, str]) -> str:
    """A text with its expressions: names, and alternatives of names."""

    def value(found: re.Match[str]) -> str:
        return next((context[name] for name in found[1].split(" || ") if context[name]), "")

    return EXPRESSION.sub(value, text)


def run(
    step: dict[str, Any], folder: Path, programs: Path | None = None, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """What a step does with some inputs; `programs` come first on the path."""
    context = {f"inputs.{name}": entry["default"] for name, entry in action()["inputs"].items()}
    context |= {f"inputs.{name}": text for name, text in inputs.items()} | {"github.action_path": str(ROOT)}
    own = {name: evaluated(text, context) for name, text in step["env"].items()}
    path = os.pathsep.join(
        [*([str(programs)] if programs else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    environment = os.environ | own | {"PATH": path, "PYTHONPATH": str(ROOT)}
    assert BASH is not None
    # As GitHub starts bash.
    command = [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the command `nki-lab` of this checkout."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "nki-lab"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nki_lab "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "bad.py").write_text(BAD, encoding="utf-8")
    (folder / "good.py").write_text(GOOD, encoding="utf-8")
    return folder


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in action()["runs"]["steps"]}


def test_the_action_is_one_that_github_takes() -> None:
    told = action()
    assert {"name", "description", "inputs", "outputs", "runs"} <= told.keys()
    assert told["runs"]["using"] == "composite"
    for entry in told["inputs"].values():
        assert entry.keys() == {"description", "default"}
        assert isinstance(entry["default"], str)
    for step in told["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert ("shell" in step) == ("run" in step)
        # An input inside a script would be a command of whoever writes it.
        assert not EXPRESSION.search(step.get("run", ""))
    named = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert named == told["inputs"].keys()


def test_a_project_is_checked_and_reported(project: Path, programs: Path) -> None:
    done = run(steps()["Check kernels"], project, programs)
    assert done.returncode == 1, done.stderr
    assert any(line.startswith("::error file=bad.py,line=7") for line in done.stdout.splitlines())
    (log,) = json.loads((project / "nki-lab.sarif").read_text(encoding="utf-8"))["runs"]
    assert [item["ruleId"] for item in log["results"] if item["level"] == "error"] == ["NKI006"]


def test_inputs_reach_the_command_as_arguments(project: Path, programs: Path) -> None:
    (project / "two words").mkdir()
    (project / "two words" / "-k.py").write_text(GOOD, encoding="utf-8")
    inputs = {
        "paths": "good.py\ntwo words\n",
        "target": "trn1",
        "arguments": "--ignore=NKI121",
        "sarif": "out it.sarif",
    }
    done = run(steps()["Check kernels"], project, programs, **inputs)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
    assert json.loads((project / "out it.sarif").read_text(encoding="utf-8"))["runs"][0]["results"] == []


@pytest.mark.parametrize("name", ["paths", "target", "arguments", "sarif"])
def test_no_input_is_a_command(project: Path, programs: Path, name: str) -> None:
    run(steps()["Check kernels"], project, programs, **{name: '$(touch seen); touch seen `touch seen`\n"; touch seen'})
    assert not (project / "seen").exists()


def test_findings_are_uploaded_on_request_and_after_a_failure() -> None:
    step = steps()["Upload findings"]
    assert step["uses"].startswith("github/codeql-action/upload-sarif@")
    assert step["if"] == "${{ !cancelled() && inputs.upload == 'true' }}"
    assert action()["inputs"]["upload"]["default"] == "false"


@pytest.mark.slow
def test_the_action_installs_its_own_revision(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip: no isolation, with the hatchling of this environment
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    made = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    (packages,) = made.glob("lib/python*/site-packages")
    outer = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "outer.pth").write_text(f"{outer}\n", encoding="utf-8")
    done = run(steps()["Install nki-lab"], tmp_path, made / "bin")
    assert done.returncode == 0, done.stderr
    assert (packages / "nki_lab" / "cli").is_dir()
    assert (packages / "nki-stubs" / "py.typed").is_file()
    done = run(steps()["Check kernels"], project, made / "bin", paths="good.py")
    assert done.returncode == 0, done.stderr


def hooks() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return {hook["id"]: hook for hook in found}


def test_hooks_report_and_mend(project: Path, programs: Path) -> None:
    (project / "old.py").write_text(GOOD.replace("exp(x)", "exp(x, nl.tile_size.psum_fmax)"), encoding="utf-8")
    for name, hook in hooks().items():
        assert {"name", "description", "entry", "language"} <= hook.keys(), name
        command = f"{hook['entry']} bad.py old.py"
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        done = subprocess.run(
            command, shell=True, cwd=project, env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 1, (name, done.stderr)
        assert "NKI006" in done.stdout + done.stderr
    assert "psum_bank_fmax" in (project / "old.py").read_text(encoding="utf-8")
    assert (project / "bad.py").read_text(encoding="utf-8") == BAD
