"""Markdown about a place in a text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.spec import Instruction, Operand
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.issue.target import choice
from nki_lab.quantities import nanoseconds
from nki_lab.query.checking import Document, Examination
from nki_lab.query.evaluation_cache import Place
from nki_lab.query.issued import Instructed, Issued
from nki_lab.query.links import code_link, name_link
from nki_lab.query.names import ENGINES, documentation, instruction_of, operand_text
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.source import SyntaxFacts, known_facts
from nki_lab.source.positions import place_of as site_of
from nki_lab.source.trees import first_line


def hover(
    source: str,
    line: int,
    column: int,
    file: str = "",
    *,
    target: str | Arch | None = None,
    known: Examination | None = None,
) -> str | None:
    """Return the Markdown about a 1-based line and character column; None where there is nothing to say.

    Instructions and functions are shown with their declaration and with the result of the call under the first known
    signature; dtypes with their format, variables of a kernel with what they stand for. `known` is an examination of
    the text; without it the text is examined.
    """
    arch = arch_of(target if target is not None else choice.outside())
    try:
        facts = known_facts(source, file or "<source>")
    except NkiError:
        return None
    return hover_at(facts, line, column, arch, lambda: known or _examined(source, file, arch.target))


def hover_at(facts: SyntaxFacts, line: int, column: int, arch: Arch, examined: Callable[[], Examination]) -> str | None:
    """Return the Markdown about a place of a text whose facts are known; `examined` gives what is known of it."""
    node, call = _node_at(facts, line, column)
    if node is None:
        return None
    if isinstance(node, ast.keyword) and call is not None:
        instruction = instruction_of(facts.dotted(call.func))
        operand = None if instruction is None else instruction.operands.get(node.arg or "")
        if instruction is None or operand is None:
            return None
        return _argument(instruction, operand, arch, examined().issued.get(site_of(call)[:2]))
    inside = bool(_functions_around(facts, getattr(node, "lineno", 0)))
    if isinstance(node, ast.Attribute | ast.Name):
        name = facts.dotted(node)
        if documentation(name) is not None:
            here = _call_text(examined().issued.get(site_of(call)[:2])) if call is not None and inside else ""
            link = name_link(name)
            return "\n\n".join(filter(None, (documentation(name, arch, here), link and f"[Reference]({link})")))
    if isinstance(node, ast.Name | ast.arg) and inside:
        variable = _variable(facts, node, examined().variables)
        rows = [] if variable is None else [_variable_text(variable)]
        return "\n\n".join([*rows, *_continued(facts, node, examined().expressions)]) or None
    return None


def findings_text(found: list[Diagnostic]) -> str:
    """Return the meaning of findings' codes on the chip, and the remedies."""
    parts = []
    for entry in map(codes.get, dict.fromkeys(item.code for item in found)):
        why, instead = (_section(entry.body, title) for title in ("Why it matters on the chip", "Use instead"))
        parts.append(f"**[{entry.code}]({code_link(entry.code)})** {entry.title}\n\n{why}\n\n{instead}".rstrip())
    return "\n\n---\n\n".join(parts)


def _section(body: str, title: str) -> str:
    return body.partition(f"## {title}\n")[2].partition("\n## ")[0].strip()


@lru_cache(maxsize=8)
def _examined(source: str, file: str, target: str) -> Examination:
    document = Document(file or "<source>", once=True)
    document.update(source)
    return document.examine(EvaluationRequest(arch=arch_of(target)))


# -- what is meant -------------------------------------------------------------------------------------------------


def _node_at(facts: SyntaxFacts, line: int, column: int) -> tuple[ast.AST | None, ast.Call | None]:
    """Return the innermost name, attribute, parameter or keyword at a place; the call around a keyword, or of a
    function.
    """
    best: ast.AST | None = None
    smallest = 1 << 62
    called: dict[int, ast.Call] = {}
    for node in _nodes_near(facts, line):
        if isinstance(node, ast.Call):
            called[id(node.func)] = node
            for keyword in node.keywords:
                start = facts.character(keyword.lineno, keyword.col_offset) + 1
                if keyword.arg and keyword.lineno == line and start <= column < start + len(keyword.arg):
                    return keyword, node
        if isinstance(node, ast.Name | ast.Attribute | ast.arg):
            span = facts.span(node)
            size = (span.end_line - span.line) * 10_000 + span.end_column - span.column
            inside = (span.line, span.column) <= (line, column) < (span.end_line, span.end_column)
            if isinstance(node, ast.arg):
                inside = span.line == line and span.column <= column < span.column + len(node.arg)
            if inside and size < smallest:
                best, smallest = node, size
    return best, called.get(id(best))


def _nodes_near(facts: SyntaxFacts, line: int) -> list[ast.AST]:
    """Return the nodes of the statements that cover a line."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [facts.tree]
    while stack:
        children = ast.iter_child_nodes(stack.pop())
        near = [child for child in children if not isinstance(child, ast.stmt) or _covers(child, line)]
        found += near
        stack += near
    return found


def _covers(node: ast.stmt, line: int) -> bool:
    return first_line(node) <= line <= (node.end_lineno or node.lineno)


def _functions_around(facts: SyntaxFacts, line: int) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of kernel code that cover a line, the innermost last."""
    return [item.node for item in facts.functions if _covers(item.node, line)]


def _variable(facts: SyntaxFacts, node: ast.Name | ast.arg, known: Mapping[Place, Variable]) -> Variable | None:
    """Return the value of a name where it was last bound above the place, in the same function or one around it."""
    name = node.id if isinstance(node, ast.Name) else node.arg
    for inner in reversed(_functions_around(facts, node.lineno)):
        places = [
            place
            for place, item in known.items()
            if item.name == name and inner.lineno <= place[0] <= (inner.end_lineno or place[0])
        ]
        before = [place for place in places if place <= (node.lineno, node.col_offset)]
        if places:
            return known[max(before) if before else min(places)]
    return None


def _continued(facts: SyntaxFacts, node: ast.Name | ast.arg, known: Mapping[Place, Variable]) -> list[str]:
    """Return the values of subscripts and calls that begin with a name, the shortest first."""
    start = (node.lineno, node.col_offset)
    ends = {}
    for item in _nodes_near(facts, node.lineno):
        if isinstance(item, ast.Subscript | ast.Call) and (item.lineno, item.col_offset) == start:
            end = (item.end_lineno or 0, item.end_col_offset or 0)
            if end in known:
                ends[end] = _variable_text(replace(known[end], name=facts.text(item)))
    return [ends[end] for end in sorted(ends)]


def _variable_text(variable: Variable) -> str:
    """Return a variable and what it stands for."""
    text = f"`{variable.name}`: {variable.text}"
    if variable.partition_bytes:
        text = f"{text}, {variable.partition_bytes} bytes per partition"
    return f"{text}; {variable.others_text}" if variable.others else text


# -- what it came to -----------------------------------------------------------------------------------------------


def _argument(instruction: Instruction, operand: Operand, arch: Arch, call: Issued | None) -> str:
    """Return the documentation of an instruction's argument, with what a call gives for it."""
    given = dict(call.instructions[0].operands).get(operand.name) if call is not None and call.instructions else None
    return operand_text(instruction, operand, arch, f"here: {given}" if given else "")


def _call_text(call: Issued | None) -> str:
    """Return the result of a call, for a reader who weighs its cost."""
    if call is None:
        return ""
    if len(call.instructions) == 1:
        return _instructed(call.instructions[0], call.target)
    lines = [f"**Here** on {call.target}, {call.total} instructions:", ""]
    return "\n".join([*lines, *(f"- {item.count} × `nisa.{item.name}`, {_where(item)}" for item in call.instructions)])


def _instructed(item: Instructed, target: str) -> str:
    times = f", issued {item.count} times" if item.count > 1 else ""
    lines = [f"**Here** on {target}: {_where(item)}{times}", ""]
    lines += [f"- `{name}`: {view}" for name, view in item.operands]
    lines += [f"- {_filled(text, value, bound)}" for text, value, bound in item.limits]
    if item.time_source:
        lines += ["", f"*time {item.time_source}*"]
    return "\n".join(lines)


def _filled(text: str, value: str, bound: str) -> str:
    left = text.partition("=")[0].rstrip("<> ")
    return f"{left} = {value} of {bound}" if "<=" in text else f"{text} (here {value}, {bound})"


def _where(item: Instructed) -> str:
    """Return the engine, the time until it can start the next instruction, and until the result is there."""
    engine = ENGINES.get(item.engine, item.engine)
    if not item.time_source:
        return f"{engine}, time not modelled"
    if item.engine == "dma":
        return f"{engine}, {item.bytes} bytes, {nanoseconds(item.time[0])} at the full rate"
    interval, latency = (nanoseconds(value) for value in item.time)
    return f"{engine}, {item.cycles:.0f} cycles ({interval}), result after {latency}"
