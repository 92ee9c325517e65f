"""Tokens of any text are in order, apart, and where the names stand; edits between answers lead from one to the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import query
from nki_lab.isa.arch import arch_of
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.vocabulary import ENGINES, MEMORIES
from nki_lab.query.token_kinds import ENGINE_MODIFIERS, MODIFIERS, TYPES, Token
from nki_lab.query.tokens import KeptTokens, changed, encoded, tokens
from nki_lab.source import SyntaxFacts, syntax_facts

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
KERNEL = (
    HEAD
    + """@nki.jit
def k(x, n=4):
    '😀 ä'; für = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa . \\
        tensor_copy(dst=für,
                    src=für, engine=nisa.engine.scalar)
    def inner(für):
        return [nl.exp(für[i]) for i in range(n)]
    return (lambda nl: nl.load)(x)


class Config:
    def made(self, x=nl.bfloat16):
        return nisa.nc_matmul(self.x, x)
"""
)


def shown(facts: SyntaxFacts, found: list[Token]) -> list[tuple[int, str, str, tuple[str, ...]]]:
    """Lines, names, types and modifiers; every token stands on a name, and after the one before."""
    out = []
    before = (0, 0)
    for item in found:
        text = facts.lines[item.line - 1][item.character : item.character + item.length]
        assert text.isidentifier(), (item, text)
        assert before <= (item.line, item.character)
        assert item.type in TYPES
        assert set(item.modifiers) <= set(MODIFIERS)
        before = (item.line, item.character + item.length)
        out.append((item.line, text, item.type, item.modifiers))
    return out


def tokens_of(text: str) -> list[tuple[int, str, str, tuple[str, ...]]]:
    """The tokens of a text that is not evaluated."""
    facts = syntax_facts(text, "/project/k.py", as_typed=True)
    return shown(facts, tokens(facts, query.Examination()))


def test_names_are_found_wherever_they_stand() -> None:
    found = tokens_of(KERNEL)
    assert (8, "für", "variable", ("declaration", "sbuf")) in found
    assert (10, "tensor_copy", "function", ("defaultLibrary", "scalarEngine")) in found
    assert (11, "für", "variable", ("sbuf",)) in found
    assert (13, "exp", "function", ("defaultLibrary",)) in found
    assert (12, "für", "parameter", ("declaration",)) in found
    assert (19, "nc_matmul", "function", ("defaultLibrary", "tensorEngine")) in found
    assert (18, "bfloat16", "type", ("defaultLibrary",)) in found


def test_a_name_that_is_bound_otherwise_is_none_of_nki() -> None:
    assert not [item for item in tokens_of(KERNEL) if item[:2] == (14, "load")]


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_instruction_has_the_engine_that_it_declares(name: str) -> None:
    found = {item[1]: item for item in tokens_of(f"{HEAD}def f():\n    nisa.{name}()\n")}
    engines = TABLE[name].engines
    expected = ENGINE_MODIFIERS.get(engines[0]) if len(engines) == 1 else None
    assert found[name][2:] == ("function", ("defaultLibrary", expected) if expected else ("defaultLibrary",))


def test_the_legend_has_every_memory_and_engine_once() -> None:
    assert set(MEMORIES) | {ENGINE_MODIFIERS[name] for name in (*ENGINES, "dma")} <= set(MODIFIERS)
    assert len(set(MODIFIERS)) == len(MODIFIERS) < 32


@given(st.integers(0, len(KERNEL)), st.integers(0, 40))
def test_damaged_texts_have_tokens_on_names(start: int, length: int) -> None:
    tokens_of(KERNEL[:start] + KERNEL[start + length :])


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_do_not_matter(end: str) -> None:
    assert tokens_of(KERNEL.replace("\n", end)) == tokens_of(KERNEL)


def test_a_text_without_nki_has_none() -> None:
    assert tokens_of("import numpy as np\n\n\ndef f(x):\n    sbuf = np.zeros(3)\n    return sbuf\n") == []


def test_the_examples_have_tokens_on_names(root: Path) -> None:
    for path in sorted((root / "examples" / "kernels").glob("*.py")):
        assert len(tokens_of(path.read_text(encoding="utf-8"))) > 50


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[2]


NUMBERS = st.lists(st.integers(0, 3), max_size=12)


@given(NUMBERS, NUMBERS)
def test_an_edit_leads_from_one_answer_to_the_next(before: list[int], after: list[int]) -> None:
    change = changed(before, after)
    if change is None:
        assert before == after
    else:
        start, count, data = change
        assert before[:start] + data + before[start + count :] == after


def test_places_are_relative_to_the_token_before() -> None:
    item = Token(1, 0, 1, "variable", ("sbuf", "declaration"))
    bits = 1 << MODIFIERS.index("sbuf") | 1 << MODIFIERS.index("declaration")
    kind = TYPES.index("variable")
    placed = [(0, 4, 2, item), (0, 9, 1, item), (3, 2, 5, item)]
    assert encoded(placed) == [0, 4, 2, kind, bits, 0, 5, 1, kind, bits, 3, 2, 5, kind, bits]


POOL = (
    "", "# y", "    z = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)", "nl = nisa", "from nki.language import exp as k",
    "def inner(x):", "    return made(", "@nki.jit", "    made(nl.exp(x))", "made = nki.jit(made)", "    für = nl.sbuf",
    "        nisa.tensor_copy(dst=für, src=für)", '"""', "class Config:", "k = made", "import os as nl", "    def made(self):",
    "made = lambda y: nl.exp(y)", "    x = 3",
)  # fmt: skip
EDITS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.sampled_from(POOL)), max_size=8)
EDITED = KERNEL + "\n\n" + KERNEL.partition(HEAD)[2].replace("def k(", "def made(").replace("Config", "Second")


@pytest.mark.extended
@settings(max_examples=30)
@given(EDITS)
def test_tokens_kept_from_edit_to_edit_are_those_of_the_whole_text(edits: list[tuple[int, int, str]]) -> None:
    lines, kept, facts = EDITED.split("\n"), KeptTokens(), None
    document = query.Document("/project/k.py")
    for at, removed, new in [(0, 0, "# a"), *edits, (0, 1, "# b")]:
        lines[at : at + removed] = [new]
        text = "\n".join(lines)
        document.update(text)
        known = document.examine(query.EvaluationRequest(arch=arch_of("trn2"), steps=20_000))
        facts = syntax_facts(text, "/project/k.py", as_typed=True, before=facts)
        found = tokens(facts, known, kept)
        assert found == tokens(facts, known) == tokens(syntax_facts(text, "/project/k.py", as_typed=True), known)


def test_the_tokens_of_a_function_that_moves_are_kept() -> None:
    kept = KeptTokens()
    tokens(syntax_facts(KERNEL, "/project/k.py", as_typed=True), query.Examination(), kept)
    before = {key: id(part.basis) for key, part in kept.items()}
    tokens(syntax_facts("\n# above\n" + KERNEL, "/project/k.py", as_typed=True), query.Examination(), kept)
    assert before
    assert {key: id(part.basis) for key, part in kept.items()} == before


def test_a_kernel_is_coloured_anew_when_a_helper_makes_something_else() -> None:
    kept, found = KeptTokens(), []
    for memory in ("sbuf", "psum"):
        helper = f"def made():\n    return nl.ndarray((128, 64), nl.float32, buffer=nl.{memory})\n\n\n"
        text = f"{HEAD}{helper}@nki.jit\ndef k(x: nki.typing.tensor[128, 64]):\n    tile = made()\n    return x\n"
        document = query.Document("/project/k.py")
        document.update(text)
        assert document.facts is not None
        known = document.examine(query.EvaluationRequest(arch=arch_of("trn2")))
        found.append(
            [(name, kinds) for _, name, _, kinds in shown(document.facts, tokens(document.facts, known, kept))]
        )
    assert ("tile", ("declaration", "sbuf")) in found[0]
    assert ("tile", ("declaration", "psum")) in found[1]
