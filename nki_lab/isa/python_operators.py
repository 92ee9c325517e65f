"""Python's operators of two sides, and the functions of `nki.language` that do the same with tiles."""

from __future__ import annotations

import ast
from typing import Final, NamedTuple


class PythonOperator(NamedTuple):
    """An operator: its sign, its method without underscores, its node of a syntax tree, and the name in `nki.language`.

    `//` has no function there: Beta 1 has it as an operator only.
    """

    sign: str
    method: str
    node: type[ast.operator | ast.cmpop]
    name: str


ARITHMETIC: Final = (
    PythonOperator("+", "add", ast.Add, "add"),
    PythonOperator("-", "sub", ast.Sub, "subtract"),
    PythonOperator("*", "mul", ast.Mult, "multiply"),
    PythonOperator("/", "truediv", ast.Div, "divide"),
    PythonOperator("//", "floordiv", ast.FloorDiv, "floor_divide"),
    PythonOperator("%", "mod", ast.Mod, "mod"),
    PythonOperator("**", "pow", ast.Pow, "power"),
    PythonOperator("@", "matmul", ast.MatMult, "matmul"),
    PythonOperator("&", "and", ast.BitAnd, "bitwise_and"),
    PythonOperator("|", "or", ast.BitOr, "bitwise_or"),
    PythonOperator("^", "xor", ast.BitXor, "bitwise_xor"),
    PythonOperator("<<", "lshift", ast.LShift, "left_shift"),
    PythonOperator(">>", "rshift", ast.RShift, "right_shift"),
)
"""Operators that Python reflects: the method of the right side begins with r."""

ORDERINGS: Final = (
    PythonOperator("<", "lt", ast.Lt, "less"),
    PythonOperator("<=", "le", ast.LtE, "less_equal"),
    PythonOperator(">", "gt", ast.Gt, "greater"),
    PythonOperator(">=", "ge", ast.GtE, "greater_equal"),
)
EQUALITIES: Final = (
    PythonOperator("==", "eq", ast.Eq, "equal"),
    PythonOperator("!=", "ne", ast.NotEq, "not_equal"),
)
COMPARISONS: Final = (*ORDERINGS, *EQUALITIES)
