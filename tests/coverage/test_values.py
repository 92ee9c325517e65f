"""Names that are no instructions give what NumPy does, or what the inventory says they are."""

from __future__ import annotations

import linecache
import math
import textwrap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from tests.coverage.inventory import inventory, values

HEAD = """
import nki
import nki.collectives as ncc
import nki.experimental
import nki.isa as nisa
import nki.language as nl
import nki.meta.tensor
import nki.typing
import numpy as np


class Settings(nl.NKIObject):
    size: int = 1
    name: str = ""


def helper(y):
    result = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(result, nl.multiply(nl.load(y), 2.0))
    return result


SIMULATED = nki.simulate(helper)(np.ones((4, 4), np.float32)).tolist()


def kernel(x, y, m, n):
    t, s, i, j = nl.load(x), nl.load(y), nl.load(m), nl.load(n)
"""
V = np.linspace(-2.0, 1.875, 32, dtype=np.float32).reshape(4, 8)
W = np.abs(V[::-1] + np.float32(0.3))
A = np.arange(32, dtype=np.int32).reshape(4, 8)
B = A[::-1] % 5
SPACE = {"np": np, "math": math, "ml_dtypes": ml_dtypes, "v": V, "w": W, "a": A, "b": B}


def given(body: str) -> Any:
    """What a kernel with this body, or this expression, returns."""
    text = body if "return " in body else f"return {body}"
    file = f"value_{abs(hash(body))}.py"
    source = HEAD + textwrap.indent(text, "    ") + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "value"}
    exec(compile(source, file, "exec"), names)
    return nki_lab.run(names["kernel"], V, W, A, B, target="trn3").output


@pytest.mark.parametrize("name", values())
def test_it_gives_what_it_should(name: str) -> None:
    body, result = values()[name]
    wanted = eval(result, dict(SPACE))
    got = given(body)
    if isinstance(got, np.ndarray):
        numbers = np.asarray(wanted, np.float64)
        np.testing.assert_allclose(got.astype(np.float64), numbers, rtol=5e-6, atol=2e-6)
        assert got.shape == numbers.shape
    else:
        assert got == wanted


def test_every_name_is_of_the_inventory() -> None:
    assert set(values()) <= {item["qualname"] for item in inventory()["items"]}
