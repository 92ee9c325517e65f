"""A kernel here and on an installed NKI: a stand-in package with planted differences, in real processes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_lab.crosschecks.sending import preamble

ROOT = Path(__file__).parents[2]

# A small eager NKI: tensors are arrays, instructions compute when they are called. {planted} may change results.
SDK = {
    "nki/__init__.py": """
import os
import numpy as np
from nki import isa, language
__version__ = "9.9"

class Kernel:
    def __init__(self, function, grid=None):
        self.function, self.grid = function, grid
    def __getitem__(self, grid):
        return Kernel(self.function, grid)

def jit(function):
    return Kernel(function)

def simulate(kernel):
    def run(*args, **kwargs):
        assert isinstance(kernel, Kernel)
        wrapped = [language.Tensor(item) if isinstance(item, np.ndarray) else item for item in args]
        named = {key: language.Tensor(item) if isinstance(item, np.ndarray) else item for key, item in kwargs.items()}
        result = kernel.function(*wrapped, **named)
        return result.data if isinstance(result, language.Tensor) else tuple(item.data for item in result)
    return run
""",
    "nki/language.py": """
import numpy as np
import ml_dtypes
float32, bfloat16 = np.dtype("float32"), np.dtype(ml_dtypes.bfloat16)
sbuf, shared_hbm, hbm = "sbuf", "shared_hbm", "hbm"
add, multiply = np.add, np.multiply

class Tensor:
    def __init__(self, data):
        self.data = data
        self.shape, self.dtype = data.shape, data.dtype
    def __getitem__(self, key):
        return Tensor(self.data[key])

def ndarray(shape, dtype, buffer=None):
    return Tensor(np.zeros(shape, dtype))
""",
    "nki/isa.py": """
import os
import signal
import time
import numpy as np
calls = 0

def dma_copy(dst, src):
    dst.data[...] = src.data

def tensor_scalar(dst, data, op0, operand0):
    global calls
    calls += 1
    planted = os.environ.get("PLANTED", "")
    result = op0(data.data.astype(np.float32), np.float32(operand0))
    if planted == "value" and calls == 2:
        result[3, 5] += 1
    if planted == "bit" and calls == 2:
        result[3, 5] = np.nextafter(result[3, 5], np.float32(np.inf))
    if planted == "refuse":
        raise ValueError("tensor_scalar is not supported on Tuesdays")
    if planted == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if planted == "leave":
        os._exit(3)
    if planted == "hang":
        time.sleep(60)
    dst.data[...] = result

def tensor_tensor(dst, data1, data2, op):
    dst.data[...] = op(data1.data.astype(np.float32), data2.data.astype(np.float32))
""",
}
KERNELS = """
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

PARTS = 128


@nki.jit
def twice(x, factor=2.0, wrong=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((PARTS, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for step in range(3):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    if wrong:
        nisa.tensor_tensor(dst=tile, data1=tile, data2=out, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def typed(x, dtype, sizes=(1, (2,)), mode=None):
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=load(x), op0=nl.multiply, operand0=float(sizes[1][0]))
    nisa.dma_copy(dst=out, src=tile)
    return out, tile2hbm(tile)


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def tile2hbm(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
HEAD = """
import sys
import ml_dtypes
import numpy as np
import nki_lab
nki_lab.activate(force=True)
from kernels import *
import nki.language as nl
X = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with kernels, and a stand-in for the Neuron SDK in `sdk`."""
    for name, text in SDK.items():
        (tmp_path / "sdk" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sdk" / name).write_text(text, encoding="utf-8")
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    return tmp_path


def ran(folder: Path, code: str, *, planted: str = "", sdk: bool = True, head: str = HEAD) -> list[str]:
    """Return the lines that a script prints."""
    (folder / "script.py").write_text(head + code, encoding="utf-8")
    paths = [str(ROOT), *([str(folder / "sdk")] if sdk else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PLANTED": planted}
    environment.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_equal_sides_are_equal_whatever_the_arguments(folder: Path) -> None:
    code = """
done = nki_lab.crosscheck(twice, X, factor=3.0, target="trn2")
print(done.equal, done.close, done.version, done.exposes, done.first, len(done.tensors))
done = nki_lab.crosscheck(typed, X.astype(ml_dtypes.bfloat16), nl.float32, sizes=(1, (4,)), mode={"a": [None, "b"]})
print(done.equal, [(item.dtype, item.shape) for item in done.tensors], done.headline)
"""
    assert ran(folder, code) == [
        "True True 9.9 True None 1",
        "True [('float32', (128, 64)), ('float32', (128, 64))] the results are the same",
    ]


def test_a_planted_value_is_found_in_its_tensor_and_at_its_instruction(folder: Path) -> None:
    code = """
done = nki_lab.crosscheck(twice, X, target="trn2")
(found,) = done.tensors
print(done.equal, done.close, found.differing, found.size, found.place, round(found.largest_error, 3))
print(done.first.name, done.first.line, done.first.tensor.place, round(done.first.tensor.largest_error, 3))
print(done)
"""
    lines = ran(folder, code, planted="value")
    assert lines[0] == "False False 1 8192 (3, 5) 2.0"
    assert lines[1] == "tensor_scalar 17 (3, 5) 1.0"
    assert lines[2] == "twice on trn2, nki_lab and the installed NKI 9.9: the results differ"
    assert lines[3].split() == [
        "result",
        "shape",
        "dtype",
        "differ",
        "max",
        "abs",
        "max",
        "rel",
        "max",
        "ulp",
        "first",
        "at",
        "ours",
        "theirs",
    ]
    assert "1 of 8192" in lines[4]
    assert lines[5].startswith("  first difference: tensor_scalar, line 17: 1 of 8192 elements")


@pytest.mark.slow
def test_a_planted_bit_is_close_and_not_equal(folder: Path) -> None:
    code = """
done = nki_lab.crosscheck(twice, X, target="trn2")
print(done.equal, done.close, done.tensors[0].largest_ulps, done.first.line, done.headline)
"""
    assert ran(folder, code, planted="bit") == ["False True 1.0 17 the results differ by no more than rounding"]


@pytest.mark.slow
def test_refusals_crashes_and_hangs_are_results(folder: Path) -> None:
    code = """
done = nki_lab.crosscheck(twice, X, target="trn2", timeout=8)
print(done.equal, done.error, done.other_error, "|", done.headline)
"""
    accepts = "| nki_lab accepts the kernel, the installed NKI does not"
    refused = ran(folder, code, planted="refuse")
    assert refused == [f"False None ValueError: tensor_scalar is not supported on Tuesdays {accepts}"]
    assert ran(folder, code, planted="crash") == [f"False None crash: its process ended by SIGSEGV {accepts}"]
    assert ran(folder, code, planted="leave") == [f"False None crash: its process ended with status 3 {accepts}"]
    assert ran(folder, code, planted="hang") == [f"False None timeout: it did not end within 8 s {accepts}"]
    ours = """
done = nki_lab.crosscheck(twice, X, wrong=True, target="trn2")
print(done.equal, done.error.diagnostics[0].code, repr(done.other_error), done.headline)
"""
    assert ran(folder, ours) == ["False NKI201 '' nki_lab refuses the kernel, the installed NKI accepts it"]
    assert ran(folder, ours, planted="refuse")[0].endswith("both refuse the kernel")


@pytest.mark.slow
def test_a_kernel_of_the_script_itself_is_loaded_without_what_the_script_does(folder: Path) -> None:
    code = """
done = nki_lab.crosscheck(twice, X, target="trn2")
print(done.equal)
"""
    head = "import nki_lab\nnki_lab.activate(force=True)\n" + KERNELS + "\nX = np.ones((128, 8), np.float32)\n"
    assert ran(folder, code, head=head) == ["True"]


REFUSED = """
def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except nki_lab.NkiError as error:
        item = error.diagnostics[0]
        print(item.code, item.message, "|", item.help)
"""


@pytest.mark.slow
def test_what_cannot_be_crosschecked_says_what_it_needs(folder: Path) -> None:
    code = (
        REFUSED
        + """
refused(nki_lab.crosscheck, twice, X)
refused(nki_lab.crosscheck, twice, X, python="/no/such/python")
"""
    )
    lines = ran(folder, code, sdk=False)
    assert lines[0].startswith("NKI031 no package called nki is installed in ")
    assert 'python="/path/to/venv/bin/python"' in lines[0]
    assert lines[1].startswith("NKI031 there is no interpreter /no/such/python")
    code = (
        REFUSED
        + """
def inner():
    def kernel(x):
        return x
    return kernel
refused(nki_lab.crosscheck, inner(), X)
refused(nki_lab.crosscheck, twice, X, factor=lambda: 1)
"""
    )
    lines = ran(folder, code)
    assert lines[0].startswith("NKI001 the kernel inner.<locals>.kernel is defined inside another function")
    assert lines[1].startswith("NKI001 factor is a function, which cannot be sent")


SCALE = 3


def scaled(x):
    return np.multiply(x, SCALE)


def test_a_cell_is_sent_with_what_it_takes_from_the_notebook() -> None:
    sent = preamble(ast.parse("def kernel(x):\n    return scaled(x) + len(x)"), globals())
    scope: dict[str, Any] = {}
    exec(sent, scope)
    assert scope["scaled"](2) == 6
    assert "import numpy as np" in sent
    assert "SCALE = 3" in sent
