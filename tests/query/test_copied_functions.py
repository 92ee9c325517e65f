"""Copies of a function are not looked at again, and have the findings of functions that are."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import query
from nki_lab.query.call_sites import CallSite, call_sites
from nki_lab.query.reach import Reach
from nki_lab.rules import api_calls, check_syntax, syntax_error
from nki_lab.source import SyntaxFacts, copies, syntax_facts
from nki_lab.source.copies import copies_in, without_copies
from nki_lab.source.module import ModuleSource, _calls

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\nROWS = 128\n\n"
BODIES = (
    "t = nl.ndarray((ROWS, 8), nl.float32)\n    nisa.memset(t, 0.0)\n    return t",
    "t = nl.ndarray((ROWS, 8), nl.float32)\n    nisa.memset(t, value=0.0, wrong=1)\n    return t",
    "t = nl.ndarray((200, 8), nl.float32)\n    nisa.memset(t, 0.0)\n    return t",
    "nl.no_such_name(x)\n    return x",
    "y = [i for i in (1, 2)]\n    return x",
    "del x\n    return lambda: nisa.memset(x, 0.0)",
    "def inner(y=nl.zeros((1, 1), nl.float32)):\n        return nisa.memset(y, 0.0)\n    return inner(x)",
    "return other(x)",
    "with open('a') as f:\n        return f",
    "x = x @ x\n    while x is 1:\n        yield x",
    "global ROWS\n    ROWS = x\n    return x",
    "return f_00(x)",
    "class Inner:\n        made = nisa.memset(x, 0.0)\n    return Inner()",
)
HEADS = ("@nki.jit\ndef {}(x):\n    ", "def {}(x):\n    ", "@nki.jit\ndef {}(x, *, n=[1]):\n    ")
LAST = "def other(x):\n    print(x)\n    return nl.add(x, x)\n\nf_01(nl.zeros((1, 1), nl.float32))\n"


@st.composite
def modules(draw: st.DrawFn) -> str:
    """A module with functions that often are copies, under names of one length."""
    parts = draw(st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(BODIES)), min_size=1, max_size=3))
    chosen = draw(st.lists(st.sampled_from(parts), min_size=2, max_size=7))
    texts = [head.format(f"f_{i:02}") + body + "\n\n" for i, (head, body) in enumerate(chosen)]
    return HEAD + "".join(texts) + LAST


def sites_of(facts: SyntaxFacts) -> tuple[CallSite, ...]:
    return call_sites(facts, Reach())


@settings(deadline=None, max_examples=150)
@given(modules())
def test_findings_and_calls_are_those_of_functions_that_are_looked_at_each(source: str) -> None:
    assert_the_same_without_copies(source)


def assert_the_same_without_copies(source: str) -> None:
    facts = syntax_facts(source, "k.py", as_typed=True)
    found, sites = check_syntax(facts), sites_of(facts)
    with pytest.MonkeyPatch.context() as patch:
        for module in (api_calls, syntax_error, copies):
            patch.setattr(module, "copies_in", lambda _module: {})
        fresh = syntax_facts(source + " ", "k.py", as_typed=True)  # another text, so that nothing is known of it
        assert (found, sites) == (check_syntax(fresh), sites_of(fresh))


BROKEN = ("x = (", "    x = (", "    t = = 1", "def g(:", "@nki.jit(", "    )", "    if x:", "'", '    """', "  y = 1", "\\",
          "    global ROWS, (", "    return ROWS = f_00", "else:")  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(modules(), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(BROKEN)), min_size=1, max_size=3))
def test_findings_are_the_same_where_lines_of_the_text_cannot_be_read(
    source: str, broken: list[tuple[int, str]]
) -> None:
    lines = source.split("\n")
    for place, text in broken:
        lines.insert(place % (len(lines) - 2), text)  # the end is changed below
    assert_the_same_without_copies("\n".join(lines))


def test_functions_away_from_lines_that_cannot_be_read_are_copies() -> None:
    names = [f"f_{i:02}" for i in range(7)]
    kernels = [HEADS[0].format(name) + BODIES[0] + "\n\n" for name in names]
    parsed = syntax_facts(HEAD + "".join([*kernels[:3], "x = = (\n", *kernels[3:]]), "k.py", as_typed=True).parsed
    found = {getattr(node, "name", ""): original.name for node, original in copies_in(parsed).items()}
    assert found == {"f_01": "f_00", "f_02": "f_00", "f_04": "f_03", "f_05": "f_03", "f_06": "f_03"}


def test_only_the_first_of_equal_kernels_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    checked = api_calls._Uses._checked

    def counted(self: api_calls._Uses, node: ast.Call, scope: object) -> object:
        seen.append(node.lineno)
        return checked(self, node, scope)  # type: ignore[arg-type]

    monkeypatch.setattr(api_calls._Uses, "_checked", counted)
    source = HEAD + "".join(HEADS[0].format(f"f_{i:02}") + BODIES[0] + "\n\n" for i in range(20))
    assert not check_syntax(syntax_facts(source, "k.py"))
    assert set(seen) <= {8, 9, 10}


def test_a_copy_that_the_module_mentions_stays_kernel_code() -> None:
    kernel = HEADS[0] + BODIES[0] + "\n\n"
    source = HEAD + "".join(map(kernel.format, ("f_00", "f_01", "f_02"))) + "f_01(ROWS)\n"
    facts, originals = without_copies(syntax_facts(source, "k.py"))
    assert [item.node.name for item in facts.functions] == ["f_00", "f_01"]
    assert [node.name for node in originals] == ["f_00"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("f_01", "f_1"),  # columns differ
        lambda text: text.replace("return t", "return f_01", 2).replace("return f_01", "return f_00", 1),
        lambda text: text.replace("f_01(x):", "f_01(x):  # noqa"),
        lambda text: text.rstrip() + "\n    x = (\n",
    ],
    ids=["length", "own name", "comment", "unread lines"],
)
def test_functions_that_differ_are_no_copies(change: Callable[[str], str]) -> None:
    text = HEAD + "".join(HEADS[0].format(name) + BODIES[0] + "\n\n" for name in ("f_00", "f_01"))
    assert copies_in(syntax_facts(text, "k.py").parsed)
    assert not copies_in(syntax_facts(change(text), "k.py", as_typed=True).parsed)


def test_an_edit_of_the_first_of_equal_kernels_has_the_findings_of_a_fresh_text() -> None:
    good, bad = (HEADS[0] + body + "\n\n" for body in BODIES[:2])
    document = query.Document("k.py")
    names = [f"f_{i:02}" for i in range(4)]
    for kinds in ((good,) * 4, (bad, good, good, good), (bad, bad, good, good), (good, bad, bad, good), (good,) * 4):
        text = HEAD + "".join(kind.format(name) for kind, name in zip(kinds, names, strict=True))
        assert document.update(text) == query.Document("k.py").update(text)
        assert len([item for item in document.update(text) if "wrong" in item.message]) == kinds.count(bad)


@settings(deadline=None, max_examples=60)
@given(modules())
def test_calls_on_a_line_are_those_of_the_whole_module(source: str) -> None:
    module = syntax_facts(source.replace("\n\ndef", "\nROWS; x = nl.add(1, 2); nl.exp(x)\ndef"), "k.py").parsed
    whole = _calls([module.tree])
    for place, call in whole.calls.items():
        found = module.calls_on(place[0])
        assert found.calls[place] is call
        assert found.first[place[0]] is whole.first[place[0]]
    for place, header in whole.headers.items():
        assert module.calls_on(place[0]).headers[place] is header
    assert not module.calls_on(len(module.lines) + 5).calls
    moved = replace(module, tree=ast.Module(body=module.tree.body[::-1], type_ignores=[]))
    assert isinstance(moved, ModuleSource)
    assert moved.calls_on(1).calls.keys() == whole.calls.keys()  # statements in no order: all of them


def test_copies_with_findings_are_looked_at_each() -> None:
    source = HEAD + "".join(HEADS[0].format(f"f_{i:02}") + BODIES[4] + "\n\n" for i in range(5))
    found = [item for item in query.Document("k.py").update(source) if item.code != "NKI121"]
    assert len({item.line for item in found}) == 5
