"""Calls of types seen before are recorded as the first one was."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lab import session
from nki_lab.kernel_runtime.beta1 import instructions

X = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)


def products(a: Any) -> Any:
    """Fresh results, accumulations, and results that are cast from PSUM."""
    out = nl.ndarray((64, 96), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    total = nl.zeros((64, 96), nl.float32, buffer=nl.psum)
    for k in range(4):
        total += nisa.nc_matmul(tile[:, 0:64], tile)
        cast = nisa.nc_matmul(tile[:, k : k + 64], tile, dtype=nl.bfloat16)
        tile[...] = nisa.tensor_tensor(tile, cast, op=nl.add)
    nl.store(out, nl.copy(total))
    return out


def scalars(a: Any) -> Any:
    """Numbers that are equal and not the same, tiles given twice and not, columns of other dtypes."""
    out = nl.ndarray((64, 96), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for number in (0.0, -0.0, 0, 1, 1.0, True, 0.0, -0.0):
        tile = nisa.tensor_scalar(tile, np.multiply, number, op1=np.add, operand1=tile[:, 0:1])
    for other in (tile, nl.load(a), nl.load(a), tile):
        tile = nisa.tensor_tensor(tile, other, op=nl.subtract)
        low = nisa.tensor_copy(other[:, 0:1], dtype=nl.bfloat16)
        tile = nisa.activation(op=nl.exp, data=tile, bias=low)
        wide = nisa.tensor_tensor(tile, other[:, 0:1], op=np.add)
        tile = nisa.tensor_tensor(wide, tile, op=np.maximum, dtype=nl.float32)
    nl.store(out, tile)
    return out


def masked(a: Any) -> Any:
    """Masks, in between calls without one."""
    out = nl.ndarray((64, 96), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    i_p, i_f = nl.mgrid[0:64, 0:96]
    for limit in (96, 50, 96, 20):
        more = nisa.tensor_scalar(tile[i_p, i_f], np.add, 1.0, mask=i_f < limit)
        tile[i_p, i_f] = nisa.tensor_copy(more[i_p, i_f], mask=i_f < limit)
        tile[...] = nisa.tensor_scalar(tile, np.add, 1.0)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("kernel", [products, scalars, masked])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_plans_change_nothing(kernel: Any, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for planning in (True, False):
        if not planning:
            monkeypatch.setattr(instructions, "key_of", lambda *_: ((), []))
        made.append(session.specialise(session.Launch(kernel, target, dialect="beta1"), (X,)))
    (planned, found), (plain, expected) = made
    assert planned is not plain
    assert planned.text() == plain.text()
    assert planned.op_site == plain.op_site
    assert planned.sites == plain.sites
    assert planned.op_iteration == plain.op_iteration
    assert planned.iterations == plain.iterations
    assert found == expected
