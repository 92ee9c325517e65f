"""Tensors by their text, in code that the evaluation of a kernel does not come to."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.isa.spec import TABLE, Beta1
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.migrate.names import Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import NOTHING, Seen, Values

_KERNELS: Final = ("nki.jit", "nki.baremetal", "nki.benchmark", "nki.profile")
_INDICES: Final = ("nki.language.arange", "nki.language.mgrid")
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

    def seen(self, node: ast.expr) -> Seen:
        """Return what the text tells of an expression."""
        marked = self._marked(node)
        return Seen(kinds={"tensor"}, marked=marked) if marked or self._is_tensor(node) else NOTHING

    def _marked(self, node: ast.expr) -> int:
        """Return the number of block dimensions of what a name or a creation stands for."""
        match node:
            case ast.Name():
                found = self._names.definition(node)
                return self._values.of(found[1]).blocks() if found and found[1] is not None and found[2] is None else 0
            case ast.Subscript(value=value, slice=key):
                count = len(key.elts) if isinstance(key, ast.Tuple) else 1
                return max(0, self._values.of(value).blocks() - count)
            case ast.Call(args=[ast.Tuple(elts=sizes) | ast.List(elts=sizes), *_]) if self._is_tensor(node):
                marks = [place for place, item in enumerate(sizes) if self._names.called(item, "nki.language.par_dim")]
                return marks[0] if marks else 0
            case _:
                return 0

    def _is_tensor(self, node: ast.expr) -> bool:
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
        if owner is None or node.id not in {item.arg for item in (*owner.args.args, *owner.args.kwonlyargs)}:
            return False
        keys = [
            item.slice
            for item in ast.walk(owner)
            if isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name) and item.value.id == node.id
        ]
        is_kernel = any(self._names.dotted(_called(item)) in _KERNELS for item in owner.decorator_list)
        return bool(keys) and (is_kernel or any(self._walks(item) for key in keys for item in ast.walk(key)))

    def _walks(self, node: ast.AST, depth: int = 4) -> bool:
        """Return whether a name stands for index ranges."""
        found = self._names.definition(node) if isinstance(node, ast.Name) else None
        if found is None or found[1] is None or not depth:
            return False
        parts = list(ast.walk(found[1]))
        return any(
            (isinstance(item, ast.expr) and self._names.dotted(item) in _INDICES) or self._walks(item, depth - 1)
            for item in parts
        )


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node
