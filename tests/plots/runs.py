"""Runs to draw: example kernels, one of two cores among them, and a kernel that the compiler model changes."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nki_lab

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("k01_add", "k02_matmul", "k06_flash_attention", "k10_two_cores")


def example(name: str) -> dict[str, Any]:
    """The names of an example module."""
    return runpy.run_path(str(ROOT / "examples" / "kernels" / f"{name}.py"), run_name=name)


@cache
def profiled(name: str) -> Any:
    """The profile of the last version of an example kernel, or of "beta1"."""
    if name == "beta1":
        names = runpy.run_path(str(ROOT / "tests" / "kernels" / "beta1_matmul.py"), run_name=name)
        return nki_lab.profile(names["kernel"], *np.zeros((2, 512, 512), np.float32), target="trn2")
    names = example(name)
    specs = [nki_lab.spec(array.shape, array.dtype) for array in names["inputs"]()]
    return nki_lab.profile(names["KERNELS"][-1], *specs, target="trn2")
