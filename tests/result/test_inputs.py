"""Values for shapes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.result.inputs import NAMES, maker


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e4m3"])
def test_every_kind_fills_every_dtype(name: str, dtype: str) -> None:
    made = maker(name)(spec((4, 8), dtype))
    assert made.shape == (4, 8)
    assert made.dtype == np.dtype(DTYPES[dtype].host)
    assert np.isfinite(made.astype(np.float64)).all()


def test_equal_seeds_give_equal_arrays_and_each_array_is_new() -> None:
    one, two, other = maker("randn(seed=3)"), maker("randn(3)"), maker("randn")
    where = TensorSpec((16, 16), DTYPES["float32"])
    first, second = one(where), one(where)
    assert (first == two(where)).all()
    assert (first != second).any()
    assert (first != other(where)).any()


def test_integers_are_small_and_of_both_signs_where_there_are_both() -> None:
    signed, unsigned = (maker("randn")(spec((64, 64), kind)) for kind in ("int8", "uint8"))
    assert signed.min() < 0 < signed.max() <= 8
    assert unsigned.min() == 0


def test_plain_values_are_what_they_are_called() -> None:
    where = spec((2, 3), "bfloat16")
    assert maker("arange")(where).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert maker("ones")(where).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("text", ["", "rand", "randn(seed=1.5)", "randn(True)", "np.ones", "randn(1, 2)", "x" * 9999])
def test_anything_else_is_a_coded_error(text: str) -> None:
    with pytest.raises(NkiError, match="NKI012"):
        maker(text)
