"""Displays and texts: lists, tuples, sets, dictionaries, f-strings."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import comprehensions, expressions, objects
from nki_lab.kernel_runtime.frontend.evaluator.operations import formatted
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, EnumMember, Frame, Instance, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.source.scopes import Scope

Expression = Callable[[Frame], Any]


def items_of(nodes: list[ast.expr], scope: Scope, owner: ast.AST) -> Callable[[Frame], Any]:
    """The values of a row of expressions, starred ones spread; UNKNOWN where one of those is."""
    parts = [
        (isinstance(node, ast.Starred), expressions.build(node.value if isinstance(node, ast.Starred) else node, scope))
        for node in nodes
    ]
    if not any(starred for starred, _ in parts):
        plain = [part for _, part in parts]
        return lambda frame: [part(frame) for part in plain]

    def run(frame: Frame) -> Any:
        values: list[Any] = []
        unknown = False
        for starred, part in parts:
            value = part(frame)
            if not starred:
                values.append(value)
                continue
            spread = comprehensions.listed(frame, owner, value)
            unknown = unknown or spread is UNKNOWN
            values.extend([] if spread is UNKNOWN else spread)
        return UNKNOWN if unknown else values

    return run


def build_display(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Expression:
    """A list, tuple or set."""
    values, kind = items_of(node.elts, scope, node), {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(frame: Frame) -> Any:
        found = values(frame)
        if found is UNKNOWN or (kind is set and has_unknown(found)):
            return UNKNOWN
        frame.m.meter.spend(len(found) >> 3)
        try:
            return kind(frame.m.meter.walked(found) if kind is set else found)
        except Exception as error:  # noqa: BLE001 - an unhashable member
            return frame.m.fault(error, node, frame)

    return run


def build_dict(node: ast.Dict, scope: Scope) -> Expression:
    """A dictionary."""
    parts = [
        (None if key is None else expressions.build(key, scope), expressions.build(value, scope))
        for key, value in zip(node.keys, node.values, strict=True)
    ]

    def run(frame: Frame) -> Any:
        made: dict[Any, Any] = {}
        unknown = False
        try:
            for key, value in parts:
                where = UNKNOWN if key is None else key(frame)
                what = value(frame)
                if key is None and isinstance(what, dict) and not frame.m.is_doubtful(what):
                    made.update(what)
                elif where is UNKNOWN or has_unknown(where):
                    unknown = True
                else:
                    made[frame.m.meter.walked(where)] = what
        except Exception as error:  # noqa: BLE001 - an unhashable key
            return frame.m.fault(error, node, frame)
        return UNKNOWN if unknown else made

    return run


def build_text(node: ast.JoinedStr, scope: Scope) -> Expression:
    """An f-string."""
    parts = [expressions.build(value, scope) for value in node.values]

    def run(frame: Frame) -> Any:
        texts = [part(frame) for part in parts]
        if any(text is UNKNOWN for text in texts):
            return UNKNOWN
        try:
            frame.m.meter.text(sum(len(text) for text in texts))
        except Exception as error:  # noqa: BLE001 - too long
            return frame.m.fault(error, node, frame)
        return "".join(texts)

    return run


def build_part(node: ast.FormattedValue, scope: Scope) -> Expression:
    """One `{...}` of an f-string."""
    value, spec = (
        expressions.build(node.value, scope),
        None if node.format_spec is None else expressions.build(node.format_spec, scope),
    )

    def run(frame: Frame) -> Any:
        found, how, conversion = value(frame), "" if spec is None else spec(frame), node.conversion
        if isinstance(found, Instance) and how is not UNKNOWN and not how:
            found = objects.text(found)
        elif isinstance(found, EnumMember) and found.cls.kind not in ("intenum", "strenum"):
            found, conversion = objects.text(found, conversion), -1
        if how is UNKNOWN or isinstance(found, Instance | TensorSpec) or frame.m.is_doubtful(found):
            return UNKNOWN
        if frame.m.lacks(found):
            return UNKNOWN
        try:
            return formatted(found, conversion, how, frame.m.meter)
        except Exception as error:  # noqa: BLE001 - a bad format
            return frame.m.fault(error, node, frame)

    return run
