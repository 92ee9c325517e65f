"""NKI101, the part that Python's compiler finds after the parser: `return` at module level, a parameter named twice."""

from __future__ import annotations

import ast
import copy
import sys
import warnings
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.copies import copies_in
from nki_lab.source.names import NameUses
from nki_lab.source.parsing import PARSER_FAILURES, unparsable
from nki_lab.source.scopes import bound_names
from nki_lab.source.trees import SIMPLE, branches, without_constants

_compiled: WeakSet[ast.stmt] = WeakSet()
"""Statements of modules that compile; Python's compiler looks at each on its own, but for what is declared global."""
_compiled_inside: WeakSet[ast.AST] = WeakSet()
"""Simple statements within what has compiled. Where a text is read again, they stay only where nothing around them has
changed but other statements: without declarations the compiler finds nothing wrong with them again."""


@syntax_rule("NKI101", dialects=("current", "beta1"))
def check(facts: SyntaxFacts) -> Findings:
    """Yield the mistake that keeps the whole module, host code too, from compiling. Nothing is executed.

    Each cell of a notebook has its own. Below lines that could not be read it is taken for their consequence.
    """
    body = facts.tree.body
    fresh = [node for node in body if node not in _compiled]
    part = body if facts.module.declared else fresh
    fault = _fault(part, facts)
    if fault is None:
        _compiled.update(fresh)
        return
    for item in _faults_of_cells(part, facts) if facts.parsed.cells else [fault]:
        if not facts.parsed.is_torn(item.line):
            yield item


def _faults_of_cells(part: Sequence[ast.stmt], facts: SyntaxFacts) -> Iterator[Diagnostic]:
    """Yield the first mistake of each cell, in those statements of it that are in `part`."""
    chosen = set(map(id, part))
    for cell in facts.parsed.cells:
        fault = _fault([node for node in cell.body if id(node) in chosen], facts)
        if fault is not None:
            yield fault


def _fault(part: Sequence[ast.stmt], facts: SyntaxFacts) -> Diagnostic | None:
    """Return the first mistake for which Python's compiler refuses some statements; None where it takes them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A notebook cell may await at top level.
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            declared = frozenset(facts.module.declared)
            copies, scopes = copies_in(facts.parsed), {scope.node: scope for scope in facts.module.children}
            part = [
                node
                for node in part
                if node not in copies
                and not _is_plain(node, declared)
                and _is_safe_to_compile(node)
                and (node not in scopes or _is_quick_to_compile(scopes[node]))
            ]
            left = part if declared else [_without_compiled(node) for node in part]
            compile(ast.Module(body=left, type_ignores=[]), facts.file, "exec", flags=flags, dont_inherit=True)
            for node in part:
                _compiled_inside.update(_simple_inside(node))
    except PARSER_FAILURES as failure:
        return unparsable(failure, facts.file, facts.lines, in_bytes=True)
    return None


_DECLARATIONS: Final = (ast.Global, ast.Nonlocal)
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


def _blocks(node: ast.AST) -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield the lists in a node that hold statements, or what holds these, by the names of their fields."""
    for name in _BLOCKS:
        inner = getattr(node, name, None)
        if type(inner) is list:  # the `body` of a lambda is none
            yield name, inner


def _compound(statement: ast.AST) -> list[ast.AST]:
    """Return a statement and all in it but simple ones, each behind those around it."""
    found, stack = [], [statement]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += [item for _, inner in _blocks(node) for item in inner if type(item) not in SIMPLE]
    return found


def _simple_inside(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the simple statements in a compound one."""
    for node in _compound(statement):
        yield from (item for _, inner in _blocks(node) for item in inner if type(item) in SIMPLE)


def _without_compiled(statement: ast.stmt) -> ast.stmt:
    """Return a statement without those in it that have compiled before, where it declares no name global or nonlocal.

    Of a function of thousands of lines one is typed at a time.
    """
    nodes = _compound(statement)
    if any(isinstance(node, _DECLARATIONS) for node in nodes):
        return statement
    shorter: dict[int, ast.AST] = {}
    for node in reversed(nodes):
        changed: dict[str, list[ast.AST]] = {}
        for name, inner in _blocks(node):
            left = [shorter.get(id(item), item) for item in inner if item not in _compiled_inside]
            if inner and not left:
                left.append(ast.copy_location(ast.Pass(), inner[0]))
            if left != inner:
                changed[name] = left
        if changed:
            shorter[id(node)] = item = copy.copy(node)
            vars(item).update(changed)
    found = shorter.get(id(statement), statement)
    assert isinstance(found, ast.stmt)
    return found


_CONTAINERS: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_PLAIN: Final = frozenset((ast.Constant, *_CONTAINERS))


def _is_plain(statement: ast.stmt, declared: Container[str]) -> bool:
    """Return whether a statement binds names to constants, names and displays of them, none `declared` global: nothing
    can be wrong with it.

    A table of a million numbers takes Python's compiler longer than its parser.
    """
    if not isinstance(statement, ast.Assign) or not all(type(target) is ast.Name for target in statement.targets):
        return False
    return all(
        (node.id != "__debug__" or type(node.ctx) is ast.Load) and node.id not in declared
        if isinstance(node, ast.Name)
        else type(node) in _PLAIN
        for node in without_constants([*statement.targets, statement.value])
    )


_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp)
_INLINED: Final = sys.version_info >= (3, 12)  # a comprehension is compiled as a block of the function around it
_MOST_KEYWORDS: Final = 1000  # of a call: the compiler compares each with all others
_MOST_BLOCKS: Final = 20  # CO_MAXBLOCKS of CPython
_MOST_CAPTURES: Final = 50  # the compiler writes an instruction for each two names of a pattern
_MOST_TWICE: Final = 8  # the compiler writes what stands in a `finally` twice, in each again
# So it does with the only argument of these, a generator: it leaves the call out where the name is that of the builtin.
_TWICE: Final = frozenset(
    ("list", "set", "tuple", "any", "all")
    if sys.version_info >= (3, 15)
    else ("tuple", "any", "all")
    if sys.version_info >= (3, 14)
    else ()
)


class _Nesting(NamedTuple):
    """How deep a node stands in its function: certain blocks, the most handlers they can take, parts written twice."""

    blocks: int = 0
    handlers: int = 0
    twice: int = 0


def _is_safe_to_compile(statement: ast.stmt) -> bool:
    """Return whether Python's compiler survives a statement: since 3.12 it writes the handlers of nested comprehensions
    and blocks into a table of fixed size, and does not look whether there is room. Patterns of thousands of names take
    gigabytes, and calls of as many keywords do not end in time.

    Raises SyntaxError for comprehensions that stand in too many blocks in any case, and for keywords that come twice.
    """
    stack: list[tuple[ast.AST, _Nesting]] = [(statement, _Nesting())]
    safe = True
    while stack:
        node, around = stack.pop()
        if type(node) in SIMPLE and _is_flat(node):
            continue
        if (keywords := _too_many_keywords(node)) is not None:
            _require_different(keywords)
            safe = False
        if type(node) not in _NESTING:
            inside = around._replace(twice=around.twice + 1) if _TWICE and _is_left_out(node) else around
            stack += [(child, inside) for child in branches(node)]
            continue
        inside = _inside(node, around)
        if _INLINED and isinstance(node, _COMPREHENSIONS):
            if inside.blocks > _MOST_BLOCKS:
                raise SyntaxError("too many statically nested blocks", ("", node.lineno, node.col_offset + 1, None))
            safe = safe and inside.handlers <= _MOST_BLOCKS
        elif isinstance(node, ast.match_case):
            safe = safe and len(bound_names([node.pattern])) <= _MOST_CAPTURES
        finals = set(map(id, node.finalbody)) if isinstance(node, ast.Try | ast.TryStar) else set()
        safe = safe and inside.twice + bool(finals) <= _MOST_TWICE
        for child in branches(node):
            deeper = inside._replace(twice=inside.twice + 1) if id(child) in finals else inside
            stack.append((child, deeper))
    return safe


_flat: WeakSet[ast.AST] = WeakSet()
"""Simple statements in which nothing is nested: most of a function are those of its former text."""


def _is_flat(statement: ast.AST) -> bool:
    """Return whether nothing in a statement changes the nesting of what it contains, or has too much of something."""
    if statement in _flat:
        return True
    stack = [statement]
    while stack:
        node = stack.pop()
        if type(node) in _NESTING or _is_left_out(node) or _too_many_keywords(node) is not None:
            return False
        stack += branches(node)
    _flat.add(statement)
    return True


def _too_many_keywords(node: ast.AST) -> list[ast.keyword] | None:
    """Return the keywords of a call or class where the compiler would take too long over them."""
    if isinstance(node, ast.Call | ast.ClassDef) and len(node.keywords) > _MOST_KEYWORDS:
        return node.keywords
    return None


def _require_different(keywords: Sequence[ast.keyword]) -> None:
    """Raise SyntaxError for the first keyword that comes twice, as Python's compiler does."""
    seen: set[str | None] = set()
    for item in keywords:
        if item.arg is not None and item.arg in seen:
            place = ("", item.lineno, item.col_offset + 1, None)
            raise SyntaxError(f"keyword argument repeated: {item.arg}", place)
        seen.add(item.arg)


_MOST_COPIES: Final = 1_000_000


def _is_quick_to_compile(scope: NameUses) -> bool:
    """Return whether Python's compiler copies few names: for each scope in a function, those of the functions around
    it.
    """
    copied = 0
    stack = [(scope, 0)]
    while stack:
        item, around = stack.pop()
        own = 0 if isinstance(item.node, ast.ClassDef) else len(item.bound) + len(item.definitions) + len(item.imports)
        copied += (around + own) * len(item.children)
        stack += [(inner, around + own) for inner in item.children]
    return copied <= _MOST_COPIES


def _is_left_out(node: ast.AST) -> bool:
    """Return whether the compiler may leave a call of a builtin out, and loop over its generator in place."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _TWICE
        and len(node.args) == 1
        and isinstance(node.args[0], ast.GeneratorExp)
    )


_NESTING: Final = frozenset((
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp, ast.ClassDef, *_COMPREHENSIONS, ast.Try,
    ast.TryStar, ast.With, ast.AsyncWith, ast.For, ast.While, ast.AsyncFor, ast.match_case,
))  # fmt: skip
"""Nodes that change the nesting of what they contain, or have too much of something themselves."""


def _inside(node: ast.AST, around: _Nesting) -> _Nesting:
    """Return the nesting of what a node contains."""
    blocks, handlers = 0, 0
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp | ast.ClassDef):
        # Another code object; a coroutine or generator has a handler around all of it.
        return _Nesting(handlers=2, twice=around.twice)
    if isinstance(node, _COMPREHENSIONS):
        blocks = len(node.generators)
        handlers = blocks + 1 + 2 * sum(part.is_async for part in node.generators)
    elif isinstance(node, ast.Try | ast.TryStar):  # its own, that of its `finally`, and those of a named exception
        blocks, handlers = 1, 2 + bool(node.finalbody) + bool(node.handlers)
    elif isinstance(node, ast.With | ast.AsyncWith):
        blocks, handlers = 1, 2 * len(node.items)
    elif isinstance(node, ast.For | ast.While):
        blocks, handlers = 1, 1
    elif isinstance(node, ast.AsyncFor):
        blocks, handlers = 1, 2
    return around._replace(blocks=around.blocks + blocks, handlers=around.handlers + handlers)
