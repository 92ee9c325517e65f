"""What kernels of production code need of `nki.language` beyond the documented functions."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DTYPES

PLAIN = [name for name, kind in DTYPES.items() if isinstance(kind.host, np.dtype)]


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, np.float32).astype(dtype)


# -- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_a_dtype_is_one_wherever_numpy_takes_one(name: str) -> None:
    dtype = getattr(nl, name)
    assert np.zeros((2, 3), dtype=dtype).dtype == np.dtype(dtype)
    assert np.zeros(3, dtype).itemsize == DTYPES[name].nbytes
    assert {dtype: 1}[dtype] == 1
    assert dtype in (nl.float32, nl.bfloat16, dtype)


@pytest.mark.parametrize("name", PLAIN)
def test_a_dtype_converts_and_compares(name: str) -> None:
    dtype = getattr(nl, name)
    array = np.ones(4, np.float32).astype(dtype)
    assert dtype == array.dtype
    assert array.dtype == dtype
    assert dtype in (nl.int8, array.dtype)
    assert hash(dtype) == hash(array.dtype)


def test_dtypes_are_called_by_their_bare_names() -> None:
    names = []

    @nki.jit
    def kernel(a):
        names.append(str(a.dtype))
        return a

    for name in ("bfloat16", "float8_e4m3", "float32"):
        assert str(getattr(nl, name)) == name
        kernel(ones(4, 3, dtype=getattr(nl, name)))
    assert names == ["bfloat16", "float8_e4m3", "float32"]


@pytest.mark.parametrize(("name", "width"), [("float8_e5m2_x4", 4), ("float8_e4m3fn_x4", 4), ("float4_e2m1fn_x4", 2)])
def test_packed_dtypes_have_a_host_dtype_with_their_name(name: str, width: int) -> None:
    host = np.dtype(getattr(nl, name))
    assert host.itemsize == width
    assert name in str(host)


# -- NKIObject --------------------------------------------------------------------------------------------------------


class Bare(nl.NKIObject):
    rows: int
    columns: int = 4
    scale = 2.0


@dataclasses.dataclass
class Dressed(nl.NKIObject):
    rows: int
    columns: int = 4
    scale = 2.0


@dataclasses.dataclass(frozen=True)
class Frozen(nl.NKIObject):
    rows: int
    columns: int = 4


class Checked(nl.NKIObject):
    rows: int

    def __post_init__(self):
        self.doubled = 2 * self.rows

    def __call__(self, x):
        return x * self.rows

    @staticmethod
    def of(rows):
        return Checked(rows=rows)


@pytest.mark.parametrize("kind", [Bare, Dressed])
def test_an_nki_object_is_made_from_its_fields(kind: Any) -> None:
    made = kind(rows=2, scale=3.0)
    assert (made.rows, made.columns, made.scale) == (2, 4, 3.0)
    assert kind().rows is None
    assert kind(5).rows == 5


def test_a_frozen_nki_object_can_be_made_and_not_changed() -> None:
    made = Frozen(rows=2)
    assert (made.rows, made.columns) == (2, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rows = 3  # type: ignore[misc]


def test_an_nki_object_runs_its_own_methods() -> None:
    made = Checked.of(3)
    assert (made.doubled, made(2)) == (6, 6)


def test_nki_objects_reach_a_kernel_with_tensors_in_them() -> None:
    class Pair(nl.NKIObject):
        left: Any
        right: Any
        scale: float = 1.0

    @nki.jit
    def kernel(pair):
        out = nl.ndarray(pair.left.shape, dtype=pair.left.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.add(nl.load(pair.left), nl.load(pair.right)), pair.scale))
        return out

    assert (kernel(Pair(left=ones(4, 3), right=ones(4, 3), scale=3.0)) == 6).all()


# -- tensors ----------------------------------------------------------------------------------------------------------


def test_a_tensor_tells_what_kernels_ask_of_it() -> None:
    seen = []

    @nki.jit
    def kernel(a):
        tile = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf, name="tile", address=(0, 256))
        seen.append(
            (tile.shape, tile.dtype == nl.bfloat16, tile.buffer == nl.sbuf, tile.buffer == "sbuf", tile.name,
             tile.address, tile.strides, tile.offset, tile.ndim, tile.size)
        )  # fmt: skip
        seen.append((a.name, a.buffer == nl.hbm, a.shape == [4, 3], a.shape == (4, 3)))
        return a

    kernel(ones(4, 3))
    assert seen == [
        ((128, 64), True, True, True, "tile", (0, 256), (64, 1), 0, 2, 8192),
        ("a", True, True, True),
    ]


def test_a_buffer_given_as_a_string_is_refused() -> None:
    @nki.jit
    def kernel(a):
        nl.ndarray((4, 4), dtype=nl.float32, buffer="sbuf")

    with pytest.raises(TypeError, match=r"(?s)NKI311.*write buffer=nl.sbuf"):
        kernel(ones(4, 3))


def test_tile_sizes_have_the_names_that_kernels_read() -> None:
    for name in ("pmax", "psum_fmax", "gemm_stationary_fmax", "gemm_moving_fmax", "sbuf_fmax_bytes",
                 "total_available_sbuf_size"):  # fmt: skip
        assert getattr(nl.tile_size, name) > 0


# -- values the documentation forbids but kernels pass ----------------------------------------------------------------


def test_integers_for_descriptor_modes_are_accepted_with_a_warning() -> None:
    @nki.jit
    def kernel(a, mode):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a, dge_mode=mode)
        nisa.dma_copy(dst=out, src=tile)
        return out

    for mode in (0, 3):
        done = kernel.execute((ones(4, 3), mode), {}, target="trn2")
        assert (done.outputs == 1).all()
        assert [(item.code, item.outcome) for item in done.diagnostics] == [("NKI606", "advice")]


def test_the_keywords_that_stubs_lack_are_accepted_with_a_warning() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(tile, nl.load(a), dtype=nl.bfloat16)
        nisa.dma_copy(dst=out, src=tile)
        return out

    done = kernel.execute((ones(4, 3),), {}, target="trn2")
    assert done.outputs.dtype == ml_dtypes.bfloat16
    assert [item.code for item in done.diagnostics] == ["NKI604"]


def test_outputs_in_plain_hbm_are_returned_with_a_warning() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
        nl.store(out, nl.load(a))
        return out

    done = kernel.execute((ones(4, 3),), {})
    assert (done.outputs == 1).all()
    assert [(item.code, item.severity) for item in done.diagnostics] == [("NKI607", "warning")]


def test_helpers_shared_with_the_host_find_no_launch_grid_there() -> None:
    assert nl.program_ndim() == 0
    with pytest.raises(NkiError, match="NKI005"):
        nl.num_programs()
