"""Operators, dtypes and constants that instructions take: `np.add` as `nl.add`, `nl.fp32.min` as a number."""

from __future__ import annotations

import ast
from typing import Final

import numpy as np

from nki_lab.isa.alu import ALU
from nki_lab.kernel_runtime.beta1.memory import bfp16, finfo, fp32
from nki_lab.migrate.context import Context

_NUMPY: Final = {
    "amax": "maximum", "max": "maximum", "amin": "minimum", "min": "minimum", "sum": "add", "prod": "multiply",
    "copy": "copy", "exp": "exp", "square": "square", "tanh": "tanh", "sqrt": "sqrt", "abs": "abs", "log": "log",
}  # fmt: skip
"""NumPy's functions, and NKI's reductions, with the operators that they stand for."""
_REDUCTIONS: Final = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "multiply"}
_ENGINE: Final = "_engine"
_LIMITS: Final = {"nki.language.fp32.min": fp32.min, "nki.isa.fp32.min": fp32.min, "nki.language.bfp16.min": bfp16.min}


def operator_text(context: Context, node: ast.expr) -> str:
    """Return the source of an argument that is no tensor: operators and dtypes of NumPy are those of NKI."""
    name = context.names.dotted(node)
    path, _, last = name.rpartition(".")
    if path == "numpy":
        current = _NUMPY.get(last, last if last in ALU else "")
        if current:
            context.done(26)
            return context.nl(current)
        if hasattr(np, last) and isinstance(getattr(np, last), type):
            return context.nl("bool_" if last == "bool_" else last)
    if path == "nki.language" and last in _REDUCTIONS:
        context.done(26)
        return context.nl(_REDUCTIONS[last])
    return context.edits.text_of(node)


def constant_text(context: Context, node: ast.expr) -> str | None:
    """Return the source of a limit or an engine that has another name now; None for others."""
    if isinstance(node, ast.Attribute):
        name = context.names.dotted(node)
        if name in _LIMITS:
            context.done(31)
            return _number(_LIMITS[name])
        path, _, last = name.rpartition(".")
        if path == "nki.isa" and last.endswith(_ENGINE):
            context.done(32)
            return context.nisa(f"engine.{last.removesuffix(_ENGINE)}")
        if context.names.called(node.value, "nki.language.finfo") and isinstance(node.value, ast.Call):
            return _limit(context, node.value, node.attr)
    return None


def _limit(context: Context, call: ast.Call, name: str) -> str | None:
    if len(call.args) != 1:
        return None
    kind = context.names.dotted(call.args[0]).rpartition(".")[2]
    try:
        number = float(getattr(finfo(kind), name))
    except (TypeError, ValueError, AttributeError, KeyError):
        context.leave(31, call, "the dtype is known when the kernel runs only")
        return None
    except Exception:  # noqa: BLE001 - an unknown dtype
        context.leave(31, call, "the dtype is known when the kernel runs only")
        return None
    context.done(31)
    return _number(number)


def _number(value: float) -> str:
    return f"float('{value}')" if value in (float("inf"), float("-inf")) else repr(float(value))
