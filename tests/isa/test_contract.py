"""Every declaration keeps its contract: no property is empty, and each limit is where it says it is, on every target."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nki.isa
import numpy as np
import pytest

import nki_lab
from nki_lab import codes, query
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import TARGETS, Arch, arch_of
from nki_lab.isa.dtype import INT32
from nki_lab.isa.spec import (
    HBM,
    ONCHIP,
    PSUM,
    SBUF,
    TABLE,
    Cost,
    Instruction,
    Predicate,
    Unmodelled,
    Use,
    arg,
    instruction,
    limit,
    out,
)
from nki_lab.kernel_runtime.issue.nisa_functions import describe, instruction_function
from tests.calls import Case, execute, kernel_of, source, traced
from tests.calls import contents as contents_of
from tests.every import for_each
from tests.examples import example
from tests.expected import differences
from tests.legal import DRAWS
from tests.reference.table import REFERENCES
from tests.strategies import arches

NAMES = list(TABLE)


def targets_of(instruction: Instruction) -> list[Arch]:
    return [a for a in arches() if instruction.since <= a.generation <= (instruction.until or a.generation)]


def refusal(case: Case) -> str:
    """The code with which tracing the case is refused; empty where it is accepted. Tensors are left unwritten."""
    case = replace(case, memories=tuple(replace(memory, flavour="none") for memory in case.memories))
    arrays = [contents_of(memory) for memory in case.memories]
    try:
        traced(kernel_of(source(case)), arrays, [memory.dtype for memory in case.memories], case.target)
    except NkiError as error:
        return error.diagnostics[0].code
    return ""


@for_each(NAMES)
def test_no_property_is_empty(name: str) -> None:
    instruction = TABLE[name]
    assert len(instruction.summary) > 20
    assert instruction.see
    assert instruction.example
    assert instruction.engines
    assert all(len(operand.doc) > 5 for operand in instruction.operands.values())
    assert {operand.role for operand in instruction.operands.values()} <= {"in", "out", "attr"}
    for operand in instruction.operands.values():
        assert not operand.is_tensor or (operand.dims and set(operand.spaces) <= {SBUF, PSUM, HBM})
    for declared in (instruction.numerics, instruction.cost):
        assert not isinstance(declared, Unmodelled), declared
    assert not isinstance(instruction.beta1, Unmodelled) or instruction.beta1.reason.startswith("Beta 1 has no ")


@for_each(NAMES)
def test_limits_name_a_code_a_remedy_and_an_operand(name: str) -> None:
    instruction = TABLE[name]
    for item in (*instruction.limits, *instruction.predicates):
        assert codes.get(item.code).outcome == "fault"
        assert item.help
        assert item.text
        assert item.operand in instruction.operands


@for_each(NAMES)
def test_its_documentation_says_every_argument_and_limit(name: str) -> None:
    instruction = TABLE[name]
    text = describe(instruction)
    assert instruction.summary in text
    for argument in instruction.arguments:
        assert f"\n    {argument}" in text
    for item in (*instruction.limits, *instruction.predicates):
        assert f"{item.code}  {item.text}" in text
    assert instruction_function(name).__doc__ == text
    assert list(inspect.signature(instruction_function(name)).parameters) == [*instruction.arguments, "name"]


@for_each(NAMES)
def test_it_is_drawn_and_has_a_reference(name: str) -> None:
    assert name in DRAWS
    assert name in REFERENCES


@pytest.mark.parametrize("name", NAMES)
def test_its_example_computes_what_the_reference_does(name: str) -> None:
    for arch in targets_of(TABLE[name]):
        case = example(TABLE[name], arch)
        for final in (True, False):
            assert not differences(case, execute(case, final=final))


def predicates() -> Iterator[Any]:
    for declared in TABLE.values():
        for item in declared.predicates:
            arch_list = [arch_of(item.target)] if item.target else targets_of(declared)
            for arch in arch_list:
                yield pytest.param(declared, item, arch, id=f"{declared.name}-{item.name}-{arch.name}")


@pytest.mark.parametrize(("instruction", "item", "arch"), list(predicates()))
def test_a_predicate_accepts_and_refuses_its_own_cases(instruction: Instruction, item: Predicate, arch: Arch) -> None:
    accepted = example(instruction, arch, item.accepts)
    assert refusal(accepted) == ""
    assert refusal(example(instruction, arch, item.refuses)) == item.code


def limits() -> Iterator[Any]:
    for declared in TABLE.values():
        for item in declared.limits:
            for arch in targets_of(declared):
                yield pytest.param(declared, item, arch, id=f"{declared.name}-{item.name}-{arch.name}")


def resized(instruction: Instruction, letter: str, size: int) -> dict[str, str]:
    """The example's operands with a dimension letter set to a size."""
    out: dict[str, str] = {}
    for name, value in instruction.example.items():
        dims = instruction.operands[name].dims
        if letter in dims and isinstance(value, str):
            space, dtype, sizes = value.split()
            shape = sizes.split("x")
            shape[dims.index(letter)] = str(size)
            out[name] = f"{space} {dtype} {'x'.join(shape)}"
    return out


@pytest.mark.parametrize(("instruction", "item", "arch"), list(limits()))
def test_a_limit_lies_where_it_says(instruction: Instruction, item: Any, arch: Arch) -> None:
    (letter,) = item.left.co_names
    boundary = int(item.sides({letter: 0, **{k: f.value for k, f in arch.facts.items()}})[1])
    assert refusal(example(instruction, arch, resized(instruction, letter, boundary))) == ""
    assert refusal(example(instruction, arch, resized(instruction, letter, boundary + 1))) == item.code


@for_each(NAMES)
def test_every_operator_of_every_attribute_has_a_name_that_kernels_can_write(name: str) -> None:
    for operand in TABLE[name].operands.values():
        if operand.enum is not None:
            assert all(member.name.isidentifier() for member in operand.enum)


def test_targets_stand_for_generations() -> None:
    assert {arch_of(name).generation for name in TARGETS} == {arch.generation for arch in arches()}


# -- declaring ----------------------------------------------------------------------------------------------------


def body(**changes: Any) -> type:
    """The body of a small but complete declaration, with some attributes replaced or, as None, left out."""

    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        np.add(ins.left, ins.right, out=out.dst)
        np.subtract(ins.left, ins.right, out=out.rest)

    whole: dict[str, Any] = {
        "__doc__": "dst = left + right and rest = left - right, both in float32.",
        "dst": out("P F", ONCHIP, "the sums"),
        "left": arg("P F", ONCHIP, "first input"),
        "right": arg("P F", ONCHIP, "second input"),
        "rest": out("P F", ONCHIP, "the differences"),
        "width": limit("F <= 96", help="split the tile", operand="left"),
        "same": Predicate("NKI207", "left.dtype == right.dtype", _same, operand="right", help="cast one of them",
                          accepts={}, refuses={"right": "sbuf bfloat16 128x96"}),
        "example": {"dst": "sbuf float32 128x96", "left": "sbuf float32 128x96", "right": "sbuf float32 128x96",
                    "rest": "sbuf float32 128x96"},
        "choose": lambda use: "gpsimd" if use.dtypes["left"] is INT32 else "vector",
        "numerics": numerics,
        "cost": lambda use: Cost(interval=64.0, latency=64.0, source="none", confidence="guess"),
        "beta1": Unmodelled("not in Beta 1"),
    }  # fmt: skip
    return type("both_ways", (), {key: value for key, value in {**whole, **changes}.items() if value is not None})


def _same(use: Use) -> str | None:
    left, right = use.dtypes["left"], use.dtypes["right"]
    return None if left is right else f"left is {left} and right is {right}"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Instruction]:
    """An instruction of this test's own, in the table while the test runs."""
    made = instruction(engine=("vector", "gpsimd"), since=3, until=3, see="this test")(body())
    # Declarations come before the modules; these were made when the tests were collected.
    monkeypatch.setitem(vars(nki.isa), "both_ways", instruction_function("both_ways"))
    yield made
    TABLE.pop("both_ways")


def declare(made: type, engine: Any = ("vector", "gpsimd")) -> None:
    """Declare an instruction that must not be accepted; one that is does not stay."""
    try:
        instruction(engine=engine, see="this test")(made)
    finally:
        TABLE.pop("both_ways", None)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"numerics": None}, "numerics"),
        ({"cost": None}, "cost"),
        ({"beta1": None}, "beta1"),
        ({"example": None}, "example"),
        ({"__doc__": ""}, "doc string"),
        ({"choose": None}, "choose"),
        ({"left": arg("P F", ONCHIP, "")}, "left"),
        ({"width": limit("G <= 96", help="h", operand="left")}, "unknown names"),
        ({"width": limit("F <= no_such_fact", help="h", operand="left")}, "unknown names"),
        ({"width": limit("F <= 96", help="h", operand="data")}, "data"),
        ({"same": Predicate("NKI207", "t", _same, operand="data", help="h", accepts={}, refuses={})}, "data"),
        ({"same": Predicate("NKI207", "t", _same, operand="left", help="h", accepts={"x": 1}, refuses={})}, "x"),
        ({"example": {"dst": "sbuf float32 128x96"}}, "lacks left, rest, right"),
    ],
)
def test_an_incomplete_declaration_is_refused_at_import(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        declare(body(**changes))


def test_python_without_doc_strings_has_all_instructions() -> None:
    text = "import nki_lab; nki_lab.activate(); import nki.isa; print(nki.isa.nc_matmul.__name__)"
    done = subprocess.run([sys.executable, "-OO", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "nc_matmul\n"), done.stderr


def test_a_second_declaration_of_a_name_is_refused(declared: Instruction) -> None:
    with pytest.raises(ValueError, match="both_ways is declared twice"):
        instruction(engine=("vector", "gpsimd"), see="this test")(body())
    assert TABLE["both_ways"] is declared


@pytest.mark.parametrize("text", ["F", "1 < F < 3", "F + 1", "F != 2"])
def test_a_limit_is_one_comparison(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        limit(text, help="h", operand="left")


KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    left = nl.ndarray((128, {width}), nl.{dtype})
    right = nl.ndarray((128, {width}), nl.{dtype})
    total = nl.ndarray((128, {width}), nl.{dtype})
    rest = nl.ndarray((128, {width}), nl.{dtype})
    nisa.dma_copy(left, x[:, 0:{width}])
    nisa.dma_copy(right, x[:, 256 : 256 + {width}])
    nisa.both_ways(dst=total, left=left, right=right, rest=rest)
    sums = nl.ndarray((128, {width}), nl.{dtype}, buffer=nl.shared_hbm)
    differences = nl.ndarray((128, {width}), nl.{dtype}, buffer=nl.shared_hbm)
    nisa.dma_copy(sums, total)
    nisa.dma_copy(differences, rest)
    return sums, differences
"""


def write(folder: Path, **fields: Any) -> tuple[Path, Callable[..., Any]]:
    """The kernel of this test as a file and as a function."""
    file = folder / "kernel.py"
    file.write_text(KERNEL.format(**fields), encoding="utf-8")
    names: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
    return file, names["kernel"]


def check(file: Path, target: str) -> list[Diagnostic]:
    """What the checker, which runs nothing, refuses in the file."""
    found = query.check(file, function="kernel", args=[nki_lab.spec((128, 512), "float32")], target=target)
    return [item for item in found if item.severity == "error"]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_new_instruction_computes_from_its_declaration_alone(
    declared: Instruction, tmp_path: Path, dtype: str
) -> None:
    _, kernel = write(tmp_path, width=96, dtype=dtype)
    x = np.arange(128 * 512).reshape(128, 512).astype(dtype)
    run = nki_lab.run(kernel, x, target="trn2")
    np.testing.assert_array_equal(run.outputs[0], x[:, 0:96] + x[:, 256:352])
    np.testing.assert_array_equal(run.outputs[1], x[:, 0:96] - x[:, 256:352])
    (op,) = (op for op in run.program.ops() if op.variant.instruction is declared)
    assert op.variant.engine == ("gpsimd" if dtype == "int32" else "vector")


def test_tracer_and_checker_refuse_a_new_instruction_alike(declared: Instruction, tmp_path: Path) -> None:
    for width, code in ((96, ""), (97, "NKI210")):
        file, kernel = write(tmp_path, width=width, dtype="float32")
        checked = check(file, "trn2")
        try:
            nki_lab.run(kernel, np.zeros((128, 512), np.float32), target="trn2")
            raised: list[Any] = []
        except NkiError as error:
            raised = list(error.diagnostics)
        assert [item.code for item in raised] == [item.code for item in checked] == ([code] if code else [])
        assert [item.span for item in raised] == [item.span for item in checked]
        if code:
            assert "97" in raised[0].message
            assert file.read_text(encoding="utf-8").splitlines()[raised[0].line - 1][raised[0].column - 1 :] == (
                "left, right=right, rest=rest)"
            )


def test_a_new_instruction_is_refused_where_the_target_lacks_it(declared: Instruction, tmp_path: Path) -> None:
    file, kernel = write(tmp_path, width=96, dtype="float32")
    for target in ("trn1", "trn3"):
        with pytest.raises(NkiError) as caught:
            nki_lab.run(kernel, np.zeros((128, 512), np.float32), target=target)
        assert [item.code for item in caught.value.diagnostics] == ["NKI209"]
        assert [item.code for item in check(file, target)] == ["NKI209"]


def test_a_new_instruction_documents_itself(declared: Instruction) -> None:
    text = describe(declared)
    assert declared.summary in text
    assert "NKI210  F <= 96" in text
    assert "left [P, F] in sbuf or psum: first input" in text
    assert "NeuronCore-v3" in text
    assert instruction_function("both_ways").__doc__ == text
