"""Instructions know the passes of Python's loops that they are issued in, at little cost."""

from __future__ import annotations

import textwrap
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_lab import spec
from nki_lab.kernel_runtime.interpreter import ModuleSource, Signature, evaluate
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.path import executed, known_path
from nki_lab.source.paths import scope_node, surroundings
from tests.calls import traced
from tests.verdicts import SNIPPET_HEAD, loaded

_numbers = count()
ADD = "nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0)"


def program_of(text: str, module: str = "") -> Program:
    body = textwrap.indent(f"x = nl.load(given)\n{text}", "    ").replace("ADD", ADD)
    source = f"{SNIPPET_HEAD}{module}\ndef kernel(given):\n{body}\n".replace("ADD", ADD)
    program, _ = traced(loaded(Path(f"passes_{next(_numbers)}.py"), source).kernel, [np.zeros((4, 8), np.float32)],
                        ["float32"], "trn2")  # fmt: skip
    return program


def chains(text: str, module: str = "") -> list[tuple[tuple[str, int], ...]]:
    """The passes of each instruction after the load, outermost first."""
    return chains_of(program_of(text, module))


def chains_of(program: Program) -> list[tuple[tuple[str, int], ...]]:
    def chain(number: int) -> tuple[tuple[str, int], ...]:
        if number < 0:
            return ()
        item = program.iterations[number]
        return (*chain(item.parent), (item.variable, item.value))

    return [chain(number) for number in program.op_iteration][1:]


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(3):\n    ADD\nADD",
        "for i in range(2):\n    ADD\n    for k in range(5, 7):\n        ADD\n    ADD",
        "for n, i in enumerate((7, 9)):\n    step(x)\nfor i in range(2):\n    step(x)",
        "for i in range(2):\n    if i:\n        break\n    ADD\nADD",
    ],
)
def test_an_evaluation_is_in_the_same_passes(text: str) -> None:
    module = "\ndef step(x):\n    for j in range(2):\n        ADD"
    body = textwrap.indent(f"x = nl.load(given)\n{text}", "    ")
    source = f"{SNIPPET_HEAD}{module}\ndef kernel(given):\n{body}\n".replace("ADD", ADD)
    signature = Signature(args=(spec((4, 8), "float32"),))
    found = evaluate(ModuleSource.parse(source, "k.py"), "kernel", signature, arch="trn2")
    verify(found.program)
    assert chains_of(found.program) == chains(text, module)


@pytest.mark.parametrize("loop", ["range(3)", "nl.affine_range(3)", "nl.sequential_range(3)", "nl.static_range(3)"])
def test_a_loop_gives_its_variable(loop: str) -> None:
    assert chains(f"for i in {loop}:\n    ADD\nADD") == [(("i", 0),), (("i", 1),), (("i", 2),), ()]


def test_loops_in_loops_give_both() -> None:
    text = "for i in range(2):\n    ADD\n    for k in range(5, 7):\n        ADD\n    ADD"
    one = lambda i: [(("i", i),), (("i", i), ("k", 5)), (("i", i), ("k", 6)), (("i", i),)]  # noqa: E731
    assert chains(text) == one(0) + one(1)


@pytest.mark.parametrize("inner", ["_", "k"])
def test_a_loop_of_the_device_may_take_over_the_name_of_the_variable_around_it(inner: str) -> None:
    text = (
        f"for _ in range(2):\n    ADD\n    for {inner} in nl.dynamic_range(3):\n        ADD\n"
        "        for j in range(2):\n            step(x)\n    ADD"
    )
    module = "\ndef step(x):\n    for n in range(2):\n        ADD"

    def one(i: int) -> list[tuple[tuple[str, int], ...]]:
        inside = [(("_", i), ("j", j), ("n", n)) for j in range(2) for n in range(2)]
        return [(("_", i),), (("_", i),), *inside]

    found = chains(text, module)
    # Behind the loop the name is that of its last number, and the pass around it another one.
    assert found[:6] == one(0)
    assert [chain[:1] for chain in found[7:13]] == [(found[7][0],)] * 6
    assert [chain[1:] for chain in found[7:13]] == [chain[1:] for chain in one(1)]


@pytest.mark.parametrize("inner", ["_", "k"])
def test_it_runs_as_often_as_both_say(inner: str) -> None:
    text = f"for _ in range(2):\n    for {inner} in nl.dynamic_range(3):\n        for j in range(2):\n            ADD"
    program = program_of(text)
    way = known_path(program)
    assert not isinstance(way, tuple)
    laid_out = executed(program, way)
    assert len(laid_out) == 13
    assert {len(chain) for chain in chains_of(laid_out)} == {3}


def test_branches_of_a_body_belong_to_its_pass() -> None:
    text = "for i in range(4):\n    if i % 2:\n        ADD\n    else:\n        nisa.memset(dst=x, value=0.0)"
    assert chains(text) == [(("i", i),) for i in range(4)]


def test_a_pass_without_instructions_leaves_no_row() -> None:
    text = "for i in range(300, 306):\n    if i % 3:\n        continue\n    ADD"
    assert chains(text) == [(("i", 300),), (("i", 303),)]
    assert len(program_of(text).iterations) == 2


def test_functions_called_in_a_pass_belong_to_it() -> None:
    module = "\ndef twice(x):\n    for k in range(2):\n        ADD\n\ndef once(x):\n    ADD\n"
    text = "twice(x)\nfor i in range(2):\n    once(x)\n    twice(x)"
    inside = lambda i: [(("i", i),), (("i", i), ("k", 0)), (("i", i), ("k", 1))]  # noqa: E731
    assert chains(text, module) == [(("k", 0),), (("k", 1),), *inside(0), *inside(1)]


def test_a_loop_in_a_function_is_entered_anew_by_each_call() -> None:
    module = "\ndef step(x):\n    for j in range(2):\n        ADD\n        ADD"
    found = chains("for i in range(2):\n    step(x)", module)
    assert found == [(("i", i), ("j", j)) for i in range(2) for j in range(2) for _ in range(2)]


def test_a_generator_is_in_the_pass_that_resumes_it() -> None:
    module = "\ndef steps(x):\n    for j in range(4):\n        ADD\n        ADD\n        yield\n        ADD"
    found = chains("made = steps(x)\nfor i in range(2):\n    next(made)\nADD", module)
    assert found == [
        (("i", 0), ("j", 0)), (("i", 0), ("j", 0)),
        (("i", 1), ("j", 0)), (("i", 1), ("j", 1)), (("i", 1), ("j", 1)), (),
    ]  # fmt: skip


def test_a_loop_that_a_while_repeats_has_new_passes_each_time() -> None:
    program = program_of("n = 0\nwhile n < 2:\n    for k in range(2):\n        ADD\n    n += 1")
    assert chains_of(program) == [(("k", 0),), (("k", 1),)] * 2
    assert len(program.iterations) == 4


def test_composites_are_one_place_whatever_they_loop_over_inside() -> None:
    assert set(chains("for i in range(2):\n    nl.softmax(x)")) == {(("i", 0),), (("i", 1),)}
    assert set(chains("y = nl.zeros((300, 4), dtype=nl.float32, buffer=nl.shared_hbm)")) == {()}


def test_other_variables_count_their_passes() -> None:
    assert chains("for name in ('a', 'b'):\n    ADD\n    ADD") == [(("name", 0),)] * 2 + [(("name", 1),)] * 2
    assert chains("for tile in [x, x[:, 0:4]]:\n    ADD") == [(("tile", 0),), (("tile", 1),)]
    assert chains("for place, (a, b) in enumerate([(1, 2), (3, 4)]):\n    ADD") == [(("place", 0),), (("place", 1),)]


def test_a_loop_that_runs_again_has_passes_of_its_own() -> None:
    program = program_of("for i in range(2):\n    for k in range(2):\n        ADD")
    assert len(program.iterations) == 6
    assert [item.parent for item in program.iterations] == [-1, 0, 0, -1, 3, 3]


def test_the_place_of_a_pass_is_the_word_for() -> None:
    program = program_of("for i in range(1):\n    ADD")
    site = program.sites[program.iterations[0].site]
    assert (site.column, site.end_column, site.function) == (4, 7, "kernel")
    assert site.line + 1 == program.sites[program.op_site[1]].line


def test_conditions_and_whiles_of_python_are_no_passes() -> None:
    assert chains("n = 2\nwhile n:\n    ADD\n    n -= 1") == [(), ()]


def test_beta_1_instructions_belong_to_the_pass_that_issued_them() -> None:
    import neuronxcc.nki.isa as old_isa
    import neuronxcc.nki.language as old
    from neuronxcc import nki as old_nki

    import nki_lab

    @old_nki.jit(mode="simulation")
    def kernel(x):
        out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
        for i in old.affine_range(3):
            tile = old.load(x)
            held = old_isa.tensor_scalar(tile, op0=old.add, operand0=float(i))
            old.store(out, value=held)
        return out

    program = nki_lab.compile(kernel, nki_lab.spec((4, 8), "float32"), target="trn2")
    assert [program.iterations[number].value for number in program.op_iteration] == [
        i for i in range(3) for _ in range(3)
    ]


def loops_around(text: str, place: str) -> list[tuple[str, int]]:
    """The loops around the first expression `place` of a function's body: variable and line, counted from the body."""
    module = ModuleSource.parse("def f():\n" + textwrap.indent(text, "    "), "loops.py")
    line = next(number for number, item in enumerate(module.lines, 1) if place in item)
    column = module.lines[line - 1].index(place)
    extent = line, column, line, column + len(place)
    scope = scope_node(module, "f", 1, extent)
    assert scope is not None
    return [(name, line - 1) for name, line, _ in surroundings(module, scope, extent).loops]


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("for a in rows:\n    for b, _ in a:\n        HERE()", [("a", 1), ("b", 2)]),
        ("for a in HERE():\n    pass", []),
        ("for a in rows:\n    pass\nelse:\n    HERE()", []),
        ("for a.x in rows:\n    HERE()", []),
        ("for [c] in rows:\n    HERE()", [("c", 1)]),
        ("for *c, d in rows: HERE()", [("c", 1)]),
        ("for a in rows: pass; HERE()", [("a", 1)]),
        (
            "for a in rows:\n    if a:\n        try:\n            pass\n        except A:\n            HERE()",
            [("a", 1)],
        ),
        ("for a in rows:\n    match a:\n        case 1:\n            HERE()", [("a", 1)]),
        ("for a in rows:\n    match a:\n        case 1 if HERE(): pass", [("a", 1)]),
        ("for a in rows:\n    with b as c, HERE() as d:\n        pass", [("a", 1)]),
        ("for a in rows:\n    while a:\n        for b in a:\n            f(x=HERE())", [("a", 1), ("b", 3)]),
        ("x = [HERE() for i in rows for j in i]", [("i", 1), ("j", 1)]),
        ("x = [1 for i in HERE() for j in i]", []),
        ("x = [1 for i in rows for j in HERE()]", [("i", 1)]),
        ("x = [1 for i in rows if HERE() for j in i]", [("i", 1)]),
        ("x = {a: [HERE() for k in b]\n     for a, b in rows}", [("a", 2), ("k", 1)]),
    ],
)
def test_the_loops_around_a_place_are_read_from_the_tree(text: str, loops: list[tuple[str, int]]) -> None:
    assert loops_around(text, "HERE()") == loops


def test_comprehensions_are_loops() -> None:
    assert chains("made = [step(x) for k in range(2)]", "\ndef step(x):\n    ADD") == [(("k", 0),), (("k", 1),)]
    module = "\ndef step(x):\n    ADD"
    text = "for i in range(2):\n    made = {(i, k): step(x) for k in range(2) if k or step(x)}"
    one = lambda i: [(("i", i), ("k", k)) for k in (0, 0, 1)]  # noqa: E731
    module = "\ndef step(x):\n    ADD\n    return True"
    assert chains(text, module) == one(0) + one(1)


def test_a_branch_within_a_statement_does_not_hide_a_step() -> None:
    module = "\ndef step(x):\n    ADD"
    text = "for i in range(3):\n    step(x) if i == 0 else step(x) if i == 1 else step(x)"
    assert chains(text, module) == [(("i", i),) for i in range(3)]
    assert chains(f"for i in range(2):\n    {ADD} if i == 0 else {ADD}") == [(("i", 0),), (("i", 1),)]
    assert chains(f"for i in range(2):\n    (i == 0 and {ADD}); (i == 1 and {ADD})") == [(("i", 0),), (("i", 1),)]


def test_a_kernel_without_source_text_runs_without_passes() -> None:
    names: dict[str, Any] = {}
    exec(f"{SNIPPET_HEAD}\ndef kernel(given):\n    x = nl.load(given)\n    for i in range(2):\n        {ADD}\n", names)
    program, _ = traced(names["kernel"], [np.zeros((4, 8), np.float32)], ["float32"], "trn2")
    assert len(program.op_iteration) == 3
    assert not program.iterations
