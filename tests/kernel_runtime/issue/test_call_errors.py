"""Calls that do not fit what they call: a code, the function's arguments, and what was meant; the same in the editor."""

from __future__ import annotations

import re
from pathlib import Path

import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import Diagnostic, NkiError
from tests.verdicts import agreed, loaded

X = np.ones((128, 64), np.float32)

CALLS = [
    ("nl.ndarray((1, 2), dtyp=nl.float32)", "NKI002", "did you mean dtype?"),
    ("nl.ndarray((1, 2))", "NKI003", "pass dtype="),
    ("nl.zeros((1, 2), nl.float32, nl.sbuf, 'a', 3)", "NKI002", "the arguments are shape, dtype, buffer, name"),
    ("nl.load(x, masks=None)", "NKI002", "the arguments are src, dtype"),
    ("nl.load(x, mask=None)", "NKI602", "slice the operands instead"),
    ("x.ap([[64, 128], [1, 64]], ofset=3)", "NKI002", "did you mean offset?"),
    ("x.reshape(64, 128)", "NKI002", "the arguments are shape"),
    ("nl.exp(nl.load(x), dtyp=nl.float32)", "NKI002", "did you mean dtype?"),
    ("nl.add(nl.load(x))", "NKI003", "pass y="),
    ("nl.softmax(nl.load(x), axs=1)", "NKI002", "did you mean axis?"),
    ("nl.copy(nl.load(x), engine=nisa.engine.vector)", "NKI002", "the arguments are x, dtype"),
    ("nisa.tensor_copy(dst=nl.load(x), source=x)", "NKI002", "did you mean src?"),
    ("nisa.get_nc_version(3)", "NKI002", "it takes no arguments"),
    ("nl.add(nl.load(x), 'b')", "NKI013", "pass arrays as arguments"),
    ("nisa.engine.vectr", "NKI006", "did you mean vector?"),
    ("nl.fori_loop(0, 3, 5)", "NKI115", "define the body as a function and pass that: nl.fori_loop(..., body)"),
    ("nisa.tensor_scalar(nl.load(x), nl.load(x), nl.add, 10**400)", "NKI013", "operand0: a number, or a float32 tile"),
]


def refused(call: str) -> Diagnostic:
    text = f"import nki.isa as nisa\nimport nki.language as nl\n\n\ndef kernel(x):\n    {call}\n"
    with pytest.raises(NkiError) as caught:
        nki_lab.run(loaded(Path("misuse.py"), text).kernel, X, target="trn2")
    return caught.value.diagnostics[0]


@pytest.mark.parametrize(("call", "code", "remedy"), CALLS)
def test_a_call_that_does_not_fit_says_what_was_meant(call: str, code: str, remedy: str) -> None:
    found = refused(call)
    assert found.code == code
    assert found.help.startswith(remedy)
    assert found.line == 6
    if code in ("NKI002", "NKI003"):
        assert "(" in found.limit


@pytest.mark.parametrize("call", [call for call, _, _ in CALLS if "10**" not in call])
def test_the_editor_says_the_same(call: str) -> None:
    assert agreed(call).code


def test_a_function_of_the_users_keeps_pythons_words() -> None:
    def softmax(tile, axis):
        return tile

    def kernel(x):
        softmax(nl.load(x), axs=1)

    with pytest.raises(TypeError, match="NKI007 the kernel raised TypeError"):
        nki_lab.run(kernel, X, target="trn2")


def test_an_attribute_of_the_users_has_its_near_names_too() -> None:
    class Config(nl.NKIObject):
        hidden_size: int = 3

    def kernel(x):
        return Config().hidden_sizes

    with pytest.raises(AttributeError, match="did you mean hidden_size"):
        nki_lab.run(kernel, X, target="trn2")


@pytest.mark.parametrize(
    "call",
    [
        "nl.device_print(x, x)", "nisa.memset(nl.load(x), x)", "nisa.tensor_scalar(nl.load(x), nl.load(x), x, 1.0)",
        "nl.load(x).ap(x)", "nl.load(x).reshape(x)", "nl.num_programs(x)", "nl.ndarray((1, 2), nl.float32, address=x)",
        "nisa.dma_compute(nl.load(x), [x, x], nl.add, scales=[x, x])",
    ],
)  # fmt: skip
def test_a_tensor_in_a_place_of_something_else_is_named_without_its_elements(call: str) -> None:
    found = refused(call)
    assert "<tensor (128, 64) float32 in private_hbm, name='x'>" in found.message
    assert "\n" not in found.message


def test_signatures_are_shown_as_kernels_write_them() -> None:
    assert refused("nl.ndarray((1, 2))").limit == "nl.ndarray(shape, dtype, buffer=nl.sbuf, name='', address=None)"
    assert refused("nl.ds(3)").limit == "nl.ds(start, size)"


LACKING = [
    ("nisa.activate2(dst=t, op=nl.exp, data=t, imm0=1.0, imm1=0.0, op0=nl.multiply, op1=nl.add)", "trn2", ["trn3"]),
    ("nisa.range_select(t, t, nl.less, nl.less, t[:, 0:1], t[:, 0:1])", "trn1", ["trn2", "trn3"]),
    ("nisa.sendrecv(t, t, 1, 1, 0)", "trn1", ["trn2", "trn3"]),
    ("nisa.dma_copy(t, x, dge_mode=nisa.dge_mode.hwdge)", "trn1", ["trn2", "trn3"]),
    ("nisa.dma_copy(t, x, priority=1)", "trn2", ["trn3"]),
    ("nisa.tensor_copy(t, t, engine=nisa.engine.scalar)", "trn1", ["trn2", "trn3"]),
    ("nisa.tensor_scalar(t, t, op0=nl.abs_max, operand0=1.0)", "trn2", ["trn3"]),
]


@pytest.mark.parametrize(("call", "target", "others"), LACKING)
def test_what_a_target_lacks_names_the_targets_that_have_it(call: str, target: str, others: list[str]) -> None:
    text = f"import nki.isa as nisa\nimport nki.language as nl\n\n\ndef kernel(x):\n    t = nl.load(x)\n    {call}\n"
    with pytest.raises(NkiError) as caught:
        nki_lab.run(loaded(Path("lacking.py"), text).kernel, X, target=target)
    found = caught.value.diagnostics[0]
    said = re.findall(r"trn\d", found.limit)
    assert said == others
    assert found.line == 7


FORMER = [
    ("nisa.affine_select(t, [[-1, 64]], 0, 1, t, 0.0)", "NKI013", "pass offset by keyword"),
    ("nisa.dma_compute(t, [x], [1.0], nl.add)", "NKI012", "write dma_compute(dst, srcs, reduce_op, scales)"),
    ("nisa.register_move(nisa.register_alloc(), imm=3)", "NKI602", "pass the value as src"),
    ("nisa.sendrecv(t, t, 0, 0, 0, use_gpsimd_dma=True)", "NKI602", "use dma_engine="),
    ("nisa.dma_copy(t, x, dst_rmw_op=nl.add)", "NKI602", "use nisa.dma_compute"),
    ("nisa.tensor_scalar(t, t, nl.divide, 2.0)", "NKI012", "multiply by the reciprocal"),
]


@pytest.mark.parametrize(("call", "code", "remedy"), FORMER)
def test_a_call_as_earlier_releases_had_it_says_what_to_write(call: str, code: str, remedy: str) -> None:
    found = agreed(f"t = nl.load(x)\n{call}")
    assert found.code == code
    with pytest.raises(NkiError) as caught:
        text = (
            f"import nki.isa as nisa\nimport nki.language as nl\n\n\ndef kernel(x):\n    t = nl.load(x)\n    {call}\n"
        )
        nki_lab.run(loaded(Path("former.py"), text).kernel, X, target="trn2")
    assert caught.value.diagnostics[0].help.startswith(remedy)


BETA1 = """from neuronxcc import nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, {call})
    return out
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("nl.where(nl.load(x) > 0, nl.load(x))", "nl.where: argument y is missing"),
        ("nl.softmax(nl.load(x))", "nl.softmax: argument axis is missing"),
        ("nl.exp()", "nl.exp: argument x is missing"),
    ],
)
def test_a_call_of_beta1_that_does_not_fit_is_one_finding(call: str, said: str) -> None:
    text = BETA1.format(call=call)
    with pytest.raises(NkiError) as caught:
        nki_lab.run(loaded(Path("misuse_beta1.py"), text).kernel, X, target="trn2")
    found = nki_lab.check(source=text, function="kernel", args=[X], target="trn2")
    for item in (*caught.value.diagnostics, *found):
        assert (item.code, item.message, item.line) == ("NKI003", said, 8)
    assert len(found) == 1
