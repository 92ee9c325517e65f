"""Tensors that no memory holds are refused before anything is allocated, by a code of their own."""

from __future__ import annotations

import resource
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.numerics import machine_memory
from nki_lab.kernel_runtime.numerics.machine_memory import free_bytes

SIDE = 160_000  # 95 GiB of float32


@nki.jit
def large(x: Any, side: int) -> Any:
    out = nl.ndarray((side, side), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out[0:128, 0:512], src=tile)
    return out


def codes_of(error: NkiError) -> list[str]:
    return [item.code for item in error.diagnostics]


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize(("target", "gib"), [("trn1", 32), ("trn2", 96), ("trn3", 144)])
def test_a_tensor_up_to_the_hbm_of_the_chip_is_allocated_and_a_larger_one_refused(target: str, gib: int) -> None:
    assert TARGETS[target].hbm_bytes == gib << 30
    before = peak()
    text = f"""
import nki, nki.language as nl
@nki.jit
def kernel():
    t = nl.ndarray(({gib}, 1 << 28), nl.float32, buffer=nl.shared_hbm)
    u = nl.ndarray(({gib} + 1, 1 << 28), nl.float32, buffer=nl.shared_hbm)
    return t
"""
    found = [
        item for item in nki_lab.check(source=text, function="kernel", args=[], target=target) if item.code[3] == "3"
    ]
    assert [(item.code, item.line, item.outcome) for item in found] == [("NKI320", 6, "fault")]
    assert found[0].message == f"({gib + 1}, 268435456) float32 needs {gib + 1}.0 GiB, a chip has {gib} GiB of HBM"
    assert peak() - before < 200


def test_an_argument_larger_than_hbm_is_refused_by_run_and_check() -> None:
    huge = nki_lab.spec((10**7, 10**7), "float32")
    with pytest.raises(NkiError) as caught:
        nki_lab.profile(large, huge, 128)
    assert codes_of(caught.value) == ["NKI320"]
    assert "NKI320" in {item.code for item in nki_lab.check(function=large, args=[huge, 128])}


def test_a_run_that_needs_more_memory_than_there_is_ends_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "free_bytes", lambda: 16 << 30)
    before = peak()
    with pytest.raises(NkiError, match=r"need 95\.4 GiB, 16\.0 GiB are free") as caught:
        nki_lab.run(large, np.zeros((128, 512), np.float32), SIDE, target="trn3")
    assert codes_of(caught.value) == ["NKI035"]
    assert isinstance(caught.value, MemoryError)
    assert peak() - before < 200


def test_times_need_no_memory_for_values() -> None:
    before = peak()
    nki_lab.profile(large, nki_lab.spec((128, 512), "float32"), SIDE, target="trn3")
    assert peak() - before < 300


def test_memory_that_ends_during_a_run_is_the_same_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: Any) -> None:
        raise MemoryError("Unable to allocate 1 PiB")

    monkeypatch.setattr("nki_lab.kernel_runtime.numerics.executor.require_memory", ends)
    with pytest.raises(NkiError) as caught:
        nki_lab.run(large, np.zeros((128, 512), np.float32), 1024)
    assert codes_of(caught.value) == ["NKI035"]


def test_the_free_memory_is_some_and_not_more_than_there_is() -> None:
    assert 1 << 20 < free_bytes() < 1 << 50


@pytest.mark.parametrize("bounds", ["10**20", "0, 2**31", "-2**31 - 1, 0", "0, 10, 2**31"])
def test_a_device_loop_counts_in_32_bits(bounds: str) -> None:
    text = f"""
import nki, nki.language as nl
@nki.jit
def kernel():
    for i in nl.dynamic_range({bounds}):
        pass
"""
    found = nki_lab.check(source=text, function="kernel", args=[])
    assert "NKI116" in {item.code for item in found}
    assert "NKI901" not in {item.code for item in found}
