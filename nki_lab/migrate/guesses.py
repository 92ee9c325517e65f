"""Tensors by their text, in code that the evaluation of a kernel does not come to."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.isa.spec import TABLE, Beta1
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.migrate.names import Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import Values

_METHODS: Final = ("reshape", "broadcast_to", "view", "permute", "ap", "expand_dim", "broadcast")
_NO_TENSORS: Final = frozenset(
    ("affine_range", "sequential_range", "static_range", "program_id", "num_programs", "program_ndim", "ds", "store",
     "device_print", "static_cast", "range", "arange")
)  # fmt: skip


class Guesses:
    """Tells tensors of what is subscripted, computed and passed on."""

    def __init__(self, edits: SourceEdits, names: Names, values: Values) -> None:
        self._edits, self._names, self._values = edits, names, values
        self._functions = {name for name, item in namespaces.language_names().items() if callable(item)}

    def is_tensor(self, node: ast.expr) -> bool:
        """Return whether the text takes an expression for a tensor."""
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _METHODS:
                return self._values.of(value).is_tensor
            case ast.Call(func=func):
                path, _, name = self._names.dotted(func).rpartition(".")
                if path == "nki.isa":
                    spelling = TABLE[name].beta1 if name in TABLE else None
                    return isinstance(spelling, Beta1) and bool(spelling.returns)
                return path == "nki.language" and name in self._functions and name not in _NO_TENSORS
            case ast.Subscript(value=value):
                return self._values.of(value).is_tensor
            case ast.BinOp(left=left, right=right):
                return self._values.of(left).is_tensor or self._values.of(right).is_tensor
            case _:
                return False

    def _name(self, node: ast.Name) -> bool:
        found = self._names.definition(node)
        if found is not None:
            return found[1] is not None and found[2] is None and self._values.of(found[1]).is_tensor
        owner = self._names.function(node)
        if owner is None or node.id not in {item.arg for item in owner.args.args}:
            return False
        return any(
            self._names.dotted(_called(item)) in ("nki.jit", "nki.baremetal") for item in owner.decorator_list
        ) and (self._is_subscripted(owner, node.id))

    def _is_subscripted(self, owner: ast.AST, name: str) -> bool:
        return any(
            isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name) and item.value.id == name
            for item in ast.walk(owner)
        )


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node
