"""The way from a code object's tree to one place in it: what surrounds an instruction, on every version of Python.

The places of instructions are part of Python's interface (`co_positions`), its instructions are not.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nki_lab.source.module import ModuleSource
from nki_lab.source.trees import FUNCTIONS, Extent, children, extent, first_line

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES: Final = {
    "<lambda>": ast.Lambda,
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}
_BRANCHING: Final = (
    ast.BoolOp, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.Await, ast.Yield,
    ast.YieldFrom, ast.Assert, ast.Compare,
)  # fmt: skip
_FEW: Final = 8  # parts that are quickly looked at one by one
_SUITES: Final = ("body", "orelse", "handlers", "finalbody", "cases")


class LoopVariable(NamedTuple):
    """A loop that binds a name: its first variable, and the place where it begins."""

    variable: str
    line: int
    column: int


class Surroundings(NamedTuple):
    """The loops whose bodies a place is in, outermost first, and the stretch of plain code that it belongs to.

    Two places of one stretch (not negative) are in statements that follow each other without a branch between them.
    """

    loops: tuple[LoopVariable, ...]
    stretch: int


def scope_node(module: ModuleSource, name: str, line: int, place: Extent) -> ast.AST | None:
    """Return the node of the innermost function, lambda or comprehension around a place that a code object was made of.

    `name` and `line` are the code object's; None without such a node, as where the text has changed since.
    """
    if name == "<module>":
        return module.tree
    kind = _SCOPES.get(name)
    found = None
    for node in path_to(module.tree, place):
        if kind is not None:
            found = node if isinstance(node, kind) else found
        elif isinstance(node, FUNCTIONS) and node.name == name and line in (node.lineno, first_line(node)):
            found = node
    return found


def path_to(root: ast.AST, place: Extent) -> Iterator[ast.AST]:
    """Return the nodes that contain a place, from the one below `root` inwards.

    A place without columns (0 to 0) is that of its line: the way ends at the innermost statement.
    """
    exact = place[3] > 0
    node: ast.AST | None = root
    while node is not None:
        node = _part(node, place, exact=exact)
        if node is not None:
            yield node


def _part(node: ast.AST, place: Extent, *, exact: bool) -> ast.AST | None:
    for name in _SUITES:
        suite = getattr(node, name, None)
        if isinstance(suite, list) and suite:
            found = _statement(suite, place, exact=exact)
            if found is not None:
                return found
    if not exact:
        return None
    for child in _near(node, place):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        # Parts without a place of their own, such as the `for` of a comprehension, have that of what they hold.
        if not hasattr(child, "lineno"):
            if any(_contains(extent(part), place) for part in children(child) if hasattr(part, "lineno")) or any(
                _part(part, place, exact=True) is not None for part in children(child) if not hasattr(part, "lineno")
            ):
                return child
        elif _contains(extent(child), place):
            return child
    return None


def _near(node: ast.AST, place: Extent) -> Iterator[ast.AST]:
    """Yield the parts of a node, of many in a row the one that alone may contain a place."""
    parts = children(node)
    if len(parts) <= _FEW:
        yield from parts
        return
    for _, part in ast.iter_fields(node):
        row = part if isinstance(part, list) else [part]
        if len(row) > _FEW and None not in row and hasattr(row[0], "end_lineno"):
            at = bisect_left(row, place[2:], key=lambda item: extent(item)[2:])
            row = row[at : at + 1]
        yield from (item for item in row if isinstance(item, ast.AST))


def _statement(suite: Sequence[ast.AST], place: Extent, *, exact: bool) -> ast.AST | None:
    if not hasattr(suite[0], "lineno"):  # the cases of a `match`
        return next((case for case in suite if _part(case, place, exact=exact) is not None), None)
    if exact:
        at = bisect_right(suite, place[:2], key=lambda node: (first_line(node), _column(node))) - 1
    else:
        at = bisect_right(suite, place[0], key=first_line) - 1
    if at < 0:
        return None
    node = suite[at]
    inside = _contains((first_line(node), _column(node), *extent(node)[2:]), place) if exact else (
        place[0] <= extent(node)[2]
    )  # fmt: skip
    return node if inside else None


def _column(node: ast.AST) -> int:
    """Return the column at which a statement begins, its decorators included."""
    return 0 if getattr(node, "decorator_list", None) else extent(node)[1]


def _contains(whole: Extent, part: Extent) -> bool:
    return whole[:2] <= part[:2] and part[2:] <= whole[2:]


def surroundings(module: ModuleSource, scope: ast.AST, place: Extent) -> Surroundings:
    """Return the loops of a scope around a place in it, and its stretch of plain code."""
    loops: list[LoopVariable] = []
    above: ast.AST = scope
    statement: ast.stmt | None = None
    suite: Sequence[ast.stmt] = ()
    path = list(path_to(scope, place))
    if isinstance(scope, Comprehension):
        path.insert(0, scope)
    if not path:  # the text has changed since
        return Surroundings((), -1)
    for node, below in zip(path, [*path[1:], None], strict=True):
        if isinstance(node, ast.stmt):
            statement = node
            suite = next((part for name in _SUITES if node in (part := _suite(above, name))), ())
        if isinstance(node, ast.For | ast.AsyncFor):
            if below in node.body and (name := first_name(node.target)):
                loops.append(LoopVariable(name, node.lineno, node.col_offset))
        elif isinstance(node, Comprehension):
            loops += [
                LoopVariable(name, item.target.lineno, _word_for(module, item.target))
                for item in _entered(node, below, place)
                if (name := first_name(item.target))
            ]
        above = node
    plain = statement is not None and path[-1] is not scope and place[3] > 0 and _is_plain(module, statement)
    if not plain or statement is None:
        return Surroundings(tuple(loops), -1)
    at = suite.index(statement)
    while at > 0 and _is_plain(module, suite[at - 1]):
        at -= 1
    return Surroundings(tuple(loops), suite[at].lineno << 16 | suite[at].col_offset)


def _suite(node: ast.AST, name: str) -> list[ast.stmt]:
    found = getattr(node, name, None)
    return found if isinstance(found, list) else []


def _word_for(module: ModuleSource, target: ast.expr) -> int:
    """Return the column of the `for` before the target of a comprehension; the target's own where it is further up."""
    before = module.lines[target.lineno - 1].encode()[: target.col_offset]
    return max((found.start() for found in re.finditer(rb"\bfor\b", before)), default=target.col_offset)


def _entered(node: Comprehension, below: ast.AST | None, place: Extent) -> Sequence[ast.comprehension]:
    """Return those of a comprehension's loops that run where `below`, a part of it, is evaluated."""
    parts = node.generators
    if below is None:
        return ()
    if below not in parts:
        return parts
    at = parts.index(below)
    own = any(_contains(extent(test), place) for test in parts[at].ifs)
    return parts[: at + own]


def first_name(target: ast.expr) -> str:
    """Return the first name that a loop's target binds; "" where that is an attribute or an item."""
    while isinstance(target, ast.Tuple | ast.List | ast.Starred):
        if isinstance(target, ast.Starred):
            target = target.value
        elif target.elts:
            target = target.elts[0]
        else:
            return ""
    return target.id if isinstance(target, ast.Name) else ""


def _is_plain(module: ModuleSource, node: ast.stmt) -> bool:
    """Return whether a statement is simple and evaluates all its parts, each once, in order."""
    if any(_suite(node, name) for name in _SUITES) or isinstance(node, ast.Match):
        return False
    known: dict[int, bool] = module.once("plain statements", dict)
    answer = known.get(id(node))
    if answer is None:
        answer = known[id(node)] = not any(_branches(part) for part in ast.walk(node))
    return answer


def _branches(node: ast.AST) -> bool:
    return isinstance(node, _BRANCHING) and not (isinstance(node, ast.Compare) and len(node.ops) == 1)
