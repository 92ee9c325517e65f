"""What users get wrong: each a diagnostic with a code, a place, the limit and a remedy, and a process that goes on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import NkiError

X = np.ones((128, 512), np.float32)


def tile(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf, **place: Any) -> Any:
    return nl.ndarray(shape, dtype, buffer=buffer, **place)


@nki.jit
def wrong_shape(x):
    a = nl.load(x)
    nisa.tensor_tensor(dst=tile(128, 512), data1=a, data2=a[:, 0:100], op=nl.add)


@nki.jit
def wrong_dtype(x):
    a = nl.load(x)
    nisa.tensor_tensor(dst=tile(128, 512, dtype=nl.int32), data1=a, data2=a, op=nl.bitwise_and)


@nki.jit
def wrong_buffer(x):
    nisa.tensor_copy(dst=tile(128, 512), src=x)


@nki.jit
def too_many_partitions(x):
    nisa.memset(dst=tile(256, 512), value=0.0)


@nki.jit
def wide_moving(x, columns):
    a, b = tile(128, 64, dtype=nl.bfloat16), tile(128, columns, dtype=nl.bfloat16)
    nisa.memset(dst=a, value=1.0)
    nisa.memset(dst=b, value=1.0)
    nisa.nc_matmul(dst=tile(64, min(columns, 4096), buffer=nl.psum), stationary=a, moving=b)


@nki.jit
def crossing_a_bank(x):
    a = nl.load(x)
    acc = tile(128, 1024, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 256:768], stationary=a[:, 0:128], moving=a)


@nki.jit
def off_a_bank(x):
    tile(128, 256, buffer=nl.psum, address=(0, 1000))


@nki.jit
def unwritten(x):
    a = tile(128, 512)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(a, nl.load(x)))
    return out


@nki.jit
def misspelled(x):
    a = nl.load(x)
    return nl.add(aa, a)  # noqa: F821


@nki.jit
def comprehension(x):
    tiles = [nl.load(x) for _ in range(2)]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(tiles[0], tiles[1]))
    return out


@nki.jit
def wrong_keyword(x):
    nisa.memset(dst=tile(128, 512), values=0.0)


@nki.jit
def missing_argument(x):
    nisa.tensor_tensor(dst=tile(128, 512), data1=nl.load(x), op=nl.add)


@nki.jit
def out_of_bounds(x):
    nl.load(x[:, 0:513])


@nki.jit
def own_assert(x):
    assert x.shape[0] == 64, f"rows are {x.shape[0]}"


FAULTS: list[tuple[Any, tuple[Any, ...], str, str, str, str, type[Exception]]] = [
    # kernel, further arguments, target, code, source of the span, part of the message, built-in kind
    (wrong_shape, (), "trn2", "NKI203", "a[:, 0:100]", "100", AssertionError),
    (wrong_dtype, (), "trn2", "NKI202", "nl.bitwise_and", "data1 is float32", AssertionError),
    (wrong_buffer, (), "trn2", "NKI201", "x", "HBM", AssertionError),
    (too_many_partitions, (), "trn2", "NKI204", "tile(256, 512)", "256", AssertionError),
    (wide_moving, (513,), "trn1", "NKI213", "b", "513", AssertionError),
    (wide_moving, (513,), "trn2", "NKI213", "b", "513", AssertionError),
    (wide_moving, (4097,), "trn3", "NKI213", "b", "4096", AssertionError),
    (crossing_a_bank, (), "trn2", "NKI214", "acc[:, 256:768]", "1024..3072", AssertionError),
    (off_a_bank, (), "trn2", "NKI306", "", "1000", AssertionError),
    (misspelled, (), "trn2", "NKI102", "aa", "'aa'", NameError),
    (wrong_keyword, (), "trn2", "NKI002", "values", "values", TypeError),
    (missing_argument, (), "trn2", "NKI003", "", "data2", TypeError),
    (out_of_bounds, (), "trn2", "NKI303", "x[:, 0:513]", "513", IndexError),
    (own_assert, (), "trn2", "NKI007", "", "rows are 128", AssertionError),
]


@pytest.mark.parametrize(("kernel", "more", "target", "code", "source", "part", "kind"), FAULTS)
def test_a_fault_has_code_place_numbers_and_remedy(
    kernel: Any, more: Any, target: str, code: str, source: str, part: str, kind: Any
) -> None:
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel, X, *more, target=target)
    assert isinstance(caught.value, kind)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.outcome == "fault"
    assert found.severity == "error"
    assert part in found.message
    assert Path(found.file) == Path(__file__)
    text = Path(__file__).read_text().splitlines()[found.line - 1]
    assert found.end_line > found.line or text[found.column - 1 : found.end_column - 1].strip()
    if source:
        assert text[found.column - 1 : found.end_column - 1] == source
    rendered = str(caught.value)
    assert rendered.startswith(f"{code} ")
    assert f"nki-lab explain {code}" in rendered
    assert "^" in rendered
    assert np.array_equal(nki_lab.run(comprehension, X, target=target).outputs[0], 2 * X), "the process goes on"


@pytest.mark.parametrize(("columns", "target"), [(512, "trn1"), (512, "trn2"), (4096, "trn3")])
def test_the_widest_moving_tile_is_accepted(columns: int, target: str) -> None:
    assert not nki_lab.run(wide_moving, X, columns, target=target).diagnostics


def test_an_uninitialised_read_is_reported_and_gives_nan() -> None:
    run = nki_lab.run(unwritten, X, target="trn2")
    (found,) = run.diagnostics
    assert (found.code, found.outcome, found.severity) == ("NKI301", "reject", "error")
    assert "nothing has written it" in found.message
    assert np.isnan(run.outputs[0]).all()
    with pytest.raises(NkiError):
        nki_lab.run(unwritten, X, target="trn2", strict=True)


def test_syntax_outside_the_language_is_rejected_but_computed() -> None:
    run = nki_lab.run(comprehension, X, target="trn2")
    assert [item.code for item in run.diagnostics if item.severity != "information"] == ["NKI103"]
    assert np.array_equal(run.outputs[0], 2 * X)
    with pytest.raises(NkiError, match="NKI103"):
        nki_lab.run(comprehension, X, target="trn2", strict=True)


@pytest.mark.parametrize("value", [object(), ["text", "array"], np.array(["a"]), np.ones(3, np.float64), {1, 2}])
def test_arguments_of_the_wrong_kind_are_named(value: Any) -> None:
    if isinstance(value, np.ndarray):
        with pytest.raises(NkiError) as caught:
            nki_lab.run(comprehension, value, target="trn2")
        assert caught.value.diagnostics[0].code == "NKI001"
        assert "x" in caught.value.diagnostics[0].message
        return
    with pytest.raises(NkiError) as caught:
        nki_lab.run(comprehension, value, target="trn2")
    assert caught.value.diagnostics[0].code[:5] in ("NKI00", "NKI01", "NKI11")


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(NkiError, match="trn2") as caught:
        nki_lab.run(comprehension, X, target="trn22")
    assert caught.value.diagnostics[0].code == "NKI004"


def test_a_report_holds_the_fault_instead_of_raising_it() -> None:
    run = nki_lab.run(wide_moving, X, 513, target="trn2", on_error="report")
    assert [item.code for item in run.diagnostics] == ["NKI213"]
    assert run.outputs == ()


ENDLESS = {
    "python": "while True:\n        pass",
    "instructions": "while True:\n        nisa.memset(dst=a, value=0.0)",
    "numerics": "for _ in range(60_000):\n        nisa.tensor_tensor(dst=a, data1=a, data2=a, op=nl.add)",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS.keys())
def test_an_interrupt_ends_a_kernel_within_half_a_second(body: str, tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(
        textwrap.dedent("""\
        import signal, sys, threading, time
        import nki_lab
        nki_lab.activate()
        import numpy as np, nki, nki.isa as nisa, nki.language as nl

        @nki.jit
        def kernel(x):
            a = nl.load(x)
            BODY

        sent = []
        def interrupt():
            sent.append(time.perf_counter())
            signal.raise_signal(signal.SIGINT)
        threading.Timer(0.5, interrupt).start()
        try:
            nki_lab.run(kernel, np.ones((128, 512), np.float32), target="trn2")
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - sent[0])
        small = np.ones((4, 4), np.float32)
        @nki.jit
        def after(x):
            return nl.load(x)
        print(nki_lab.run(after, small, target="trn2").outputs[0].sum())
        """).replace("BODY", body)
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert second == "16.0"
    assert float(first.split()[1]) < 0.5
    assert time.perf_counter() - start < 30
