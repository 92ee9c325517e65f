"""Functions of the user's that do nothing but check a condition: their faults are those of the callers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

from nki_lab.source.module import argument_of
from nki_lab.source.trees import FUNCTIONS, Extent, extent


class FailedCheck(NamedTuple):
    """A condition that a call hands to a checking function: its place, and its text with the numbers in it."""

    place: Extent
    text: str


def checked_parameter(node: ast.AST) -> str:
    """Return the parameter that a function asserts, or raises without, and does nothing else; "" for others."""
    if not isinstance(node, FUNCTIONS) or node.decorator_list:
        return ""
    body = [item for item in node.body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
    match body:
        case [ast.Assert(test=ast.Name(id=name))]:
            pass
        case [
            ast.If(
                test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)),
                body=[ast.Raise() | ast.Assert(test=ast.Constant(value=False))],
                orelse=[],
            )
        ]:
            pass
        case _:
            return ""
    return name if name in _parameters(node) else ""


def failed_check(function: ast.AST, call: ast.AST, value_of: Callable[[str], object]) -> FailedCheck | None:
    """Return the condition that `call` hands to the checking `function`; None where it is no such function.

    `value_of` gives the values of names where the call stands.
    """
    name = checked_parameter(function)
    if not name or not isinstance(function, FUNCTIONS) or not isinstance(call, ast.Call):
        return None
    condition = argument_of(call, name, _parameters(function))
    if condition is None:
        return None
    names = dict.fromkeys(part.id for part in ast.walk(condition) if isinstance(part, ast.Name))
    values = {name: value_of(name) for name in names}
    shown = [f"{name} = {value}" for name, value in values.items() if type(value) in (int, float)]
    text = ast.unparse(condition)
    return FailedCheck(extent(condition), f"{text}, with {' and '.join(shown)}" if shown else text)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    arguments = node.args
    return tuple(
        arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if arg.arg != "self"
    )
