"""The editor and the run say the same: the same first fault at the same place, or the same program.

The corpus is `tests/kernels`, a file a kernel: `kernel`, its `ARGUMENTS`, its `GRID` where it has one, the `TARGETS`
that have its instructions where not all do, and the code of its `FAULT` where it is faulty on all of them. Calls drawn from the instruction table come on top.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab import spec
from tests import calls
from tests.draws import Seeded
from tests.strategies import arches, draw_illegal, draw_legal, instructions_of
from tests.verdicts import corpus, evaluated, kernel_file, loaded, missed, traced

TARGETS = ("trn1", "trn2", "trn3")
SEEDS = 150
IMPORTS = "import nki.isa as nisa\nimport nki.language as nl\n"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", corpus())
def test_tracer_and_evaluator_agree(name: str, target: str) -> None:
    file = kernel_file(name)
    module = loaded(file)
    dialect, grid = module.kernel.dialect, getattr(module, "GRID", ())
    run = traced(module.kernel, module.ARGUMENTS, target, dialect=dialect, grid=grid)
    seen, made = evaluated(file.read_text(encoding="utf-8"), file, module.ARGUMENTS, target, dialect=dialect, grid=grid)
    assert seen == run
    assert not missed(made)
    assert run.code or not made.unknown  # a fault's children are unknown


@pytest.mark.parametrize("name", [name for name in corpus() if name.startswith("fault_")])
def test_faulty_kernels_are_faulty(name: str) -> None:
    module = loaded(kernel_file(name))
    grid, targets = getattr(module, "GRID", ()), getattr(module, "TARGETS", TARGETS)
    dialect = module.kernel.dialect
    codes = {traced(module.kernel, module.ARGUMENTS, target, dialect=dialect, grid=grid).code for target in targets}
    wanted = getattr(module, "FAULT", None)
    assert codes - {""} if wanted is None else codes == {wanted}


@pytest.mark.parametrize("name", [name for name in corpus() if not name.startswith("fault_")])
def test_correct_kernels_are_correct(name: str) -> None:
    module = loaded(kernel_file(name))
    kernel, grid = module.kernel, getattr(module, "GRID", ())
    targets = getattr(module, "TARGETS", TARGETS)
    verdicts = [traced(kernel, module.ARGUMENTS, target, dialect=kernel.dialect, grid=grid) for target in targets]
    assert {verdict.code for verdict in verdicts} == {""}
    assert all("return" in verdict.program and "line" in verdict.program for verdict in verdicts)


def test_the_corpus_has_both_kinds_and_both_dialects() -> None:
    names = corpus()
    assert sum(name.startswith("fault_") for name in names) >= 30
    assert sum(not name.startswith("fault_") for name in names) >= 16
    assert sum("beta1" in name for name in names) >= 4


@pytest.mark.parametrize("illegal", [False, True], ids=["legal", "barely illegal"])
@pytest.mark.parametrize("block", range(5))
def test_drawn_calls_agree(block: int, illegal: bool) -> None:
    for seed in range(block * SEEDS // 5, (block + 1) * SEEDS // 5):
        choice = Seeded(seed)
        arch = choice.pick(arches())
        instruction = choice.pick(instructions_of(arch))
        case = draw_illegal(choice, instruction, arch).case if illegal else draw_legal(choice, instruction, arch)
        text = IMPORTS + calls.source(case)
        file = Path(f"drawn_{seed}_{illegal}.py")
        arguments = tuple(spec(memory.shape, memory.dtype) for memory in case.memories)
        run = traced(loaded(file, text).kernel, arguments, arch.target)
        seen, _ = evaluated(text, file, arguments, arch.target)
        assert seen == run, f"seed {seed}: {text}"
