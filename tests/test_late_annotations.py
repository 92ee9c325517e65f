"""Annotations may have names that are there for type checkers only: Python 3.14 evaluates them when somebody asks."""

from __future__ import annotations

import inspect
import sys
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab import cli
from nki_lab.late_annotations import annotations_of, signature_of
from tests.verdicts import loaded

HEADS = ["from __future__ import annotations\n"]
if sys.version_info >= (3, 14):
    HEADS.append("")
TEXT = """import typing
import nki
import nki.isa as nisa
import nki.language as nl

if typing.TYPE_CHECKING:
    from torch import Tensor


class Scale(nl.NKIObject):
    factor: float
    source: Tensor
    rows: int = 128


@nki.jit
def kernel(x: Tensor, factor: float = 2.0) -> Tensor:
    scale = Scale(factor=factor, source=x)
    tile = nl.ndarray((scale.rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=scale.source)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale.factor)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def copied(x: Tensor, columns: int) -> Tensor:
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[:, 0:columns]))
    return out
"""


@pytest.fixture(params=HEADS, ids=["text", "late"][: len(HEADS)])
def module(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "annotated.py"
    path.write_text(request.param + TEXT, encoding="utf-8")
    return loaded(path)


def test_names_for_type_checkers_hinder_no_run(module: Any) -> None:
    x = np.ones((128, 64), np.float32)
    np.testing.assert_array_equal(module.kernel(x), 2 * x)
    np.testing.assert_array_equal(nki_lab.run(module.kernel, x, factor=3.0).output, 3 * x)
    assert [item.code for item in nki_lab.check(module.__file__)] == ["NKI121"]
    assert nki_lab.sweep(module.copied, {"columns": [32, 64]}, args=["float32[128,64]"], workers=2).failures == []


def test_a_kernel_tells_its_annotations_as_texts(module: Any) -> None:
    assert module.kernel.__annotations__ == {"x": "Tensor", "factor": "float", "return": "Tensor"}
    assert list(inspect.signature(module.kernel).parameters) == ["x", "factor"]
    assert signature_of(module.kernel.function).parameters["factor"].default == 2.0
    assert annotations_of(module.Scale) == {"factor": "float", "source": "Tensor", "rows": "int"}


def test_the_command_line_names_missing_arguments(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", f"{module.__file__}::kernel"]) == 1
    assert "--arg x=" in capsys.readouterr().err


def test_known_annotations_are_given_as_they_are() -> None:
    def function(a: int, b: "list[int]") -> typing.Any: ...  # noqa: UP037

    assert annotations_of(function) == function.__annotations__
