"""Shapes come from annotations and from calls in the same file, of which nothing is executed."""

from __future__ import annotations

from typing import Any

import pytest

import nki_lab
from nki_lab.kernel_runtime.interpreter import ModuleSource, launches

HEAD = """import nki
import nki.language as nl
import nki.typing as nt
import numpy as np
import torch
import third_party
"""


def known(text: str) -> list[str]:
    return [str(item) for item in launches(ModuleSource.parse(f"{HEAD}{text}", "k.py"), ["k"]).own["k"]]


KERNEL = "@nki.jit\ndef k(x, n=1):\n    return x\n"


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        ("np.zeros((4, 3))", "float32[4,3]"),
        ("np.zeros((4, 3), np.float16)", "float16[4,3]"),
        ("np.ones(shape=(4, 3), dtype='bfloat16')", "bfloat16[4,3]"),
        ("np.empty([4, 3], dtype=nl.bfloat16)", "bfloat16[4,3]"),
        ("np.full((4, 3), 1.0, dtype=np.int8)", "int8[4,3]"),
        ("np.random.rand(4, 3)", "float32[4,3]"),
        ("np.random.rand(4, 3).astype(np.float16)", "float16[4,3]"),
        ("np.random.randn(4, 3).astype(nl.bfloat16)", "bfloat16[4,3]"),
        ("np.random.random_sample([4, 3])", "float32[4,3]"),
        ("np.random.randint(0, 9, (4, 3))", "int32[4,3]"),
        ("np.random.default_rng(0).standard_normal((4, 3)).astype('float16')", "float16[4,3]"),
        ("np.random.default_rng().normal(size=(4, 3))", "float32[4,3]"),
        ("np.arange(12, dtype=np.int32).reshape(4, 3)", "int32[4,3]"),
        ("np.arange(12).reshape((4, -1))", "int32[4,3]"),
        ("np.zeros((3, 4)).T", "float32[4,3]"),
        ("np.transpose(np.zeros((3, 4)))", "float32[4,3]"),
        ("np.zeros_like(np.ones((4, 3), np.int16))", "int16[4,3]"),
        ("np.array([[1.0, 2.0], [3.0, 4.0]])", "float32[2,2]"),
        ("2.0 * np.ones((4, 3)) - 1", "float32[4,3]"),
        ("torch.zeros(4, 3)", "float32[4,3]"),
        ("torch.zeros((4, 3), dtype=torch.bfloat16)", "bfloat16[4,3]"),
        ("torch.rand(4, 3).to(torch.float16).to(device)", "float16[4,3]"),
        ("torch.randn([4, 3], dtype=torch.bfloat16, device='cpu')", "bfloat16[4,3]"),
        ("torch.ones(4, 3).bfloat16().cuda()", "bfloat16[4,3]"),
        ("torch.full((4, 3), 1.0, dtype=torch.float16)", "float16[4,3]"),
        ("np.hypot(np.ones((4, 3)), np.ones((4, 1)))", "float32[4,3]"),
        ("np.left_shift(np.ones((4, 3), np.int32), 2)", "int32[4,3]"),
        ("np.arctan2(np.ones((4, 3), np.int32), 2)", "float32[4,3]"),
        ("np.swapaxes(np.ones((3, 4), np.float16), 0, 1)", "float16[4,3]"),
        ("np.moveaxis(np.ones((3, 4)), 0, -1)", "float32[4,3]"),
        ("np.squeeze(np.ones((4, 1, 3)), axis=1)", "float32[4,3]"),
        ("np.stack([np.zeros(3)] * 4)", "float32[4,3]"),
        ("np.where(np.ones((4, 3), np.int8), np.ones((4, 1)), 0)", "float32[4,3]"),
    ],
)
def test_arrays_of_launching_code_are_recognised(array: str, shown: str) -> None:
    assert known(f"{KERNEL}k({array}, 3)\n") == [f"({shown}, 3)"]


def test_shapes_of_arrays_beyond_any_memory_are_known() -> None:
    array = "np.zeros((1 << 40, 1 << 20), np.int8)"
    views = f"np.reshape(np.swapaxes({array}, 0, 1)[::2], (1 << 39, -1))"
    assert known(f"{KERNEL}k(np.expand_dims({views}, 0), 3)\n") == [f"(int8[1,{1 << 39},{1 << 20}], 3)"]


LAUNCHES = ["k(a)", "out = k(x=a)", "nki.simulate(k)(a)", "nki.jit(k)(a)", "k[1](a)", "print(k(a).sum())",
            "if __name__ == '__main__':\n    k(a)", "def main():\n    k(a)\nmain()", "for _ in range(3):\n    k(a)",
            "def test_k():\n    k(a)", "def test():\n    k(a)", "import nki_lab\nnki_lab.run(k, a, target='trn2')",
            "class TestK:\n    def test_k(self, tmp_path):\n        k(a)"]  # fmt: skip


@pytest.mark.parametrize("launch", LAUNCHES)
def test_launches_are_found(launch: str) -> None:
    (shown,) = known(f"{KERNEL}M = 2\na = np.zeros((M * 2, 3), np.float16)\n{launch}\n")
    assert "float16[4,3]" in shown


@pytest.mark.parametrize(
    "launch",
    [
        "def test_k():\n    with pytest.raises(AssertionError, match='axis'):\n        k(np.zeros((4, 3)))",
        "class TestK(unittest.TestCase):\n    def test_k(self):\n        with self.assertRaises(ValueError):\n            k(a)",
        "try:\n    k(np.zeros((4, 3)))\nexcept (KeyError, AssertionError):\n    pass",
        "@pytest.mark.xfail\ndef test_k():\n    k(np.zeros((4, 3)))",
        "@pytest.mark.xfail(reason='later')\nclass TestK:\n    def test_k(self):\n        k(np.zeros((4, 3)))",
    ],
)
def test_launches_that_are_meant_to_be_refused_are_none(launch: str) -> None:
    assert not known(f"import pytest\nimport unittest\n{KERNEL}a = np.zeros((4, 3))\n{launch}\n")


@pytest.mark.parametrize("kinds", ["", " Exception", " ImportError", " Exception as error"])
def test_launches_whose_every_failure_is_caught_are_launches(kinds: str) -> None:
    text = f"{KERNEL}try:\n    k(np.zeros((4, 3)))\nexcept{kinds}:\n    raise\n"
    assert known(text) == ["(float32[4,3])"]


def test_tests_of_a_test_case_are_followed() -> None:
    test = "class TestK(TestCase):\n    def test_k(self):\n        self.assertTrue(k(np.zeros((4, 3))).any())\n"
    assert known(f"from unittest import TestCase\n{KERNEL}{test}") == ["(float32[4,3])"]


def test_launches_after_an_expected_refusal_are_found() -> None:
    test = "def test_k():\n    with pytest.raises(ValueError) as error:\n        k(np.zeros((9, 9)))\n"
    assert known(f"import pytest\n{KERNEL}{test}    k(np.zeros((4, 3)))\n") == ["(float32[4,3])"]


def test_launch_grids_are_kept() -> None:
    assert known(f"{KERNEL}k[2](np.zeros((4, 3)))\n") == ["[2](float32[4,3])"]


@pytest.mark.parametrize("grid", ["[2]", "[x.shape[0] // 64]", ""])
def test_functions_that_a_module_calls_launch_kernels(grid: str) -> None:
    text = f"""{HEAD}
import nki.isa as nisa

@nki.jit
def k(x):
    out = nl.ndarray((nl.num_programs(0), *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[nl.program_id(0)], src=x)
    return out

def launch(x):
    return k{grid}(x)

y = launch(np.zeros((128, 64)))
"""
    assert known(text.removeprefix(HEAD)) == [f"{'[2]' if grid else ''}(float32[128,64])"]
    assert nki_lab.check(source=text, path="k.py", target="trn2") == []


def test_at_most_four_signatures_are_kept() -> None:
    calls = "".join(f"k(np.zeros(({size}, 3)))\n" for size in range(1, 9))
    assert len(known(KERNEL + calls)) == 4


def test_a_call_without_a_known_array_gives_no_shapes() -> None:
    assert not known(f"{KERNEL}k(third_party.array())\nk(3)\n")


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        ("nt.tensor[4, 3]", "float32[4,3]"),
        ("nt.tensor[(4, 3), nl.bfloat16]", "bfloat16[4,3]"),
        ("nt.tensor[ROWS, 3]", "float32[4,3]"),
        ("'nt.tensor[4, 3]'", "float32[4,3]"),
    ],
)
def test_annotations_give_shapes(annotation: str, shown: str) -> None:
    assert known(f"ROWS = 4\n@nki.jit\ndef k(x: {annotation}, n: int = 2):\n    return x\n") == [f"(x={shown})"]


@pytest.mark.parametrize("annotation", ["nt.tensor", "nt.tensor[third_party.n, 3]", "np.ndarray", "int", "list[int]"])
def test_annotations_without_sizes_give_none(annotation: str) -> None:
    assert not known(f"@nki.jit\ndef k(x: {annotation}):\n    return x\n")


def test_an_unknown_launch_grid_hides_no_call() -> None:
    assert known(f"{KERNEL}k[third_party.cores](np.zeros((4, 3)))\n") == ["[?](float32[4,3])"]


def test_values_that_are_no_arrays_are_kept() -> None:
    call = "k(np.zeros((4, 3)), n=(1, 'a', None, nl.bfloat16, 2.5))"
    assert known(f"{KERNEL}{call}\n") == ["(float32[4,3], n=(1, 'a', None, bfloat16, 2.5))"]


def test_one_unknown_argument_leaves_the_others() -> None:
    assert known(f"{KERNEL}k(np.zeros((4, 3)), third_party.n)\n") == ["(float32[4,3], <unknown>)"]


@pytest.mark.parametrize("entry", ["torch_neuronx.nki_jit", "nki.jit()", "nki.jit(mode='trace')"])
def test_kernels_under_every_decorator_are_found(entry: str) -> None:
    text = f"import torch_neuronx\n@{entry}\ndef k(x):\n    return x\nk(np.zeros((4, 3)))\n"
    assert known(text) == ["(float32[4,3])"]


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        ("np.zeros((32, 64), ml_dtypes.float8_e4m3fn).view(nl.float8_e4m3fn_x4)", (32, 16)),
        ("np.zeros((32, 16), nl.float8_e4m3fn_x4).view(nl.float8_e4m3fn)", (32, 64)),
        ("np.zeros((32, 64), nl.float8_e5m2).view(nl.float8_e5m2_x4).view(dtype=nl.float8_e5m2)", (32, 64)),
        ("np.zeros((32, 16), np.uint32).view(nl.float8_e4m3fn_x4)", (32, 16)),
        ("np.zeros((32, 32), np.uint8).view(nl.float4_e2m1fn_x4)", (32, 16)),
        ("np.zeros((32, 16), nl.float4_e2m1fn_x4).view(np.uint8)", (32, 32)),
    ],
)
def test_views_as_packed_dtypes_and_back_rescale_shapes_on_the_host_and_in_kernels(made: str, shape: Any) -> None:
    text = f"""
import ml_dtypes, nki, numpy as np
import nki.isa as nisa
import nki.language as nl
@nki.jit
def kernel(x):
    assert x.shape == {shape}
    for packed, element in ((nl.float8_e4m3fn_x4, nl.float8_e4m3fn), (nl.float8_e5m2_x4, nl.float8_e5m2)):
        tile = nl.ndarray((32, 2, 16), packed, buffer=nl.sbuf)
        assert tile.view(element).shape == (32, 2, 64) and tile.view(element).view(packed).shape == (32, 2, 16)
        assert tile[:, 1, 4:8].view(element).shape == (32, 16)
    return x
kernel({made})
"""
    assert not [item for item in nki_lab.check(source=text, target="trn3") if item.severity == "error"]
    assert "NKI121" not in {item.code for item in nki_lab.check(source=text, target="trn3")}
    scope: dict[str, Any] = {}
    exec(compile(text.replace("\nkernel(", "\nargument = ("), "<views>", "exec"), scope)
    assert nki_lab.compile(scope["kernel"], scope["argument"], target="trn3").buffers[0].shape == shape
