"""The page of an instruction says all that its declaration does, and its example runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import nki_lab
from nki_lab import query
from nki_lab.isa.spec import TABLE, Unmodelled
from nki_lab.query.examples import having, program_of, use_of
from nki_lab.query.pages import sections
from tests.every import for_each


@pytest.mark.parametrize("name", list(TABLE))
def test_the_example_of_a_page_runs_without_findings(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(program_of(TABLE[name]), encoding="utf-8")
    run = runpy.run_path(str(file))["run"]
    assert isinstance(run, nki_lab.Run)
    assert not run.diagnostics
    assert name in {op.variant.instruction.name for op in run.program.ops()}
    assert capsys.readouterr().out.endswith(" ns\n")


@for_each(list(TABLE))
def test_a_page_tells_each_target_s_cost_with_source_and_confidence(name: str) -> None:
    instruction = TABLE[name]
    costs = dict(sections(instruction))["Cost of the example"]
    assert not isinstance(instruction.cost, Unmodelled)
    for arch in having(instruction):
        cost = instruction.cost(use_of(instruction, arch))
        (row,) = (line for line in costs.splitlines() if line.startswith(f"| {arch.target} "))
        assert row.endswith(f"| {cost.confidence} | {cost.source} |")


@for_each(list(TABLE))
def test_a_page_spells_the_call_in_both_dialects_or_says_that_one_lacks_it(name: str) -> None:
    instruction = TABLE[name]
    text = query.explain(f"nisa.{name}")
    assert text is not None
    assert f"- current: `nisa.{name}({next(iter(instruction.arguments))}" in text
    assert ("- Beta 1: `" in text) != isinstance(instruction.beta1, Unmodelled)
    assert f"- NKI {instruction.release} and later" in text


def test_an_example_of_two_cores_names_the_other_one() -> None:
    waiting = [item for item in TABLE.values() if item.synchronizes is not None]
    assert waiting
    for instruction in waiting:
        assert "grid=2" in program_of(instruction)


def test_a_page_tells_where_float64_is_no_judge() -> None:
    texts = {name: dict(sections(item))["Numerics"] for name, item in TABLE.items()}
    jumping = {name for name, text in texts.items() if "least change of an input" in text}
    assert jumping
    assert jumping != set(texts)


def test_members_of_enumerations_are_spelt_as_in_a_kernel() -> None:
    texts = [str(query.explain(f"nisa.{name}")) for name in TABLE]
    assert not [text for text in texts if "<" in text.partition("**Spellings**")[2].partition("**Availability**")[0]]
    assert any("reduce_cmd=reduce_cmd.idle" in text for text in texts)
