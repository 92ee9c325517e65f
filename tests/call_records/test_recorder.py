"""Calls of this process, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import neuronxcc.nki as beta1
import neuronxcc.nki.language as beta1_nl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.call_records import recorder as recorders
from nki_lab.call_records.choices import choices
from nki_lab.call_records.recorder import recorder
from nki_lab.diagnostic import NkiError


def filled(x, factor):  # type: ignore[no-untyped-def]
    factor = factor + 1.0
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=factor)
    return tile


def consumed(x, sizes):  # type: ignore[no-untyped-def]
    rows = sizes.pop()
    tile = nl.ndarray((rows, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return tile


def looped(x, count):  # type: ignore[no-untyped-def]
    tile = None
    for number in range(3):
        if number == 2:
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.memset(dst=tile, value=float(count))
        count = count + 1
    return tile


@nki.jit
def inner(x):  # type: ignore[no-untyped-def]
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


@nki.jit
def kernel(x):  # type: ignore[no-untyped-def]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    filled(x, 1.0)
    consumed(x, [4, 8])
    looped(x, 5)
    nisa.dma_copy(dst=out, src=inner(x))
    return out


@beta1.jit
def older(x):  # type: ignore[no-untyped-def]
    out = beta1_nl.ndarray(x.shape, dtype=x.dtype, buffer=beta1_nl.shared_hbm)
    beta1_nl.store(out, beta1_nl.load(x))
    return out


@pytest.fixture
def recording() -> Iterator[None]:
    """Record calls in memory."""
    choices.session = True
    recorder.forget()
    yield
    choices.session = False
    recorder.forget()


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_nothing_is_recorded_unless_something_asks_for_it() -> None:
    recorder.forget()
    assert not kernel.prepared().records
    kernel(ones(128, 8))
    assert not recorder.calls("kernel")


@pytest.mark.usefixtures("recording")
def test_launches_and_inner_calls_are_told_apart() -> None:
    kernel(ones(128, 8))
    (launch,) = recorder.calls("kernel")
    (call,) = recorder.calls("inner")
    assert launch.arguments == call.arguments == {"x": {"tensor": "float32[128,8]"}}
    assert not launch.inner
    assert call.inner


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize(("name", "parameter"), [("filled", "factor"), ("consumed", "sizes"), ("looped", "count")])
def test_an_argument_that_may_have_changed_is_unknown(name: str, parameter: str) -> None:
    kernel(ones(128, 8))
    (call,) = recorder.calls(name)
    assert call.arguments == {"x": {"tensor": "float32[128,8]"}, parameter: {"unknown": "changed"}}


@pytest.mark.usefixtures("recording")
def test_calls_that_end_in_a_fault_are_not_recorded() -> None:
    with pytest.raises(NkiError):
        kernel(ones(256, 8))
    assert nki_lab.run(kernel, ones(256, 8), on_error="report").error is not None
    assert not recorder.calls("kernel")
    assert not recorder.calls("filled")


@pytest.mark.usefixtures("recording")
def test_entry_points_of_beta_1_record() -> None:
    beta1.simulate_kernel(older, ones(128, 8))
    beta1.baremetal(older.function)(ones(64, 8))
    older[1](ones(32, 8))
    tensors = [item.arguments["x"]["tensor"] for item in recorder.calls("older")]
    assert tensors == ["float32[32,8]", "float32[64,8]", "float32[128,8]"]


@pytest.mark.usefixtures("recording")
def test_compiling_and_ranks_record() -> None:
    nki_lab.compile(kernel, nki_lab.spec((64, 8), "bfloat16"))
    nki_lab.run_ranks(kernel, [ones(32, 8), ones(16, 8)])
    assert {item.arguments["x"]["tensor"] for item in recorder.calls("kernel")} == {
        "bfloat16[64,8]",
        "float32[32,8]",
        "float32[16,8]",
    }


@pytest.mark.usefixtures("recording")
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "MOST_CALLS", 3)
    for columns in range(1, 6):
        older(ones(8, columns))
    assert len(recorder.calls("older")) == 3
