"""A text that is read again after a change is read as if it were new, whatever the change and wherever it is."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.source import ModuleSource, names, syntax_facts
from nki_lab.source import facts as facts_module
from nki_lab.source.names import NameUses, names_of
from nki_lab.source.parsing import parsed_as_typed

KERNEL = '''import nki


@nki.jit
def kernel(x, n):
    """Adds."""
    a = load(x)
    b = load(x)
    for i in range(n):
        c = a + b
        if i > 2:
            d = (c,
                 b)
            e = d
            f = e
        else:
            d = c
            e = [d]
            f = "text"
        g = lambda: f
        h = g
    while n:
        n -= 1
        k = n
        m = k; n = m
    return a


class Config:
    size = 3
    width = 4  # columns
    height = 5

    def area(self):
        w = self.width
        h = self.height
        return w * h


last = kernel
'''
LINES = KERNEL.split("\n")
TYPED = (
    "", "        ", "x = (", "        z = 1", "            z = a", "    z = b", "return", "        for j in x:", "z", ")",
    "        '''", "        else:", "        z = [x for x in y]; lambda: 0", "# remark", "    @jit", "            )",
)  # fmt: skip


def same(found: ModuleSource, fresh: ModuleSource) -> None:
    assert ast.dump(found.tree, include_attributes=True) == ast.dump(fresh.tree, include_attributes=True)
    assert found.lines == fresh.lines


@given(st.data())
def test_a_change_is_read_as_in_a_new_text(data: st.DataObject) -> None:
    lines = list(LINES)
    before = parsed_as_typed("\n".join(lines), "k.py")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(("replace", "insert", "delete"))):
            case "replace":
                lines[at] = data.draw(st.sampled_from(TYPED))
            case "insert":
                lines[at:at] = data.draw(st.lists(st.sampled_from((*TYPED, *LINES)), min_size=1, max_size=3))
            case _:
                del lines[at : at + data.draw(st.integers(1, 3))]
        text = "\n".join(lines)
        before = parsed_as_typed(text, "k.py", before)
        try:
            ast.parse(text)
        except SyntaxError:
            assert before.faults  # which lines are left out of a text that is no Python may depend on its history
        else:
            assert not before.faults
            same(before, parsed_as_typed(text, "k.py"))


def changed(data: st.DataObject, lines: list[str]) -> str:
    """The text after a change of its lines."""
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from((*TYPED, *LINES)), max_size=3))
    return "\n".join(lines or [""])


def said(module: NameUses) -> list[object]:
    """All that the scopes of a module mention, in order; nodes are told by identity."""
    return [
        (scope.node, scope.parent and scope.parent.node, scope.aliases, scope.annotated, scope.attributes, scope.bound,
         scope.calls, scope.declared, scope.imports, scope.loads, scope.mentions, scope.stars, scope.stores, scope.values)
        for scope in module.subtree()
    ]  # fmt: skip


@given(st.data())
def test_names_after_changes_are_those_of_the_tree(data: st.DataObject) -> None:
    lines = list(LINES)
    facts = syntax_facts("\n".join(lines), "k.py", as_typed=True)
    for _ in range(4):
        facts = syntax_facts(changed(data, lines), "k.py", as_typed=True, before=facts)
        assert said(facts.module) == said(names_of(facts.tree))
        lines = lines or [""]


def test_names_of_statements_that_stay_are_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ["def f(c):", "    for i in c:", *(f"        v{i} = g(v{i}, i + {i})" for i in range(200)), "    return c"]
    facts = syntax_facts("\n".join(text), "k.py", as_typed=True)
    seen: list[ast.AST] = []
    note = names._note
    monkeypatch.setattr(names, "_note", lambda node, scope: (seen.append(node), note(node, scope)))
    for typed in ("        w = c", "        w = c.d", "        w = (c"):
        text[100] = typed
        facts = syntax_facts("\n".join(text), "k.py", as_typed=True, before=facts)
    assert len(seen) < 100


@pytest.mark.parametrize("line", ["        y = undefined", "        y = (1,", "        if c: y = 1", ""])
def test_only_the_block_of_a_change_is_read(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = [f"        v{i} = {i}" for i in range(200)]
    text = ["def f(c):", "    for i in c:", *body, "    return c"]
    before = parsed_as_typed("\n".join(text), "k.py")
    read: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, **options: (read.append(source), parse(source, **options))[1])
    text.insert(100, line)
    after = parsed_as_typed("\n".join(text), "k.py", before)
    assert all(len(source.split()) < 40 for source in read)
    assert after.tree.body[0].end_lineno == len(text)
    assert bool(after.faults) == line.endswith("(1,")


def test_what_is_known_of_a_changed_function_is_worked_out_anew() -> None:
    text = "\n".join(LINES)
    facts = syntax_facts(text, "k.py", as_typed=True)
    assert not list(facts.find(ast.Dict))
    changed = text.replace("            e = d\n", "            e = {d: 1}\n")
    again = syntax_facts(changed, "k.py", as_typed=True, before=facts)
    assert [node.lineno for node in again.find(ast.Dict)] == [14]
    back = syntax_facts(text, "k.py", as_typed=True, before=again)
    assert not list(back.find(ast.Dict))
    assert [ast.dump(node) for node in back.find(ast.Name)] == [
        ast.dump(node) for node in syntax_facts(text, "k.py").find(ast.Name)
    ]


def test_what_statements_of_a_long_block_hold_is_walked_once_while_one_is_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = [
        f"    v{i}: int = f(x[{i}], lambda a: {{a: {i}}})" if i % 7 == 0 else f"    v{i} = g(x[{i}]).h"
        for i in range(200)
    ]
    text = ["import nki", "@nki.jit", "def k(x):", *body, "    return x"]
    before = syntax_facts("\n".join(text), "k.py", as_typed=True)
    kinds = (ast.Name, ast.Call, ast.Dict, ast.Lambda, ast.Attribute, ast.Subscript, ast.arg, ast.Assign)
    wanted = [ast.dump(node, include_attributes=True) for node in before.find(*kinds)]
    monkeypatch.setattr(facts_module, "_LONG", 10_000)
    plain = syntax_facts("\n".join([*text, ""]), "k.py", as_typed=True)
    assert [ast.dump(node, include_attributes=True) for node in plain.find(*kinds)] == wanted
    monkeypatch.undo()
    walked: list[ast.AST] = []
    children = facts_module._kernel_children
    monkeypatch.setattr(facts_module, "_kernel_children", lambda node: (walked.append(node), children(node))[1])
    text.insert(100, "    typed = {x: x}")
    after = syntax_facts("\n".join(text), "k.py", as_typed=True, before=before)
    assert [node.lineno for node in after.find(ast.Dict) if len(node.keys) == 1].count(101) == 1
    assert len(walked) < 100  # of some 2,000
    fresh = syntax_facts("\n".join(text), "k.py", as_typed=True)
    for kind in kinds:
        assert [ast.dump(node, include_attributes=True) for node in after.find(kind)] == [
            ast.dump(node, include_attributes=True) for node in fresh.find(kind)
        ]
