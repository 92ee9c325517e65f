"""Launch grids: instances run one after the other over the same tensors in shared HBM."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.beta1 import grid_sizes
from nki_lab.kernel_runtime.beta1.launch import nc, spmd_dim


def test_every_instance_writes_its_part(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        scratch = nl.ndarray((8, 4), a.dtype, buffer=nl.private_hbm)
        i, j = nl.program_id(0), nl.program_id(1)
        assert (nl.num_programs(), nl.num_programs(0), nl.num_programs((0, 1)), nl.program_ndim()) == (6, 3, 6, 2)
        nl.store(scratch, nl.load(a[i, j]) * 2.0)
        nl.store(out[i, j], nl.load(scratch))
        return out

    source = np.random.default_rng(0).normal(size=(3, 2, 8, 4)).astype(np.float32)
    done = execute(kernel, source, grid=(3, 2))
    np.testing.assert_array_equal(done.outputs, source * 2)
    spaces = [str(buffer.space) for buffer in done.program.buffers if not buffer.on_chip]
    assert spaces.count("private_hbm") == 6
    assert spaces.count("shared_hbm") == 2  # the input and one output


def test_program_ids_take_part_in_index_expressions(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i_p = nl.program_id(0) * 8 + nl.arange(8)[:, None]
        i_f = nl.program_id(1) * 4 + nl.arange(4)[None, :]
        inside = (i_p < a.shape[0]) & (i_f < a.shape[1])
        nl.store(out[i_p, i_f], nl.exp(nl.load(a[i_p, i_f], mask=inside), mask=inside), mask=inside)
        return out

    source = np.random.default_rng(0).normal(size=(21, 7)).astype(np.float32)
    np.testing.assert_allclose(execute(kernel, source, grid=(3, 2)).outputs, np.exp(source), rtol=1e-6)


def test_without_a_grid_there_is_one_instance(execute: Any) -> None:
    def kernel(a: Any) -> None:
        assert (nl.program_id(0), nl.num_programs(), nl.program_ndim()) == (0, 1, 0)

    execute(kernel, np.ones((1, 1), np.float32))


def test_instances_that_allocate_otherwise_are_refused(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        return nl.ndarray((4 + nl.program_id(0), 4), a.dtype, buffer=nl.shared_hbm)

    with pytest.raises(NkiError, match=r"NKI016 instance \(1,\)"):
        execute(kernel, np.ones((1, 1), np.float32), grid=(2,))


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        (4, (4,)),
        ((4, 2), (4, 2)),
        (nc(2), (2,)),
        ((spmd_dim(nc(2), 2), 2), (4, 2)),
        ((nc(2) * 2, 3 * nc(2)), (4, 6)),
        (0, (1,)),
        ([4][0], (4,)),
    ],
)
def test_grids_are_sizes(grid: Any, sizes: tuple[int, ...]) -> None:
    assert grid_sizes(grid) == sizes


@pytest.mark.parametrize("grid", [-1, 1.5, "2", (2, None)])
def test_what_is_no_grid_is_refused(grid: Any) -> None:
    with pytest.raises(NkiError, match="NKI016"):
        grid_sizes(grid)


def test_the_core_of_an_instance_is_its_nc_factor() -> None:
    outer, inner = spmd_dim(nc(2), 2), spmd_dim(2, nc(2))
    assert [outer.core(i) for i in range(4)] == [0, 0, 1, 1]
    assert [inner.core(i) for i in range(4)] == [0, 1, 0, 1]
    assert [(nc(2) * 2).core(i) for i in range(4)] == [0, 0, 1, 1]
    assert [(2 * nc(2)).core(i) for i in range(4)] == [0, 1, 0, 1]
