"""Rows about loops on the device: their bodies become functions of `nl.fori_loop` and `nl.while_loop`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.migrate.context import Context
from nki_lab.migrate.names import FUNCTIONS

COUNTED: Final = 56
CONDITIONAL: Final = 57
_LANGUAGE: Final = "nki.language"
_COUNTED: Final = f"{_LANGUAGE}.dynamic_range"
_BOUNDS: Final = ("start", "stop", "step")
_SCOPES: Final = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Loop = ast.For | ast.While


def rewrite_loops(context: Context) -> None:
    """Rewrite `for i in nl.dynamic_range(…)` and `while register:`."""
    for node in ast.walk(context.edits.tree):
        if isinstance(node, ast.For) and context.names.called(node.iter, _COUNTED):
            _counted(context, node)
        elif isinstance(node, ast.While) and _is_register(context, node.test):
            _conditional(context, node)


def _is_register(context: Context, node: ast.expr) -> bool:
    if not isinstance(node, ast.Name):
        return False
    found = context.names.definition(node)
    return found is not None and found[1] is not None and context.names.called(found[1], "nki.isa.register_alloc")


def _counted(context: Context, node: ast.For) -> None:
    call = node.iter
    assert isinstance(call, ast.Call)
    reason = _obstacle(context, node)
    bounds = _bounds(context, call)
    if bounds is None:
        reason = "its step is no positive number, or its bounds are not written out"
    elif not isinstance(node.target, ast.Name):
        reason = "its variable is no name"
    if reason or bounds is None:
        context.leave(COUNTED, node.iter, reason)
        return
    context.done(COUNTED)
    name = context.fresh("loop_body")
    edits = context.edits
    edits.cut(node, edits.start(node), edits.end(node.iter), f"def {name}({edits.segment(node.target)})")
    lower, upper, step = bounds
    last = "" if step == "1" else f", {step}"
    edits.after(node, f"{context.nl('fori_loop')}({lower}, {upper}, {name}{last})")


def _bounds(context: Context, call: ast.Call) -> tuple[str, str, str] | None:
    """Return start, stop and step of a range as source."""
    if any(isinstance(item, ast.Starred) for item in call.args) or len(call.args) > len(_BOUNDS):
        return None
    given = dict(zip(_BOUNDS, call.args, strict=False))
    if any(item.arg not in _BOUNDS or item.arg in given for item in call.keywords):
        return None
    given |= {item.arg: item.value for item in call.keywords if item.arg}
    stop = given.get("stop")
    if isinstance(stop, ast.Constant) and stop.value is None:
        stop = None
    if "start" not in given:
        return None
    text = context.edits.text_of
    step = "1"
    if "step" in given:
        step = text(given["step"])
        number = given["step"].value if isinstance(given["step"], ast.Constant) else None
        known = number if number is not None else context.values.of(given["step"]).number()
        if not isinstance(known, int) or known < 1:
            return None
    return ("0", text(given["start"]), step) if stop is None else (text(given["start"]), text(stop), step)


def _conditional(context: Context, node: ast.While) -> None:
    assert isinstance(node.test, ast.Name)
    register = node.test.id
    reason = _obstacle(context, node)
    if reason:
        context.leave(CONDITIONAL, node.test, reason)
        return
    context.done(CONDITIONAL)
    name = context.fresh("loop_body")
    edits = context.edits
    edits.cut(node, edits.start(node), edits.end(node.test), f"def {name}({register})")
    edits.after(node.body[-1], f"return {register}")
    edits.after(node, f"{context.nl('while_loop')}({register}, {name})")


# -- what a function cannot do -----------------------------------------------------------------------------------------


def _obstacle(context: Context, node: Loop) -> str:
    """Return why the body of a loop cannot be a function; empty where it can."""
    head = node.iter if isinstance(node, ast.For) else node.test
    edits = context.edits
    if not edits.text[edits.end(head) :].lstrip(" ").startswith(":"):
        return "its header is in parentheses"
    if node.orelse:
        return "it has an else"
    for item in _inside(node):
        if isinstance(item, ast.Return | ast.Yield | ast.YieldFrom | ast.Nonlocal | ast.Global):
            return f"its body has {type(item).__name__.lower()} in line {item.lineno}"
        if isinstance(item, ast.Break | ast.Continue) and _loop_of(context, item) is node:
            return f"its body has {type(item).__name__.lower()} in line {item.lineno}"
        if isinstance(item, ast.With) and _is_ordered(context, item):
            return "nl.no_reorder is in it: such a block holds no loop, and no loop such a block"
    if any(isinstance(item, ast.With) and _is_ordered(context, item) for item in edits.above(node)):
        return "nl.no_reorder is around it"
    if context.names.function(node) is None:
        return "it is in no function"
    name = _carried(context, node)
    return f"{name} keeps a value from one iteration to the next or beyond: keep it in a tile" if name else ""


def _is_ordered(context: Context, node: ast.With) -> bool:
    return any(context.names.called(item.context_expr, f"{_LANGUAGE}.no_reorder") for item in node.items)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in a loop's body, those of functions in it left out."""
    stack: list[ast.AST] = list(node.body)  # type: ignore[attr-defined]
    while stack:
        item = stack.pop()
        yield item
        if not isinstance(item, _SCOPES):
            stack.extend(ast.iter_child_nodes(item))


def _loop_of(context: Context, node: ast.AST) -> ast.AST | None:
    return next((item for item in context.edits.above(node) if isinstance(item, ast.For | ast.While)), None)


def _carried(context: Context, node: Loop) -> str:
    """Return a name that the body binds and that is read outside of it, or before it is bound in it."""
    bound = {
        item.id
        for item in (*_inside(node), *([node.target] if isinstance(node, ast.For) else ()))
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del) and not _is_own(context, item, node)
    }
    bound |= {item.name for item in _inside(node) if isinstance(item, (*FUNCTIONS, ast.ClassDef))}
    within = {id(item) for part in node.body for item in ast.walk(part)} | {id(node)}
    updated = {
        item.target.id
        for item in _inside(node)
        if isinstance(item, ast.AugAssign) and isinstance(item.target, ast.Name)
    }
    if updated:
        return min(updated)
    register = node.test.id if isinstance(node, ast.While) and isinstance(node.test, ast.Name) else ""
    owner = context.names.function(node)
    for item in ast.walk(owner) if owner is not None and bound else ():
        if not isinstance(item, ast.Name) or item.id not in bound or not isinstance(item.ctx, ast.Load):
            continue
        found = context.names.definition(item)
        is_inside = id(item) in within
        if item.id == register and is_inside:
            continue
        if found is None or (id(found[0]) in within) is not is_inside:
            return item.id
    return ""


def _is_own(context: Context, node: ast.AST, loop: Loop) -> bool:
    """Return whether a name is bound by a comprehension."""
    for item in context.edits.above(node):
        if item is loop:
            return False
        if isinstance(item, _COMPREHENSIONS):
            return True
    return False
