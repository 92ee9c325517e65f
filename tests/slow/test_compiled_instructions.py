"""Instructions as machine code: the same bits as NumPy's. These tests need `nki-lab[fast]`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.isa.alu import ALU
from nki_lab.isa.ops import random, scan
from nki_lab.kernel_runtime import compiled_code
from tests.isa.ops.test_same_bits import drawn, same_bits
from tests.machine_code import compiled_into

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep machine code apart from that of the user."""
    with compiled_into(tmp_path_factory.mktemp("cache")):
        yield


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", ["numbers", "zeros", "odd"])
@pytest.mark.parametrize("columns", [1, 5, 300])
def test_recurrences_have_the_same_bits(case: str, columns: int) -> None:
    assert scan._COMPILED.function.get() is not None
    left, right = drawn(case, 33, columns), drawn(case, 33, columns)[::-1]
    start = drawn(case, 33, 1)[:, 0]
    names = ("add", "subtract", "multiply")
    for first, second, *swapped in itertools.product(names, names, (False, True), (False, True)):
        given: Any = (ALU[first], ALU[second], left, right, start, tuple(swapped))
        same_bits(scan._states(*given), scan._by_columns(*given))


@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize("count", [1, 4, 5, 129])
def test_random_numbers_and_what_they_leave_are_the_same(streams: int, count: int) -> None:
    assert random._COMPILED.function.get() is not None
    words = np.random.default_rng(0).integers(0, 2**32, (40, streams * 6), np.uint32)[4:36].reshape(32, streams, 6)
    plain = words.copy()
    same_bits(random._numbers(words, count), random._by_steps(plain, count))
    same_bits(words, plain)


def test_a_kernel_that_changes_over_in_the_middle_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        tile, noise, state = (nl.ndarray((128, 64), nl.float32) for _ in range(3))
        nisa.dma_copy(tile, a)
        for _ in range(30):
            nisa.dropout(noise, tile, 0.5)
            nisa.tensor_tensor_scan(state, noise, tile, 0.5, nl.multiply, nl.add)
            nisa.tensor_scalar(tile, state, nl.multiply, 0.25)
        nisa.dma_copy(out, tile)
        return out

    a = np.random.default_rng(0).random((128, 64), np.float32)
    results = []
    for enough in (np.inf, 1e-4):
        for module in (scan, random):
            late = compiled_code.WhenWorthwhile(compiled_code.CompiledFunction(module._COMPILED.function.function))
            late._enough = enough
            monkeypatch.setattr(module, "_COMPILED", late)
            for price in ("_READ", "_COMPILE"):
                monkeypatch.setattr(compiled_code, price, 1e-4)
        results.append(nki_lab.run(kernel, a, target="trn2").outputs[0])
        assert scan._COMPILED.function.is_made == random._COMPILED.function.is_made == (enough < 1)
    assert np.isfinite(results[0]).all()
    same_bits(*results)
