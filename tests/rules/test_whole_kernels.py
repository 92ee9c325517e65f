"""Rules on whole kernels and on their times: what they are given, what their pages show, and what gains mean."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import nki_lab
from nki_lab import codes, session
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.coverage import Coverage
from nki_lab.quantities import share
from nki_lab.rules import PROGRAM_RULES, TIMED_RULES, ProgramFacts, ProgramRule, TimedRule, check_program
from nki_lab.session.outcome import Execution
from tests.snippets import HEADS, Snippet, expectations, findings, snippets
from tests.verdicts import loaded

FOLDER: Final = Path(__file__).parent
SPEC: Final = nki_lab.spec((128, 2048), "float32")
EXTRA: Final = {"NKI127", "NKI333"}  # what the current dialect says about affine_range, and Beta 1 about blocks
COMPLETE: Final = [rule for rule in PROGRAM_RULES if "@nki.jit" in codes.get(rule.code).body]
_numbers = count()


def kernel_of(source: str) -> Any:
    text = HEADS["current"] + textwrap.dedent(source)
    module = loaded(Path(f"whole_{next(_numbers)}.py"), text)
    return next(value for name, value in vars(module).items() if hasattr(value, "function") and name != "nki")


def profiled(source: str, *specs: Any) -> Execution:
    return session.profile(session.Launch(kernel_of(source).function, "trn2"), specs or (SPEC,))


def makespan(execution: Execution) -> float:
    assert execution.timeline is not None
    return float(execution.timeline.summary["makespan_ns"])


def said(execution: Execution, code: str) -> Diagnostic:
    (found,) = [item for item in execution.diagnostics if item.code == code]
    return found


def gain_of(found: Diagnostic) -> int:
    told = re.search(r"would gain ([\d,]+) ns of ([\d,]+) \((\S+ %)\)", found.message)
    assert told
    gain, whole = (int(part.replace(",", "")) for part in told.groups()[:2])
    assert told[3] == share(gain / whole)
    return gain


def example_of(code: str) -> str:
    example = codes.get(code).body.partition("## Use instead")[0]
    (source,) = re.findall(r"```python\n(.*?)```", example, re.DOTALL)
    return str(source)


# The list of rules


@pytest.mark.parametrize("rule", TIMED_RULES, ids=lambda rule: rule.code)
def test_advice_never_stops_a_kernel(rule: TimedRule) -> None:
    facts = codes.get(rule.code)
    assert facts.outcome == "advice"
    assert facts.severity in ("information", "hint")


@pytest.mark.parametrize("rule", PROGRAM_RULES, ids=lambda rule: rule.code)
def test_every_rule_is_shown_bad_and_good(rule: ProgramRule) -> None:
    document = FOLDER / f"{codes.get(rule.code).slug}.md"
    shown = [list(expectations(item.source)) for item in snippets(document.read_text(encoding="utf-8"))]
    assert any(item.code == rule.code for items in shown for item in items)
    assert any(not any(item.code == rule.code for item in items) for items in shown)


@pytest.mark.parametrize("rule", COMPLETE, ids=lambda rule: rule.code)
def test_a_code_s_own_page_shows_what_its_rule_finds(rule: ProgramRule) -> None:
    found = findings(Snippet("", 1, example_of(rule.code), {"check": "full"}))
    assert {item.code for item in found} - EXTRA == {rule.code}


@pytest.mark.parametrize("rule", TIMED_RULES, ids=lambda rule: rule.code)
def test_advice_s_own_page_shows_what_it_gains(rule: TimedRule) -> None:
    kernel = kernel_of(example_of(rule.code))
    wide = (nki_lab.spec((128, 128), "bfloat16"), nki_lab.spec((128, 4096), "bfloat16"))
    specs = {
        "NKI702": wide,
        "NKI703": (nki_lab.spec((128, 16384), "float32"),),
        "NKI704": (nki_lab.spec((128, 4096), "float32"),),
        "NKI708": (nki_lab.spec((128, 16384), "float32"),),
        "NKI706": (nki_lab.spec((16, 8, 2048), "float32"),),
        "NKI709": (nki_lab.spec((32, 128, 8192), "bfloat16"),),
        "NKI710": (nki_lab.spec((8, 128, 24576), "float32"),),
    }.get(rule.code, (SPEC,))
    run = session.profile(session.Launch(kernel.function, "trn2"), specs)
    assert {item.code for item in run.diagnostics} == {rule.code}
    assert gain_of(said(run, rule.code)) > makespan(run) / 20


# What rules are given

FORGOTTEN: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, spare = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=spare, src=tile)
        {more}
        nl.store(out, tile)
        return out
"""


def test_analyses_are_made_once() -> None:
    facts = ProgramFacts(program=profiled(FORGOTTEN.format(more="")).program)
    asked = []

    def analysis(given: ProgramFacts) -> int:
        asked.append(given)
        return len(asked)

    assert (facts.once(analysis), facts.once(analysis), asked) == (1, 1, [facts])


def test_what_is_known_is_not_worked_out_again() -> None:
    program = profiled(FORGOTTEN.format(more="")).program
    known = Coverage()
    assert ProgramFacts(program=program, known_coverage=known).coverage is known


def test_nothing_follows_from_what_a_part_of_a_program_does_not_do() -> None:
    facts = ProgramFacts(program=profiled(FORGOTTEN.format(more="")).program)
    assert [item.code for item in check_program(facts)] == ["NKI414"]
    assert not check_program(replace(facts, complete=False))
    everything = frozenset(range(len(facts.program.buffers)))
    assert not check_program(replace(facts, doubtful=everything))


def test_rules_judge_runs_profiles_and_compilations_alike() -> None:
    kernel = kernel_of(FORGOTTEN.format(more=""))
    array = np.zeros((128, 2048), np.float32)
    run = session.execute(session.Launch(kernel.function, "trn2"), (array,), {})
    again = session.execute(session.Launch(kernel.function, "trn2"), (array,), {})
    assert again.cached
    _, compiled = session.specialise(session.Launch(kernel.function, "trn2"), (SPEC,))
    for found in (run.diagnostics, again.diagnostics, compiled):
        assert [item.code for item in found] == ["NKI414"]


def test_a_value_that_is_looked_at_is_read() -> None:
    kernel = kernel_of(FORGOTTEN.format(more="shown = spare.numpy()"))
    run = session.execute(session.Launch(kernel.function, "trn2"), (np.zeros((128, 2048), np.float32),), {})
    assert not [item for item in run.diagnostics if item.code == "NKI414"]


def test_a_kernel_without_instructions_has_no_findings() -> None:
    assert not profiled("@nki.jit\ndef kernel(x):\n    return x\n").diagnostics


# What gains mean

TILES: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in range({tiles}):
            tiles.append(nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf))
        for i in range(8):
            tile = tiles[i % {tiles}]
            nisa.dma_copy(dst=tile, src=x[:, i * 2048 : (i + 1) * 2048])
            nl.store(out[:, i * 2048 : (i + 1) * 2048], nl.add(tile, 1.0))
        return out
"""


def test_a_second_tile_gains_what_is_said() -> None:
    wide = nki_lab.spec((128, 16384), "float32")
    one, two = (profiled(TILES.format(tiles=number), wide) for number in (1, 2))
    assert makespan(one) - makespan(two) == pytest.approx(gain_of(said(one, "NKI703")), abs=1)


def test_a_second_tile_is_not_advised_where_there_is_no_room() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            tile = nl.ndarray((128, 27 * 1024), dtype=x.dtype, buffer=nl.sbuf)
            for i in range(4):
                nisa.dma_copy(dst=tile, src=x[i])
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
                nisa.dma_copy(dst=out[i], src=tile)
            return out
    """
    large = nki_lab.spec((4, 128, 27 * 1024), "float32")
    assert "NKI703" not in {item.code for item in profiled(source, large).diagnostics}


MATMULS: Final = """
    @nki.jit
    def kernel(x):
        w = nl.ndarray((128, 128), dtype=nl.{dtype}, buffer=nl.sbuf)
        m = nl.ndarray((128, 512), dtype=nl.{dtype}, buffer=nl.sbuf)
        nisa.memset(dst=w, value=1.0)
        nisa.memset(dst=m, value=1.0)
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for _ in range(32):
            nisa.nc_matmul(dst=acc, stationary=w, moving=m)
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(acc))
        return out
"""


def test_bfloat16_matmuls_gain_what_is_said() -> None:
    wide, narrow = (profiled(MATMULS.format(dtype=name)) for name in ("float32", "bfloat16"))
    found = said(wide, "NKI702")
    assert makespan(wide) - makespan(narrow) == pytest.approx(gain_of(found), abs=1)
    assert "where 8 bits are enough" in found.message
    assert "NKI702" not in {item.code for item in narrow.diagnostics}


PIECES: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(2048 // {width}):
            tile = nl.load(x[:, i * {width} : (i + 1) * {width}])
            nl.store(out[:, i * {width} : (i + 1) * {width}], nl.add(tile, 1.0))
        return out
"""


def test_longer_pieces_gain_about_what_is_said() -> None:
    short, long = (profiled(PIECES.format(width=width)) for width in (64, 512))
    # The other kernel also adds an eighth as often, and each of its additions is longer.
    assert makespan(short) - makespan(long) == pytest.approx(gain_of(said(short, "NKI701")), rel=0.1)
    assert not long.diagnostics


def test_pieces_without_neighbours_cannot_be_longer() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray((32, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
            for i in range(32):
                nl.store(out[i], nl.load(x[i]))
            return out
    """
    assert "NKI701" not in {item.code for item in profiled(source, nki_lab.spec((32, 128, 64), "float32")).diagnostics}


def test_neighbours_of_an_outer_loop_are_moved_together_where_they_fit() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray((8, 16, 128, {columns}), dtype=x.dtype, buffer=nl.shared_hbm)
            for i in range(8):
                for j in range(16):
                    tile = nl.load(x[j * 128:(j + 1) * 128, i * {columns}:(i + 1) * {columns}])
                    nl.store(out[i, j], tile)
            return out
    """
    found = profiled(source.format(columns=64), nki_lab.spec((2048, 512), "float32"))
    assert said(found, "NKI701").line == 7 + len(HEADS["current"].splitlines())


def test_short_pieces_of_little_data_are_left_alone() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x[:, 0:16]))
            return out
    """
    assert not profiled(source).diagnostics


def test_advice_is_in_runs_that_are_timed() -> None:
    kernel = kernel_of(PIECES.format(width=64))
    array = np.zeros((128, 2048), np.float32)
    timed = session.execute(session.Launch(kernel.function, "trn2"), (array,), {}, timed=True)
    assert [item.code for item in timed.diagnostics] == ["NKI701"]
    assert not session.execute(session.Launch(kernel.function, "trn2"), (array,), {}).diagnostics


REPEATED: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        {before}
        for i in range(16):
            {within}
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nl.store(out, total)
        return out
"""


def test_tiles_that_stay_gain_what_is_said() -> None:
    wide = nki_lab.spec((128, 4096), "float32")
    again = profiled(REPEATED.format(before="", within="tile = nl.load(x)"), wide)
    once = profiled(REPEATED.format(before="tile = nl.load(x)", within=""), wide)
    found = said(again, "NKI704")
    assert makespan(again) - makespan(once) == pytest.approx(gain_of(found), rel=0.02)
    assert found.line == 9 + len(HEADS["current"].splitlines())
    assert "15 of 16 loads" in found.message
    assert "33,554,432 bytes, 2,097,152 are enough" in found.limit
    assert not once.diagnostics


def test_one_array_for_two_parameters_is_no_repeated_load() -> None:
    source = """
        @nki.jit
        def kernel(x, y):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.add(nl.load(x), nl.load(y)))
            return out
    """
    kernel = kernel_of(source)
    array = np.zeros((128, 2048), np.float32)
    launch = session.Launch(kernel.function, "trn2")
    done = session.execute(launch, (array, array), {}, timed=True)
    assert done.program.shared_inputs == {done.program.inputs[0].id}
    assert not done.diagnostics
    other = session.execute(launch, (array, array.copy()), {}, timed=True)
    assert not other.program.shared_inputs


def test_loads_of_other_bytes_are_not_repeated() -> None:
    source = REPEATED.format(before="", within="tile = nl.load(x[i])")
    found = profiled(source, nki_lab.spec((16, 128, 4096), "float32")).diagnostics
    assert "NKI704" not in {item.code for item in found}


def test_loads_of_what_does_not_fit_are_not_advised_to_stay() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray((128, 32 * 1024), dtype=x.dtype, buffer=nl.shared_hbm)
            for _ in range(4):
                for i in range(8):
                    nl.store(out, nl.load(x[i]))
            return out
    """
    found = profiled(source, nki_lab.spec((8, 128, 32 * 1024), "float32")).diagnostics
    assert "NKI704" not in {item.code for item in found}


def test_bytes_that_were_written_between_are_loaded_again() -> None:
    source = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            for i in range(8):
                nl.store(out, nl.add(nl.load(out), 1.0))
            return out
    """
    found = profiled(source, nki_lab.spec((128, 4096), "float32")).diagnostics
    assert "NKI704" not in {item.code for item in found}


def test_another_engine_gains_what_is_said() -> None:
    source = example_of("NKI705")
    both = source.replace(
        "engine = nisa.engine.vector", "engine = nisa.engine.scalar if i % 3 == 1 else nisa.engine.vector"
    )
    one, two = profiled(source), profiled(both)
    found = said(one, "NKI705")
    assert makespan(one) - makespan(two) == pytest.approx(gain_of(found), rel=0.02)
    assert "nisa.engine.scalar" in found.help
    assert not two.diagnostics


def test_instructions_of_one_engine_have_no_other() -> None:
    source = example_of("NKI705")
    fixed = re.sub(r"nisa.tensor_scalar.dst=(\w+), data=(\w+),.*", r"nisa.reciprocal(dst=\1, data=\2)", source)
    assert "NKI705" not in {item.code for item in profiled(fixed).diagnostics}


def test_full_partitions_gain_about_what_is_said() -> None:
    source = example_of("NKI706")
    few = profiled(source, nki_lab.spec((16, 8, 2048), "float32"))
    full = profiled(
        """
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            for _ in range(8):
                tile = nl.tanh(tile)
            nl.store(out, tile)
            return out
        """
    )
    found = said(few, "NKI706")
    # The other kernel also loads and stores with all DMA engines at once.
    assert makespan(few) - makespan(full) == pytest.approx(gain_of(found), rel=0.25)
    assert "16 of 128 partitions" in found.message
    assert not full.diagnostics


LENGTHS: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        for i in range(2048 // {width}):
            columns = nl.ds(i * {width}, {width})
            nisa.activation(dst=result[:, columns], op=nl.tanh, data=tile[:, columns])
        nl.store(out, result)
        return out
"""


def test_longer_instructions_gain_what_is_said() -> None:
    short, long = (profiled(LENGTHS.format(width=width)) for width in (8, 512))
    found = said(short, "NKI707")
    assert makespan(short) - makespan(long) == pytest.approx(gain_of(found), rel=0.02)
    assert "256 instructions of 8 columns" in found.message
    assert not long.diagnostics


def test_instructions_of_one_column_are_counted_as_such() -> None:
    found = said(profiled(LENGTHS.format(width=1)), "NKI707")
    assert "2,048 instructions of 1 column, " in found.message


CHAIN: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(64):
            tile = nl.tanh(tile)
        nl.store(out, tile)
        return out
"""


@pytest.mark.parametrize("shape", [(16, 512), (128, 8)])
def test_instructions_that_follow_from_each_other_stay_apart(shape: tuple[int, int]) -> None:
    found = profiled(CHAIN, nki_lab.spec(shape, "float32")).diagnostics
    assert not {"NKI706", "NKI707"} & {item.code for item in found}


SCALED: Final = """
    @nki.jit
    def kernel(x, scales):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, scale = nl.load(x), nl.load(scales)
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        sums = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(64):
            columns = nl.ds(i * 32, 32)
            nisa.activation(dst=result[:, columns], op=nl.exp, data=tile[:, columns]{more})
        nl.store(out, result)
        return out
"""
REDUCED: Final = ", reduce_op=nl.add, reduce_res=sums[:, i:i + 1], reduce_cmd=nisa.reduce_cmd.reset_reduce"


@pytest.mark.parametrize(
    ("more", "together"),
    [("", True), (", bias=scale[:, 0:1]", True), (", bias=scale[:, i:i + 1]", False), (REDUCED, False)],
)
def test_instructions_with_scalars_or_sums_of_their_own_stay_apart(more: str, together: bool) -> None:
    signature = nki_lab.spec((128, 2048), "float32"), nki_lab.spec((128, 64), "float32")
    found = profiled(SCALED.format(more=more), *signature).diagnostics
    assert ("NKI707" in {item.code for item in found}) == together


STAYING: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in range(8):
            tiles.append(nl.tanh(nl.load(x[:, nl.ds(i * 2048, 2048)])))
        for i in range(8):
            nl.store(out[:, nl.ds(i * 2048, 2048)], nl.tanh(tiles[i]))
        return out
"""


def test_tiles_that_do_not_leave_gain_what_is_said() -> None:
    wide = nki_lab.spec((128, 16384), "float32")
    away, staying = profiled(example_of("NKI708"), wide), profiled(STAYING, wide)
    found = said(away, "NKI708")
    assert makespan(away) - makespan(staying) == pytest.approx(gain_of(found), abs=1)
    assert "8,388,608 bytes" in found.limit
    assert not staying.diagnostics


AWAY: Final = """
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
        middle = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.{memory})
        nl.store(middle[:, 0:4096], nl.tanh(nl.load(x)))
        {between}
        nl.store(out, nl.tanh(nl.load(middle[:, {first}:{end}])))
        return {result}
"""
BETWEEN: Final = "nl.store(middle[:, 2048:6144], nl.exp(nl.load(x)))"


@pytest.mark.parametrize(
    ("between", "first", "end", "result", "goes"),
    [
        ("", 0, 4096, "out", True),
        ("", 0, 4096, "out, middle", False),  # a result
        (BETWEEN, 0, 4096, "out", False),  # what comes back is of two tiles
        ("nl.store(middle[:, 0:4096], nl.exp(nl.load(x)))", 0, 4096, "out", False),  # written twice
        ("nl.store(middle[:, 4096:8192], nl.exp(nl.load(x)))", 2048, 6144, "out", False),
    ],
)
def test_round_trips_are_those_of_whole_tiles(between: str, first: int, end: int, result: str, goes: bool) -> None:
    memory = "shared_hbm" if "middle" in result else "private_hbm"
    source = AWAY.format(between=between, first=first, end=end, result=result, memory=memory)
    found = {item.code for item in profiled(source, nki_lab.spec((128, 4096), "float32")).diagnostics}
    assert ("NKI708" in found) is goes
