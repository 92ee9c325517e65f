"""The names of `torch_neuronx` and `torch_xla` in scripts as the guides have them; tensors share their memory."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import neuronxcc.nki.language as nl1
import nki
import nki.language as nl
import numpy as np
import pytest

from nki_lab.session import arrays

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

BY_REFERENCE = """
import neuronxcc.nki.language as nl
from torch_neuronx import nki_jit

@nki_jit
def add(a, b, c):
    nl.store(c, nl.load(a) + nl.load(b))

import torch
from torch_xla.core import xla_model as xm
device = xm.xla_device()
a, b = (torch.ones((4, 3), dtype=torch.float16).to(device=device) for _ in range(2))
c = torch.zeros((4, 3), dtype=torch.float16).to(device=device)
add(a, b, c)
xm.mark_step()
print(c)
"""
CURRENT = """
import nki
import nki.language as nl
import torch
import torch_xla

@nki.jit
def add(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(c, nl.add(nl.load(a), nl.load(b)))
    return c

device = torch_xla.device()
a, b = (torch.ones((4, 3), dtype=torch.float16).to(device=device) for _ in range(2))
print(add(a, b))
"""
TRAINING = """
import nki
import nki.language as nl
import torch
import torch_xla
import torch_xla.core.xla_model as xm

@nki.jit
def add(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(c, nl.add(nl.load(a), nl.load(b)))
    return c

class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return add(a, b)

    @staticmethod
    def backward(ctx, dy, *args):
        return dy, dy

device = torch_xla.device()
a, b = (torch.randn(128, 64).to(device).detach().requires_grad_() for _ in range(2))
(a * b * Add.apply(a, b)).sum().backward()
torch_xla.sync()
torch.testing.assert_close(a.grad, (2 * a * b + b * b).detach())
optimizer = torch.optim.SGD([a], lr=0.5)
before = a.detach().clone()
xm.optimizer_step(optimizer)
xm.wait_device_ops()
torch.testing.assert_close(a.detach(), before - 0.5 * a.grad)
xm.master_print("trained on", xm.xrt_world_size(), "device", xm.get_ordinal())
"""


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("torch")


@pytest.mark.parametrize(("script", "says"), [
    (BY_REFERENCE, "tensor([[2., 2., 2.],"), (CURRENT, "tensor([[2., 2., 2.],"), (TRAINING, "trained on 1 device 0"),
], ids=["by reference", "current", "training"])  # fmt: skip
def test_scripts_of_the_guides_run(script: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "nki_lab", "run", "script.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_nki_jit_takes_functions_of_both_dialects(torch: ModuleType) -> None:
    from torch_neuronx import nki_jit
    from torch_neuronx.xla_impl.ops import nki_jit as same

    def current(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    def beta1(a, out):
        nl1.store(out, nl1.load(a) + 1)

    x, y = torch.ones(4, 3), torch.zeros(4, 3)
    assert (nki_jit(current)(x) == 1).all()
    nki_jit()(beta1)(x, y)
    assert (y == 2).all()
    same(func=beta1, show_compiler_tb=True)(y, y)
    assert (y == 3).all()


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


def test_a_traced_model_takes_the_shapes_that_it_was_traced_for(torch: ModuleType) -> None:
    import torch_neuronx

    model = torch_neuronx.trace(lambda x: copied(x * torch.nn.Parameter(torch.ones(3))), torch.ones(4, 3))
    assert not model(torch.ones(4, 3)).requires_grad
    with pytest.raises(TypeError, match=r"(?s)NKI001.*float32\[5, 3\].*traced for float32\[4, 3\]"):
        model(torch.ones(5, 3))


def test_an_operator_of_a_function_gets_its_fake_kernel_from_its_kernels(torch: ModuleType) -> None:
    from torch_neuronx import nki_op

    def scaled(x, y):
        return copied(x) + y

    scaled.__annotations__ = {"x": torch.Tensor, "y": float, "return": torch.Tensor}
    operator = nki_op("nki_lab_tests::scaled", mutates_args=())(scaled)
    x = torch.ones(4, 3)
    assert (operator(x, 1.0) == 2).all()
    assert (torch.compile(lambda x: operator(x, 2.0) * 2, fullgraph=True, backend="aot_eager")(x) == 6).all()


def test_random_numbers_repeat_from_a_state(torch: ModuleType) -> None:
    from torch_xla.core import xla_model as xm

    state = xm.get_rng_state()
    first = torch.rand(5)
    xm.set_rng_state(state)
    assert torch.equal(torch.rand(5), first)


# -- memory -----------------------------------------------------------------------------------------------------------

NAMES = ["float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "uint16", "int8"]


@pytest.mark.parametrize("name", NAMES)
def test_contiguous_tensors_share_their_memory_on_the_way_in(name: str, torch: ModuleType) -> None:
    a = torch.ones(4, 3).to(getattr(torch, name))
    array, dtype = arrays.host_array(a, "torch", "a")
    assert array.ctypes.data == a.data_ptr()
    assert arrays.native(array, dtype).ctypes.data == a.data_ptr()


@pytest.mark.parametrize("name", NAMES)
def test_results_share_their_memory_on_the_way_out(name: str, torch: ModuleType) -> None:
    array, _ = arrays.host_array(torch.ones(4, 3).to(getattr(torch, name)), "torch", "a")
    array = array.copy()
    back = arrays.give_back(array, "torch")
    assert back.data_ptr() == array.ctypes.data
    assert back.dtype == getattr(torch, name)


def test_results_are_never_the_memory_of_an_argument_or_of_an_earlier_result(torch: ModuleType) -> None:
    a = torch.ones(4, 3, dtype=torch.bfloat16)
    first, second = copied(a), copied(a)
    first.fill_(7)
    assert (second == 1).all()
    assert (a == 1).all()
    assert (copied(a) == 1).all()


def test_a_tensor_on_another_device_is_refused(torch: ModuleType) -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        for device in ("cuda", "mps", "xla"):
            a = fake(torch, device)
            with pytest.raises(TypeError, match=rf"(?s)NKI001 argument a is a torch tensor on {device}.*a.cpu\(\)"):
                copied(a)


def fake(torch: ModuleType, device: str) -> Any:
    from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

    mode = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    with unset_fake_temporarily():
        meta = torch.ones(4, 3, device="meta")
    return FakeTensor(mode, meta, torch.device(device))


def test_values_of_numpy_and_torch_agree(torch: ModuleType) -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert (copied(torch.from_numpy(a)).numpy() == copied(a)).all()
