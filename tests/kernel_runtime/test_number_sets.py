"""Columns of numbers as sets are those of NumPy, whose masked arrays a run and its view leave out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.number_sets import distinct, equal_columns, in_both, ranked

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NUMBERS = st.lists(st.integers(0, 6), max_size=30)
KINDS = st.sampled_from([np.int64, np.uint32, np.uint8])


@given(NUMBERS, NUMBERS, KINDS)
def test_sets_are_those_of_numpy(one: list[int], other: list[int], kind: type[np.integer]) -> None:
    first, second = np.array(one, kind), np.array(other, kind)
    assert distinct(first).tolist() == np.unique(first).tolist()
    assert in_both(first, second).tolist() == np.intersect1d(first, second).tolist()
    found, place = ranked(first)
    assert found.dtype == kind
    assert (found.tolist(), place.tolist()) == tuple(part.tolist() for part in np.unique(first, return_inverse=True))


@given(st.lists(st.tuples(*[st.integers(-1, 2)] * 3), max_size=30))
def test_equal_columns_have_one_number(columns: list[tuple[int, ...]]) -> None:
    first, group = equal_columns(np.array(columns, np.int64).reshape(-1, 3).T)
    assert [columns[one] for one in first.tolist()] == sorted(set(columns))
    assert [columns.index(columns[one]) for one in first.tolist()] == first.tolist()
    assert [columns[first[number]] for number in group.tolist()] == columns


@pytest.mark.parametrize("kernel", ["chain, x, 20", "matmul, m, m"])
def test_a_run_and_its_view_do_not_load_masked_arrays(kernel: str) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import ml_dtypes, numpy as np, nki_lab
nki_lab.activate()
import kernels
x, m = np.ones((128, 512), np.float32), np.ones((512, 512), ml_dtypes.bfloat16)
name, *arguments = {", ".join(f"kernels.{part}" if not at else part for at, part in enumerate(kernel.split(", ")))}
run = nki_lab.run(name, *arguments, target="trn2")
run._repr_mimebundle_()
print(str(run), run.report())
assert "numpy.ma" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
