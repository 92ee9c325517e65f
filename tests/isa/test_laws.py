"""Declarations decide: what holds for an instruction holds for one that is declared alike under another name."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from typing import Any

import neuronxcc.nki.isa
import nki.isa
import numpy as np
import pytest

import nki_lab
from nki_lab import session
from nki_lab.isa import enums
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.spec import ONCHIP, TABLE, Beta1, Cost, Instruction, Use, arg, instruction, out
from nki_lab.kernel_runtime.beta1.instructions import instruction_function as beta1_function
from nki_lab.kernel_runtime.beta1.names import _instruction_names
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.schedule.lanes import lanes_of
from nki_lab.kernel_runtime.timing.costs import costs_of
from tests.verdicts import evaluated, loaded

TARGETS = ("trn1", "trn2", "trn3")
PARTITIONS = 128
NAMES = {"dma_copy": "own_transfer", "tensor_scalar": "own_scalar_op"}

_numbers = count(10_000)
CLONES = {clone: replace(TABLE[name], name=clone, index=next(_numbers)) for name, clone in NAMES.items()}


def enter(monkeypatch: pytest.MonkeyPatch, made: Instruction) -> None:
    """Put an instruction into the table and into the modules of both dialects, while a test runs."""
    monkeypatch.setitem(TABLE, made.name, made)
    monkeypatch.setitem(vars(nki.isa), made.name, instruction_function(made.name))
    if isinstance(made.beta1, Beta1):
        monkeypatch.setitem(vars(neuronxcc.nki.isa), made.name, beta1_function(made.name))


@pytest.fixture
def clones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for made in CLONES.values():
            enter(patch, made)
        _instruction_names.cache_clear()
        yield
    _instruction_names.cache_clear()


def renamed(text: str) -> str:
    """A kernel with the clones in place of the originals."""
    for name, clone in NAMES.items():
        text = text.replace(f"nisa.{name}(", f"nisa.{clone}(")
    return text


def original(text: str) -> str:
    """A message about a clone, as it would be about the original."""
    for name, clone in NAMES.items():
        text = text.replace(clone, name)
    return text


def function_of(text: str, name: str = "kernel") -> Callable[..., Any]:
    found = vars(loaded(Path(f"/laws/m{next(_numbers)}.py"), text))[name]
    return getattr(found, "function", found)


CURRENT = textwrap.dedent("""
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        scale = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(scale, x[:, 0:1])
        for column in range(4):
            tile = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, x[:, 64 * column : 64 * column + 64])
            nisa.tensor_scalar(tile, tile, nl.multiply, scale, op1=nl.add, operand1=0.5)
            nisa.dma_copy(out[:, 64 * column : 64 * column + 64], tile, dge_mode=nisa.dge_mode.none)
        return out
""")


def comparable(run: Any) -> dict[str, Any]:
    """Everything of a run that does not depend on what its instructions are called."""
    recording = run.recording
    return {
        "output": np.asarray(run.output).tobytes(),
        "rows": [replace(row, name=original(row.name), file="") for row in map(recording.row, range(len(recording)))],
        "lanes": [(lane.name, lane.kind) for lane in recording.lanes],
        "diagnostics": [(item.code, original(item.message), item.span.line) for item in run.diagnostics],
    }


@pytest.mark.parametrize("target", TARGETS)
def test_clones_run_in_the_same_time_on_the_same_lanes_with_the_same_findings(clones: None, target: str) -> None:
    x = np.random.default_rng(1).standard_normal((PARTITIONS, 256)).astype(np.float32)
    runs = [nki_lab.run(function_of(text), x, target=target) for text in (CURRENT, renamed(CURRENT))]
    assert set(runs[1].recording.texts("ops", "name")) == set(NAMES.values())
    assert comparable(runs[1]) == comparable(runs[0])
    np.testing.assert_allclose(runs[1].output, x * x[:, :1] + 0.5, rtol=1e-6)


FAULTY = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def kernel(x: nt.tensor[[128, 512], nl.float32]):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    other = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
    unread = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    for row in range(0, 512, 4):
        nisa.dma_copy(tile[:, row : row + 4], x[:, row : row + 4])
    nisa.tensor_scalar(unread, tile, nl.add, 1.0)
    nisa.tensor_scalar(other, tile, nl.minimum, 1e39)
    nisa.dma_copy(out, other, priority=7)
    return out

@nki.jit
def second(x: nt.tensor[[128, 512], nl.float32]):
    tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, tile, nl.average, 1.0)

@nki.jit
def third(x: nt.tensor[[128, 512], nl.float32]):
    tile = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x, dge_modes=0)
"""


def test_the_checker_and_its_rules_find_the_same_in_clones(clones: None) -> None:
    text = FAULTY.replace(", priority=7", "")
    for source in (FAULTY, text):
        found = [
            [
                (item.code, original(item.message), item.span.line)
                for item in nki_lab.check(source=version, target="trn2")
            ]
            for version in (source, renamed(source))
        ]
        assert found[1] == found[0]
        assert len({code for code, _, _ in found[0]}) > 3


LEGACY = """
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 3, 3, 3, 3, 3), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    part = tile[:, 0:2, 0:2, 0:2, 0:2, 0:2]
    part[...] = nisa.tensor_scalar(part, np.add, 1.0, reverse0=False, op1=np.multiply, operand1=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
CORNER = np.s_[:, 0:2, 0:2, 0:2, 0:2, 0:2]
"""More free dimensions than an access pattern has."""


def test_clones_are_split_and_spelled_in_beta_1_as_the_originals_are(clones: None) -> None:
    x = np.random.default_rng(2).standard_normal((PARTITIONS, 3, 3, 3, 3, 3)).astype(np.float32)
    done = [
        session.execute(session.Launch(function_of(text), "trn2", dialect="beta1"), (x,), {})
        for text in (LEGACY, renamed(LEGACY))
    ]
    programs = [original(run.program.text()) for run in done]
    assert programs[1] == programs[0]
    assert programs[0].count("tensor_scalar(") == 2
    assert [array.tobytes() for array in done[1].flat] == [array.tobytes() for array in done[0].flat]
    made = evaluated(renamed(LEGACY), Path("/laws/beta1.py"), (nki_lab.spec(x.shape, "float32"),), "trn2",
                     dialect="beta1")[0]  # fmt: skip
    assert made.code == ""


# -- routes of DMA -----------------------------------------------------------------------------------------------------


ROUTED = """
import nki.isa as nisa
import nki.language as nl

def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 64), x.dtype, buffer=nl.sbuf)
    back = nl.ndarray((64, 16), x.dtype, buffer=nl.sbuf)
    index = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.memset(index, 0)
    {call}
    return out
"""
CALLS = [
    *(f"nisa.dma_copy({ends}, dge_mode=nisa.dge_mode.{mode.name}{trigger})"
      for ends, mode in product(("tile, x", "out, tile"), enums.dge_mode)
      for trigger in ("", *([", engine=nisa.engine.scalar"] if mode is enums.dge_mode.hwdge else []))),
    *(f"nisa.dma_copy(tile[0:1], x.ap([[64, 1], [1, 64]], scalar_offset=index, indirect_dim=0), dge_mode=nisa.dge_mode."
      f"{mode.name})" for mode in enums.dge_mode),
    *(f"nisa.dma_transpose(back, x, dge_mode=nisa.dge_mode.{mode.name})" for mode in enums.dge_mode),
    "nisa.dma_compute(tile, [x, x], nl.add)",
    *(f"nisa.dma_copy(tile, x, priority={level})" for level in range(4)),
]  # fmt: skip


def routed(call: str, target: str) -> Program | None:
    """The program of a call; None where the target or the call refuses the mode."""
    kernel = function_of(ROUTED.format(call=call))
    try:
        return session.specialise(session.Launch(kernel, target), (nki_lab.spec((16, 64), "bfloat16"),))[0]
    except nki_lab.NkiError:
        return None


def generation_of(program: Program) -> tuple[str, str, int]:
    """(trigger of the lane, generator of the cost, time that the generator takes) of the only DMA."""
    row = next(op.index for op in program.ops() if op.variant.engine == "dma")
    lanes, of_op = lanes_of(program)
    cost = costs_of(program)[program.op_variant[row]]
    return lanes[of_op[row]].trigger, cost.generator, cost.trigger


@pytest.mark.parametrize(("call", "target"), list(product(CALLS, TARGETS)))
def test_lane_and_cost_of_a_transfer_agree(call: str, target: str) -> None:
    program = routed(call, target)
    if program is None:
        assert "dge_mode" in call or "priority" in call
        return
    trigger, generator, time = generation_of(program)
    assert trigger == generator
    assert (time == 0) == (trigger == "")


@pytest.mark.parametrize(
    ("arguments", "target", "trigger"),
    [
        ("", "trn1", ""), ("", "trn2", "sync"), ("", "trn3", "sync"),
        (", dge_mode=nisa.dge_mode.none", "trn2", ""), (", dge_mode=nisa.dge_mode.swdge", "trn1", "gpsimd"),
        (", dge_mode=nisa.dge_mode.hwdge", "trn2", "sync"), (", priority=1", "trn3", "sync"),
        (", dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar", "trn2", "scalar"),
    ],
)  # fmt: skip
def test_what_is_left_to_the_compiler_is_described_by_hardware_where_there_is_some(
    arguments: str, target: str, trigger: str
) -> None:
    program = routed(f"nisa.dma_copy(tile, x{arguments})", target)
    assert program is not None
    assert generation_of(program)[0] == trigger


def test_run_time_addresses_are_never_described_before_the_kernel_starts() -> None:
    call = "nisa.dma_copy(tile[0:1], x.ap([[64, 1], [1, 64]], scalar_offset=index, indirect_dim=0){})"
    for target, trigger in (("trn1", "gpsimd"), ("trn2", "sync")):
        for mode in ("", ", dge_mode=nisa.dge_mode.none"):
            program = routed(call.format(mode), target)
            assert program is not None
            assert generation_of(program)[:2] == (trigger, trigger)


EXCHANGE = """
import nki.isa as nisa
import nki.language as nl

def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 64), x.dtype, buffer=nl.sbuf)
    other = nl.ndarray((16, 64), x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 0.0)
    peer = 1 - nl.program_id(0)
    nisa.sendrecv(tile, other, peer, peer, 0, dma_engine=nisa.dma_engine.{engine})
    return out
"""


@pytest.mark.parametrize(("engine", "trigger"), [("dma", "sync"), ("gpsimd_dma", "gpsimd")])
def test_lane_and_cost_of_an_exchange_agree(engine: str, trigger: str) -> None:
    kernel = function_of(EXCHANGE.format(engine=engine))
    program, _ = session.specialise(session.Launch(kernel, "trn2", grid=(2,)), (nki_lab.spec((16, 64), "float32"),))
    assert generation_of(program)[:2] == (trigger, trigger)


# -- a tile or a number ------------------------------------------------------------------------------------------------


def _limit(out: Any, ins: Any, use: Use, state: Any) -> None:
    np.multiply(np.minimum(ins.data, ins.most), ins.factor, out=out.dst)


def _cost(use: Use) -> Cost:
    columns = free_size(use, "dst") * (1 if use.value("most") == 0.25 else 2)
    return engine_cost(use, columns, source="this test", confidence="guess")


LIMITED_BODY: dict[str, Any] = {
    "__doc__": "dst = min(data, most) * factor, element by element, in float32.",
    "dst": out("P F", ONCHIP, "result, cast on write"),
    "data": arg("P F", ONCHIP, "input tile"),
    "most": arg("P 1", ONCHIP, "a number, or a tile of one column", scalar=True),
    "factor": arg("P 1", ONCHIP, "a number, or a tile of one column", scalar=True, default=2.0),
    "elementwise": True,
    "example": {"dst": "sbuf float32 128x64", "data": "sbuf float32 128x64", "most": 0.25},
    "numerics": _limit,
    "cost": _cost,
    "beta1": Beta1(order="data most factor"),
}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Instruction:
    made = instruction(engine="vector", see="this test")(type("own_limited", (), LIMITED_BODY))
    TABLE.pop(made.name)
    made = replace(made, index=next(_numbers))
    enter(monkeypatch, made)
    return made


LIMITED = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def kernel(x: nt.tensor[[128, 64], nl.float32]):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
    column = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.memset(column, 0.25)
    nisa.own_limited(tile, tile, {most}{factor})
    nisa.dma_copy(out, tile)
    return out
"""


@pytest.mark.parametrize(
    ("most", "factor", "times"),
    [("0.25", "", 2.0), ("column", "", 2.0), ("0.25", ", 3", 3.0), ("0.25", ", factor=column", 0.25),
     ("column", ", factor=column", 0.25)],
)  # fmt: skip
def test_an_operand_that_may_be_a_tile_or_a_number_is_one_thing_to_its_declaration(
    limited: Instruction, most: str, factor: str, times: float
) -> None:
    text = LIMITED.format(most=most, factor=factor)
    x = np.random.default_rng(3).standard_normal((PARTITIONS, 64)).astype(np.float32)
    run = nki_lab.run(function_of(text), x, target="trn2")
    np.testing.assert_array_equal(run.output, np.minimum(x, np.float32(0.25)) * np.float32(times))
    profiled = nki_lab.profile(function_of(text), nki_lab.spec(x.shape, "float32"), target="trn2")
    assert comparable(profiled)["rows"] == comparable(run)["rows"]
    found = nki_lab.check(source=text, target="trn2")
    assert [item.code for item in found] == [item.code for item in run.diagnostics]


def test_a_limit_and_a_cost_tell_a_number_from_a_tile(limited: Instruction) -> None:
    durations = []
    for most in ("0.25", "column"):
        kernel = function_of(LIMITED.format(most=most, factor=""))
        program, _ = session.specialise(session.Launch(kernel, "trn2"), (nki_lab.spec((128, 64), "float32"),))
        costs = costs_of(program)
        durations.append(next(costs[v.id].interval for v in program.variants if v.instruction is limited))
    assert durations[0] < durations[1]


@pytest.mark.parametrize("most", ["0.25", "column"])
def test_a_declared_elementwise_instruction_takes_either_form_in_beta_1(limited: Instruction, most: str) -> None:
    call = "nisa.tensor_scalar(part, np.add, 1.0, reverse0=False, op1=np.multiply, operand1=2.0)"
    text = LEGACY.replace(call, f"nisa.own_limited(part, {most})").replace(
        "    part =", "    column = nl.full((nl.par_dim(128), 1), 0.25, dtype=nl.float32, buffer=nl.sbuf)\n    part ="
    )
    x = np.random.default_rng(4).standard_normal((PARTITIONS, 3, 3, 3, 3, 3)).astype(np.float32)
    (output,) = session.execute(session.Launch(function_of(text), "trn2", dialect="beta1"), (x,), {}).flat
    wanted = x.copy()
    wanted[CORNER] = np.minimum(x[CORNER], np.float32(0.25)) * 2
    np.testing.assert_array_equal(output, wanted)


# -- work --------------------------------------------------------------------------------------------------------------


WORK = """
import nki.isa as nisa
import nki.language as nl

def kernel(x):
    out = nl.ndarray((64, 32), nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
    b = nl.ndarray((128, 32), nl.bfloat16, buffer=nl.sbuf)
    result = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)
    turned = nl.ndarray((64, 128), nl.bfloat16, buffer=nl.psum)
    nisa.memset(a, 1.0)
    nisa.memset(b, 1.0)
    nisa.nc_matmul(result, a, b)
    nisa.nc_transpose(turned, a)
    return out
"""


def test_instructions_count_their_work_in_their_own_unit() -> None:
    program, _ = session.specialise(session.Launch(function_of(WORK), "trn2"), (nki_lab.spec((16, 64), "float32"),))
    found = {
        variant.instruction.name: (declared.work(variant.use), declared.work_unit, declared.flops(variant.use),
                                   declared.transpose_flops(variant.use))
        for variant in program.variants for declared in (variant.instruction,) if declared.name != "memset"
    }  # fmt: skip
    assert found == {
        "nc_matmul": (128 * 64 * 32, "multiply-adds", 2 * 128 * 64 * 32, 0),
        "nc_transpose": (128 * 64, "elements", 0, 2 * 128 * 128 * 64),
    }
