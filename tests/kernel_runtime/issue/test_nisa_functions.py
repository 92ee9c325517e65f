"""The functions of nki.isa: their signatures, what they take in which order, and keywords of other releases."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import TARGETS, arch_of
from nki_lab.isa.spec import REQUIRED, TABLE
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function, signature_of
from tests.calls import kernel_of, traced

# As the stubs of NKI 0.6 print them.
SIGNATURES = {
    "activation": "(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=idle, name=None)",
    "dma_copy": "(dst, src, priority=None, oob_mode=error, dge_mode=unknown, engine=unknown, name=None)",
    "iota": "(dst, pattern, offset=0, channel_multiplier=0, name=None)",
    "memset": "(dst, value, engine=unknown, name=None)",
    "nc_matmul": "(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False, "
    "accumulate=None, tile_position=(), tile_size=(), perf_mode=none, name=None)",
    "nc_transpose": "(dst, data, engine=unknown, name=None)",
    "reciprocal": "(dst, data, name=None)",
    "scalar_tensor_tensor": "(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, name=None)",
    "tensor_copy": "(dst, src, engine=unknown, name=None)",
    "tensor_reduce": "(dst, op, data, axis, negate=False, keepdims=False, name=None)",
    "tensor_tensor": "(dst, data1, data2, op, engine=unknown, name=None)",
}


def shown(signature: inspect.Signature) -> str:
    parts = []
    for name, parameter in signature.parameters.items():
        default = getattr(parameter.default, "name", None) or repr(parameter.default)
        parts.append(name if parameter.default is inspect.Parameter.empty else f"{name}={default}")
    return f"({', '.join(parts)})"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_documentation(name: str) -> None:
    assert shown(inspect.signature(instruction_function(name))) == SIGNATURES[name]


@pytest.mark.parametrize("name", TABLE)
def test_doors_are_documented_functions_of_nki_isa(name: str) -> None:
    door = instruction_function(name)
    assert (door.__name__, door.__module__) == (name, "nki.isa")
    assert door is instruction_function(name)
    assert "Arguments:" in (door.__doc__ or "")
    assert list(signature_of(TABLE[name]).parameters)[-1] == "name"


def trace(call: str, target: str = "trn2") -> Any:
    text = f"def kernel(a):\n    x = nl.ndarray((8, 6), nl.float32)\n    y = nl.ndarray((8, 6), nl.float32)\n    nisa.{call}\n"
    return traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], target)


def test_arguments_go_by_position_and_by_keyword() -> None:
    for call in ("tensor_tensor(x, x, y, nl.add)", "tensor_tensor(op=nl.add, data2=y, data1=x, dst=x)",
                 "tensor_tensor(x, x, op=nl.add, data2=y)"):  # fmt: skip
        program, builder = trace(call)
        assert program.op(0).variant.use.attrs["op"].name == "add"
        assert not builder.notes


@pytest.mark.parametrize("name", TABLE)
def test_each_required_argument_is_missed_by_name(name: str) -> None:
    instruction = TABLE[name]
    required = [key for key, operand in instruction.arguments.items() if operand.default is REQUIRED]
    given = {key: f"{key}=[x]" if key in instruction.groups else f"{key}=x" for key in required}
    target = next(target for target in TARGETS if arch_of(target).generation >= instruction.since)
    for key in required:
        with pytest.raises(NkiError) as caught:
            trace(f"{name}({', '.join(given[other] for other in required if other != key)})", target)
        found = caught.value.diagnostics[0]
        # Another argument may be no tensor; what is missing is found before anything is compared.
        assert found.code in ("NKI003", "NKI012")
        if found.code == "NKI003":
            assert found.operand == key or required.index(found.operand) < required.index(key)


def test_unknown_keywords_get_the_nearest_name() -> None:
    with pytest.raises(TypeError) as caught:
        trace("tensor_tensor(dst=x, data1=x, dat2=y, op=nl.add)")
    (found,) = caught.value.diagnostics  # type: ignore[attr-defined]
    assert found.code == "NKI002"
    assert "unexpected keyword argument 'dat2'" in found.message
    assert "data2" in found.help


@pytest.mark.parametrize("keyword", ["mask", "dst_rmw_op", "psumAccumulateFlag", "dtype", "num_channels"])
def test_keywords_of_earlier_releases_say_what_came_after_them(keyword: str) -> None:
    with pytest.raises(NkiError) as caught:
        trace(f"tensor_tensor(x, x, y, nl.add, {keyword}=None)")
    (found,) = caught.value.diagnostics
    assert (found.code, found.operand) == ("NKI602", keyword)
    assert found.help


def test_a_harmless_keyword_is_remarked() -> None:
    program, builder = trace("tensor_copy(x, y, dtype=nl.float32)")
    assert len(program) == 1
    assert [(note.code, note.operand, note.severity) for note in builder.notes] == [("NKI604", "dtype", "warning")]


@pytest.mark.parametrize("name", TABLE)
def test_outside_a_kernel_there_is_nothing_to_record_into(name: str) -> None:
    with pytest.raises(NkiError) as caught:
        instruction_function(name)()
    (found,) = caught.value.diagnostics
    assert found.code == "NKI005"
    assert name in found.message


def test_unknown_instructions_are_no_doors() -> None:
    with pytest.raises(KeyError):
        instruction_function("tensor_everything")


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ("x", "NKI012", "srcs is a NkiTensor"),
        ("[]", "NKI012", "srcs has 0 entries"),
        ("[x] * 17", "NKI012", "srcs has 17 entries"),
        ("[x, 3]", "NKI013", "src1"),
        ("[x, x[:, 1:]]", "NKI203", "src1"),
    ],
)
def test_a_list_of_tensors_is_checked_entry_by_entry(given: str, code: str, text: str) -> None:
    with pytest.raises(NkiError) as caught:
        trace(f"dma_compute(dst=x, srcs={given}, reduce_op=nl.add)", "trn2")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert text in found.message
