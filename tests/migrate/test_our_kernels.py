"""The kernels of Beta 1 in this repository migrate whole, and return what they returned."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import nki_lab
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from tests.migrate.migrating import compared, migrate, specs

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "tests/kernels").glob("beta1_*.py"))


def arguments_of(file: Path) -> dict[str, object]:
    nki_lab.activate()
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    given: tuple[TensorSpec, ...] = module.ARGUMENTS
    return dict(zip(inspect.signature(module.kernel).parameters, given, strict=True))


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_a_kernel_migrates_whole(file: Path) -> None:
    text, arguments = file.read_text(encoding="utf-8"), arguments_of(file)
    done = migrate(text, arguments)
    assert not done.findings and "neuronxcc" not in done.text
    (verdict,) = compared(text, done, arguments)
    assert verdict.outcome == "equal", verdict.text


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_a_kernel_without_shapes_migrates_to_one_that_does_the_same(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    done = migrate(text)
    assert not done.findings
    (verdict,) = compared(text, done, arguments_of(file))
    assert verdict.outcome == "equal", verdict.text


def test_the_kernel_of_the_readme_migrates() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [item for item in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "from neuronxcc import" in item]
    kernel = block[: block.index("a = np.ones")]
    arguments = specs(a="float32 128 512")
    done = migrate(kernel, arguments)
    assert not done.findings
    (verdict,) = compared(kernel, done, arguments)
    assert verdict.outcome == "equal", verdict.text
