"""The part that an instruction plays is declared: the same declaration under another name is treated the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import nki.isa
import numpy as np
import pytest

import nki_lab
from nki_lab import query
from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import INT32, dtype_of
from nki_lab.isa.ops.register import register_move, value_of
from nki_lab.isa.spec import (
    HBM,
    ONCHIP,
    PSUM,
    SBUF,
    TABLE,
    Accumulation,
    Contraction,
    Cost,
    Fill,
    Instruction,
    Register,
    RegisterValues,
    Unmodelled,
    Use,
    arg,
    attr,
    content_of,
    instruction,
    out,
)
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.path import Path as ProgramPath
from nki_lab.kernel_runtime.path import executed, known_path
from nki_lab.kernel_runtime.recording import schema
from tests.calls import kernel_of, traced

NAMES = frozenset(TABLE)
CLONED = ("nc_matmul", "tensor_copy", "dma_copy", "memset", "iota", "register_move", "register_load", "activation")


def enter(patch: pytest.MonkeyPatch, made: Instruction) -> Instruction:
    """Put a declaration into the table, and its function into `nki.isa`, until the test ends."""
    patch.setitem(TABLE, made.name, made)
    patch.setitem(vars(nki.isa), made.name, instruction_function(made.name))
    return made


def other_name(name: str) -> str:
    """Another name, of the same length: places in the source stay what they are."""
    return name.upper()


@pytest.fixture
def cloned(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Declare clones under other names; what this gives makes a source text call them."""
    for name in CLONED:
        enter(monkeypatch, replace(TABLE[name], name=other_name(name), index=len(TABLE)))
    pattern = re.compile(rf"\bnisa\.({'|'.join(CLONED)})\b")
    return lambda text: pattern.sub(lambda found: f"nisa.{other_name(found[1])}", text)


HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
"""


class Written:
    """A kernel as a file and as a function."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.file = folder / "kernel.py"
        self.file.write_text(HEAD + text, encoding="utf-8")
        names: dict[str, Any] = {"__name__": "kernels"}
        exec(compile(HEAD + text, str(self.file), "exec"), names)
        self.function: Callable[..., Any] = names["kernel"]

    def plain(self, text: str) -> str:
        """A text of the simulator's without the names of the folder and of clones."""
        return text.replace(str(self.folder), "").lower()

    def said(self, diagnostics: Any) -> list[Any]:
        """Codes, places and messages."""
        return sorted((item.code, item.line, item.column, self.plain(item.message)) for item in diagnostics)

    def summary(self, run: Any) -> str:
        return self.plain(repr(dict(run.summary)))

    def columns(self, run: Any) -> Mapping[tuple[str, str], Any]:
        """The recording's columns; texts without names of clones."""
        found: dict[tuple[str, str], Any] = {}
        for spec in schema.TABLES.values():
            if spec.index:
                continue
            table = run.recording.table(spec.name)
            for column in spec.columns:
                name = column.name
                found[spec.name, name] = (
                    [self.plain(str(text)) for text in table.texts(name)]
                    if column.is_text
                    else np.asarray(table[name][0 : len(table)]).tobytes()
                )
        return found


PRODUCT = """
def kernel(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    for m in range(0, a.shape[1], 64):
        for n in range(0, b.shape[1], 32):
            total = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)
            for k in range(0, a.shape[0], 128):
                left = nl.ndarray((128, 64), a.dtype)
                right = nl.ndarray((128, 32), b.dtype)
                nisa.dma_copy(left, a[k : k + 128, m : m + 64])
                nisa.dma_copy(right, b[k : k + 128, n : n + 32])
                nisa.nc_matmul(total, left, right)
            tile = nl.ndarray((64, 32), nl.float32)
            shift = nl.ndarray((64, 1), nl.float32)
            nisa.memset(shift, 0.5)
            nisa.activation(tile, op=nl.exp, data=total, bias=shift, scale=0.01)
            copied = nl.ndarray((64, 32), nl.float32)
            nisa.tensor_copy(copied, tile)
            nisa.dma_copy(out[m : m + 64, n : n + 32], copied)
    return out
"""

LOOP = """
def kernel(a, b):
    out = nl.ndarray((128, 512), a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), a.dtype)
    nisa.dma_copy(tile, a[0:128, 0:512])
    few, many = nisa.register_alloc(), nisa.register_alloc()
    nisa.register_move(few, 3)
    nisa.register_move(many, few)
    for _ in nl.dynamic_range(many):
        nisa.activation(tile, op=nl.copy, data=tile, scale=0.5)
    nisa.dma_copy(out, tile)
    return out
"""

SUMMED = """
def kernel(a, b):
    out = nl.ndarray((64, 128), nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 64), a.dtype)
    right = nl.ndarray((128, 128), b.dtype)
    nisa.dma_copy(left, a[0:128, 0:64])
    nisa.dma_copy(right, b[0:128, 0:128])
    total = nl.ndarray((64, 128), nl.float32, buffer=nl.psum)
    for _ in nl.dynamic_range(3):
        nisa.nc_matmul(total, left, right)
    nisa.nc_matmul(total, left, right, accumulate=True)
    tile = nl.ndarray((64, 128), nl.float32)
    nisa.tensor_copy(tile, total)
    nisa.dma_copy(out, tile)
    return out
"""

LOADED = """
def kernel(a, b):
    out = nl.ndarray((512, 512), a.dtype, buffer=nl.shared_hbm)
    count, tile = nl.ndarray((1, 1), nl.int32), nl.ndarray((128, 512), a.dtype)
    nisa.iota(count, [[1, 1]], offset=2)
    nisa.memset(tile, 1.0)
    for row in range(0, 512, 128):
        nisa.dma_copy(out[row : row + 128], tile)
    nisa.dma_copy(tile, a[0:128, 0:512])
    many = nisa.register_alloc()
    nisa.register_load(many, count)
    for i in nl.dynamic_range(many):
        nisa.dma_copy(out.ap([[512, 128], [1, 512]], scalar_offset=i), tile)
    nisa.dma_copy(out.ap([[512, 128], [1, 512]], scalar_offset=many), tile)
    return out
"""

KERNELS = {"product": PRODUCT, "loop": LOOP, "summed": SUMMED}


def arrays(dtype: Any = np.float32) -> tuple[Any, Any]:
    draw = np.random.default_rng(7)
    return tuple(draw.standard_normal((256, size)).astype(np.float32).astype(dtype) for size in (512, 128))  # type: ignore[return-value]


@pytest.mark.parametrize("text", [*KERNELS.values(), LOADED], ids=[*KERNELS, "loaded"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["float32", "bfloat16"])
def test_clones_run_as_the_originals_do(cloned: Callable[[str], str], tmp_path: Path, text: str, dtype: Any) -> None:
    assert cloned(text) != text
    one, two = Written(tmp_path / "one", text), Written(tmp_path / "two", cloned(text))
    first, second = (nki_lab.run(item.function, *arrays(dtype), target="trn2") for item in (one, two))
    for left, right in zip(first.outputs, second.outputs, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.said(first.diagnostics) == two.said(second.diagnostics)
    assert one.summary(first) == two.summary(second)
    assert one.columns(first) == two.columns(second)


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_clones_take_the_same_time_in_a_profile_as_in_a_run(
    cloned: Callable[[str], str], tmp_path: Path, text: str
) -> None:
    one, two = Written(tmp_path / "one", text), Written(tmp_path / "two", cloned(text))
    specs = [nki_lab.spec(array.shape, "float32") for array in arrays()]
    first, second = (nki_lab.profile(item.function, *specs, target="trn2") for item in (one, two))
    ran = nki_lab.run(two.function, *arrays(), target="trn2")
    assert one.summary(first) == two.summary(second)
    assert second.summary.instructions == ran.summary.instructions
    assert second.summary.makespan_ns == ran.summary.makespan_ns


@pytest.mark.parametrize("order", ["slab", "free", "tile"])
def test_clones_of_matmul_are_grouped_into_as_many_slabs(cloned: Callable[[str], str], order: str) -> None:
    found = []
    for text in (PRODUCT, cloned(PRODUCT)):
        program, _ = traced(kernel_of(text), list(arrays()), ["float32"] * 2, "trn2", matmul_order=order)
        machine = Executor(program, dict(enumerate(arrays())))
        machine.run(final=True)
        found.append(([(item.shape, len(item.ops)) for item in machine.slabs], machine.elided))
    assert found[0] == found[1]
    assert bool(found[0][0]) is (order != "tile")


RULES = {
    "NKI128": """
def kernel(x):
    def body(i):
        nisa.register_move(dst=i, src=0)

    nl.fori_loop(0, 4, body)
    return x
""",
    "NKI213": """
def kernel(x):
    total = nl.ndarray((128, 513), nl.float32, buffer=nl.psum)
    left, right = nl.ndarray((128, 128), nl.float32), nl.ndarray((128, 513), nl.float32)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    return x
""",
    "NKI401": """
def kernel(x):
    out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    tile = nl.load(x)
    nisa.nc_matmul(dst=total, stationary=tile, moving=tile, accumulate=True)
    nl.store(out, nl.copy(total))
    return out
""",
    "NKI414": """
def kernel(x):
    out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), nl.float32)
    nisa.memset(tile, 0.0)
    nisa.dma_copy(tile, x)
    nl.store(out, tile)
    return out
""",
    "NKI416": """
def kernel(x):
    out = nl.ndarray((128, 256), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    tile = nl.load(x)
    for n in range(2):
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
        nl.store(out[:, n * 128 : (n + 1) * 128], nl.copy(total))
    return out
""",
    "NKI502": """
def kernel(x):
    out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
    narrow, wide = nl.ndarray((128, 128), nl.bfloat16), nl.ndarray((128, 128), nl.float32)
    nisa.activation(dst=narrow, op=nl.exp, data=nl.load(x))
    nisa.tensor_copy(dst=wide, src=narrow)
    nl.store(out, wide)
    return out
""",
    "NKI503": """
def kernel(x):
    out = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.bfloat16)
    nisa.iota(tile, [[1, 512]])
    nl.store(out, tile)
    return out
""",
    "NKI504": """
def kernel(x):
    out = nl.ndarray((128, 512), nl.float16, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.float16)
    nisa.memset(tile, -70000.0)
    nl.store(out, tile)
    return out
""",
    "": """
def kernel(x):
    out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
    spare, total = nl.ndarray((128, 128), nl.float32), nl.ndarray((128, 1), nl.float32)
    tile, command = nl.load(x), nisa.reduce_cmd
    nisa.activation(dst=spare, op=nl.copy, data=tile, reduce_op=nl.add, reduce_cmd=command.reset_reduce)
    nisa.activation(dst=spare, op=nl.copy, data=tile, reduce_op=nl.add, reduce_cmd=command.reduce, reduce_res=total)
    nl.store(out, total)
    return out
""",
}


@pytest.mark.parametrize("code", RULES)
def test_the_checker_finds_in_calls_of_clones_what_it_finds_in_those_of_originals(
    cloned: Callable[[str], str], tmp_path: Path, code: str
) -> None:
    found = []
    for name, text in (("one", RULES[code]), ("two", cloned(RULES[code]))):
        item = Written(tmp_path / name, text)
        checked = query.check(item.file, function="kernel", args=[nki_lab.spec((128, 128), "float32")], target="trn2")
        found.append(item.said(checked))
    assert found[0] == found[1]
    assert {item[0] for item in found[0]} == ({code} if code else set())


WIDE = """
def kernel(x):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    narrow, left = nl.ndarray((128, 128), nl.bfloat16), nl.ndarray((128, 128), nl.float32)
    right = nl.ndarray((128, 512), nl.float32)
    nisa.dma_copy(narrow, x[:, 0:128])
    nisa.tensor_copy(left, narrow)
    nisa.dma_copy(right, x)
    for _ in range(32):
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    nl.store(out, nl.copy(total))
    return out
"""


def test_advice_on_float32_matmuls_is_given_for_clones(cloned: Callable[[str], str], tmp_path: Path) -> None:
    one, two = Written(tmp_path / "one", WIDE), Written(tmp_path / "two", cloned(WIDE))
    spec = nki_lab.spec((128, 512), "bfloat16")
    first, second = (item.said(nki_lab.profile(item.function, spec, target="trn2").diagnostics) for item in (one, two))
    assert first == second
    (advice,) = [item for item in first if item[0] == "NKI702"]
    assert "nothing is lost" in advice[3]


EXCHANGE = """
def kernel(x):
    core = nl.program_id(0)
    out = nl.ndarray((2, 128, 128), nl.float32, buffer=nl.shared_hbm)
    mine, other = nl.load(x[core]), nl.ndarray((128, 128), nl.float32)
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nl.store(out[core], other)
    nisa.core_barrier(out, (0, 1))
    return out
"""


def test_clones_of_an_exchange_are_paired_between_the_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = EXCHANGE
    for name in ("sendrecv", "core_barrier"):
        enter(monkeypatch, replace(TABLE[name], name=other_name(name), index=len(TABLE)))
        text = text.replace(f"nisa.{name}", f"nisa.{other_name(name)}")
    one, two = Written(tmp_path / "one", EXCHANGE), Written(tmp_path / "two", text)
    x = np.arange(2 * 128 * 128, dtype=np.float32).reshape(2, 128, 128)
    first, second = (nki_lab.run(item.function, x, target="trn2", grid=2) for item in (one, two))
    np.testing.assert_array_equal(second.outputs[0], x[::-1])
    assert one.columns(first) == two.columns(second)
    apart = Written(tmp_path / "three", text.replace("send_to_rank=1 - core", "send_to_rank=core"))
    with pytest.raises(NkiError) as caught:
        nki_lab.run(apart.function, x, target="trn2", grid=2)
    assert [item.code for item in caught.value.diagnostics] == ["NKI405"]
    assert "SENDRECV of pipe 0" in caught.value.diagnostics[0].message


# -- instructions that write registers -----------------------------------------------------------------------------


def adding(**properties: Any) -> Instruction:
    """Declare an instruction that adds registers, with the result first or last in the call."""

    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        total = sum(value_of(state.values, use.attrs[name]) for name in ("left", "right"))
        state.values[use.attrs["total"].number] = total

    body = {
        "__doc__": "total = left + right, of registers or constants.",
        "left": attr("register_or_int", "first term"),
        "right": attr("register_or_int", "second term"),
        "total": attr("register_out", "register to write"),
        "example": {"left": "register 1", "right": 2, "total": "register"},
        "numerics": numerics,
        "cost": register_move.cost,
        "beta1": Unmodelled("Beta 1 has no registers"),
        "precision": lambda use: "native",
    }
    return instruction(engine="sync", see="this test")(type("register_add", (), body | properties))


def total_of(use: Use, values: RegisterValues) -> int | None:
    terms = [content_of(values, use.attrs[name]) for name in ("left", "right")]
    return None if None in terms else sum(term for term in terms if term is not None)


ADDED = """
def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    few, many = nisa.register_alloc(2), nisa.register_alloc(0)
    nisa.register_add(few, few, many)
    nisa.register_add(many, 2, many)
    for _ in nl.dynamic_range(many):
        nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
    nl.store(out, tile)
    return out
"""


@pytest.fixture
def register_add(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Instruction]]:
    def declare(**properties: Any) -> Instruction:
        made = adding(**properties)
        monkeypatch.setitem(vars(nki.isa), made.name, instruction_function(made.name))
        return made

    yield declare
    TABLE.pop("register_add", None)


def test_an_instruction_that_computes_in_registers_is_followed_without_values(
    register_add: Callable[..., Instruction], tmp_path: Path
) -> None:
    declared = register_add(register_value=total_of)
    assert declared.writes_register
    assert not declared.loads_register
    kernel = Written(tmp_path / "one", ADDED).function
    run = nki_lab.run(kernel, np.zeros((128, 64), np.float32), target="trn2")
    profile = nki_lab.profile(kernel, nki_lab.spec((128, 64), "float32"), target="trn2")
    np.testing.assert_array_equal(run.outputs[0], np.full((128, 64), 6))
    assert run.summary.instructions == profile.summary.instructions
    assert run.summary.makespan_ns == profile.summary.makespan_ns


def test_a_register_value_that_nothing_declares_is_data_which_a_profile_does_not_know(
    register_add: Callable[..., Instruction], tmp_path: Path
) -> None:
    assert register_add().loads_register
    kernel = Written(tmp_path / "one", ADDED).function
    run = nki_lab.run(kernel, np.zeros((128, 64), np.float32), target="trn2")
    assert run.summary.instructions == 12
    spec = nki_lab.spec((128, 64), "float32")
    profile = nki_lab.profile(kernel, spec, target="trn2")
    assert "NKI801" in {item.code for item in profile.diagnostics}
    assert not profile.has_recording
    counted = nki_lab.profile(kernel, spec, target="trn2", trip_counts={"_": 6})
    assert counted.summary.instructions == 12


STORED = """
def kernel(a):
    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    one, two = nisa.register_alloc(2), nisa.register_alloc(0)
    for i in nl.dynamic_range(3):
        nisa.register_move(two, i)
        nisa.store_sum(out, one, two)
    return out
"""


def test_every_register_that_an_instruction_reads_is_known_along_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        out.dst[...] = sum(value_of(state.values, use.attrs[name]) for name in ("left", "right"))

    body = {
        "__doc__": "dst = left + right, of two registers.",
        "dst": out("N", (HBM,), "tensor of one element", dtypes=(INT32,)),
        "left": attr("register", "first register"),
        "right": attr("register", "second register"),
        "example": {"dst": "hbm int32 1x1", "left": "register 1", "right": "register 2"},
        "numerics": numerics,
        "cost": register_move.cost,
        "beta1": Unmodelled("Beta 1 has no registers"),
        "precision": lambda use: "native",
    }
    try:
        declared = instruction(engine="sync", see="this test")(type("store_sum", (), body))
        monkeypatch.setitem(vars(nki.isa), declared.name, instruction_function(declared.name))
        run = nki_lab.run(Written(tmp_path / "one", STORED).function, np.zeros((1, 1), np.int32), target="trn2")
    finally:
        TABLE.pop("store_sum", None)
    np.testing.assert_array_equal(run.outputs[0], [[4]])
    path = known_path(run.program)
    assert isinstance(path, ProgramPath)
    program = executed(run.program, path)
    uses = [op.variant.use for op in program.ops() if op.variant.instruction is declared]
    assert [(use.attrs["left"], use.attrs["right"]) for use in uses] == [(2, 0), (2, 1), (2, 2)]


def test_the_checker_knows_the_registers_that_a_new_instruction_writes(
    register_add: Callable[..., Instruction], tmp_path: Path
) -> None:
    register_add(register_value=total_of)
    for written, codes in (("many", set()), ("few", {"NKI301"})):
        text = ADDED.replace("nisa.register_alloc(0)", "nisa.register_alloc()").replace(
            "(many, 2, many)", "(few, 2, few)"
        )
        file = Written(tmp_path / written, text.replace("(few, few, many)", f"(few, few, {written})")).file
        found = query.check(file, function="kernel", args=[nki_lab.spec((128, 64), "float32")], target="trn2")
        assert {item.code for item in found} - {"NKI601"} == codes


def test_register_value_is_what_the_arithmetic_writes() -> None:
    for declared in TABLE.values():
        if declared.register_value is not None:
            attrs = {"dst": Register(1), "src": Register(0)}
            state = type("State", (), {"values": {0: 41}})
            use = Use(declared, None, {}, attrs, {})  # type: ignore[arg-type]
            assert callable(declared.numerics)
            declared.numerics(None, None, use, state)
            assert declared.register_value(use, [41, None]) == state.values[1] == 41
            assert declared.register_value(use, [None, None]) is None


# -- declaring ------------------------------------------------------------------------------------------------------

PLAIN = Contraction(plain=lambda use: True)
MODE = Accumulation(operand="src", mode=lambda use: None)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"accumulates": lambda use: True}, "unknown properties: accumulates"),
        ({"role": "move"}, "role is 'copy'"),
        ({"role": "copy", "more": arg("P F", ONCHIP, "another input")}, "role is 'copy'"),
        ({"contraction": PLAIN}, "'stationary' as an operand of role 'in'"),
        ({"contraction": "dst"}, "contraction is no Contraction"),
        ({"accumulation": MODE}, "'src' as an operand of role 'out'"),
        ({"fills": Fill(operand="value", bounds=lambda use: (0, 0))}, "'value' as an operand of role 'attr'"),
        ({"keeps_state": True}, "keeps_state is no Callable"),
        ({"register_value": total_of}, "writes 0 registers"),
        ({key: attr("register_out", "register to write") for key in ("one", "two")}, "writes 2 registers"),
    ],
    ids=lambda item: "-".join(item) if isinstance(item, dict) else "",
)
def test_a_property_that_does_not_fit_is_refused_at_import(properties: dict[str, Any], complaint: str) -> None:
    body = {
        "__doc__": "dst = src, for this test.",
        "dst": out("P F", ONCHIP, "destination"),
        "src": arg("P F", ONCHIP, "source"),
        "example": {"dst": "sbuf float32 128x96", "src": "sbuf float32 128x96"} | {key: "register" for key in ("one", "two") if key in properties},
        "numerics": lambda out, ins, use, state: np.copyto(out.dst, ins.src),
        "cost": lambda use: Cost(interval=64.0, latency=64.0, source="none", confidence="guess"),
        "beta1": Unmodelled("not in Beta 1"),
    }  # fmt: skip
    if "more" in properties:
        body["example"] = {**body["example"], "more": "sbuf float32 128x96"}  # type: ignore[dict-item]
    try:
        with pytest.raises(ValueError, match=complaint):
            instruction(engine="vector", see="this test")(type("moves", (), body | properties))
    finally:
        TABLE.pop("moves", None)


def test_the_largest_number_of_a_fill_is_unknown_where_a_register_decides() -> None:
    declared = TABLE["iota"]
    view = type("View", (), {"partitions": 128, "dtype": dtype_of("bfloat16"), "space": SBUF})
    assert declared.fills is not None
    for offset, bounds in ((3, (3, 3 + 511 + 127)), (Register(0), None)):
        attrs = {"pattern": [[1, 512]], "offset": offset, "channel_multiplier": 1}
        assert declared.fills.bounds(Use(declared, None, {"dst": view}, attrs, {})) == bounds  # type: ignore[arg-type]


def test_the_table_is_left_as_it_was() -> None:
    assert set(TABLE) == NAMES


def test_accumulation_names_psum_results() -> None:
    found = [item for item in TABLE.values() if item.accumulation is not None]
    assert found
    for item in found:
        assert item.accumulation is not None
        assert item.operands[item.accumulation.operand].spaces == (PSUM,)
