"""Kernels that functions make: each is evaluated as it is when it is launched, with the names around it."""

from __future__ import annotations

from pathlib import Path

import pytest

import nki_lab
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, Examination

HEAD = """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
"""
MAKE = """

def make(scale, width=512):
    rows = 128

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        helper(tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    def helper(tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)

    return kernel

"""
X = "np.ones((128, 512), np.float32)"
LINE = HEAD.count("\n") + MAKE[: MAKE.index("dst=tile, src=x")].count("\n") + 1
"""The line of the transfer into the tile."""


def found(source: str, target: str = "trn2") -> list[Diagnostic]:
    return nki_lab.check(source=source, target=target)


def examined(document: Document) -> Examination:
    return document.examine(EvaluationRequest(arch=arch_of("trn2")))


def codes(source: str) -> list[tuple[str, int]]:
    return [(item.code, item.line) for item in found(source)]


CALLERS = {
    "the module": "kernel = make(2.0{})\nif __name__ == '__main__':\n    kernel({x})\n",
    "the module at once": "make(2.0{})({x})\n",
    "a test": "def test_it():\n    kernel = make(2.0{})\n    assert kernel({x}).shape == (128, 512)\n",
    "a parametrized test": "import pytest\n\n\n@pytest.mark.parametrize('scale', [1.0, 2.0])\n"
    "def test_it(scale):\n    make(scale{})({x})\n",
    "a function": "def main():\n    made = [make(2.0{})]\n    made[0]({x})\n\n\nmain()\n",
    "a method": "class Op:\n    def __init__(self, scale):\n        self.kernel = make(scale{})\n\n"
    "    def __call__(self, x):\n        return self.kernel(x)\n\n\nOp(2.0)({x})\n",
    "a grid": "make(2.0{})[1]({x})\n",
}


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_a_launched_kernel_is_evaluated_with_the_names_around_it(caller: str) -> None:
    right = HEAD + MAKE + caller.replace("{x}", X)
    assert codes(right.replace("{}", "")) == []
    wrong = right.replace("{}", ", 513")
    assert ("NKI203", LINE) in codes(wrong)
    assert {code for code, _ in codes(wrong)} == {"NKI203"}


def test_the_finding_tells_the_call() -> None:
    (item, _) = found(f"{HEAD}{MAKE}make(2.0, 256)({X})\n")
    assert any("kernel(float32[128,512]) with rows=128, width=256" in part.message for part in item.related)


def test_each_launch_has_names_of_its_own() -> None:
    loop = f"for width in (512, 256):\n    make(1.0, width)({X})\n"
    assert [line for _, line in codes(HEAD + MAKE + loop)].count(LINE) == 1
    assert codes(HEAD + MAKE + loop.replace("256", "512")) == []


def test_a_kernel_of_a_method_has_its_object() -> None:
    source = HEAD + (
        "\n\nclass Op:\n"
        "    def __init__(self, width):\n"
        "        self.width = width\n\n"
        "    def build(self):\n"
        "        width = self.width\n\n"
        "        @nki.jit\n"
        "        def kernel(x):\n"
        "            tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)\n"
        "            nisa.dma_copy(dst=tile, src=x)\n"
        "            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "            nisa.dma_copy(dst=out, src=tile)\n"
        "            return out\n\n"
        "        return kernel\n\n\n"
        f"Op(WIDTH).build()({X})\n"
    )
    assert codes(source.replace("WIDTH", "512")) == []
    assert {code for code, _ in codes(source.replace("WIDTH", "511"))} == {"NKI203"}


@pytest.mark.parametrize(
    "source",
    [
        HEAD + MAKE,
        HEAD + MAKE + "kernel = make(2.0)\n",
        HEAD + MAKE + "kernel = make(2.0)\nkernel(unknown)\n",
        HEAD + MAKE.replace("    return kernel\n", "    return wrapped(kernel)\n") + f"make(2.0)({X})\n",
        f"{HEAD}{MAKE}def later():\n    make(2.0)({X})\n",
    ],
)
def test_a_kernel_that_nothing_launches_is_told(source: str) -> None:
    assert [item.message for item in found(source) if item.code == "NKI122"] == [
        "kernel is defined inside another function, and no call in this file launches it: only its syntax is checked"
    ]


def test_kernels_that_share_a_qualified_name_are_not_evaluated() -> None:
    twice = MAKE.replace(
        "    def helper", MAKE[MAKE.index("    @nki.jit") : MAKE.index("    def helper")] + "    def helper"
    )
    assert {code for code, _ in codes(f"{HEAD}{twice}make(2.0, 256)({X})\n")} == {"NKI122"}


def test_edits_give_what_a_new_text_gives() -> None:
    calls = f"\n\ndef test_it():\n    make(2.0)({X})\n"
    texts = [
        HEAD + MAKE + calls,
        f"{HEAD}# a line\n{MAKE}{calls}",
        HEAD + MAKE.replace("rows = 128", "rows = 127") + calls,
        HEAD + MAKE + calls.replace("make(2.0)", "make(2.0, 17)"),
        HEAD + MAKE.replace("width=512", "width=500") + calls,
        HEAD + MAKE.replace("width=512", "width=500") + calls.replace("make(2.0)", "make(2.0, 512)"),
        HEAD + MAKE.replace("operand0=scale", "operand0=scale, operand7=1") + calls,
        HEAD + MAKE + calls,
    ]
    document = Document("made.py")
    for text in texts:
        document.update(text)
        edited = [(item.code, item.line, item.message) for item in examined(document).findings]
        fresh = Document("made.py")
        fresh.update(text)
        assert edited == [(item.code, item.line, item.message) for item in examined(fresh).findings]


@pytest.mark.parametrize("width", [512, 513])
def test_a_kernel_that_another_module_makes_is_evaluated_here(tmp_path: Path, width: int) -> None:
    (tmp_path / "making.py").write_text(HEAD + MAKE, encoding="utf-8")
    caller = tmp_path / "test_launching.py"
    text = f"import numpy as np\nfrom making import make\n\n\ndef test_it():\n    make(2.0, {width})({X})\n"
    caller.write_text(text, encoding="utf-8")
    items = nki_lab.check(caller, target="trn2")
    assert {item.code for item in items} == ({"NKI203"} if width > 512 else set())
    for item in items:
        assert item.file == str(tmp_path / "making.py")
        assert any(part.span is not None and part.span.file == str(caller) for part in item.related)


def test_names_in_it_have_types() -> None:
    document = Document("made.py")
    document.update(f"{HEAD}{MAKE}make(2.0)({X})\n")
    names = {item.name: str(item) for item in examined(document).variables.values()}
    assert "(128, 512)" in names["tile"]
    assert names["x"] != names["tile"]
