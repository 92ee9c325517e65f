"""The text's own names at the cursor: variables, parameters, functions, and what it imports of NKI."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.interpreter.values import Namespace
from nki_lab.query.completion import candidates
from nki_lab.query.completion.callees import callee_of_value, listed_function
from nki_lab.query.completion.candidates import Completion
from nki_lab.query.completion.surroundings import Surroundings
from nki_lab.query.completion.values import KnownTensor
from nki_lab.source.names import NameUses, definitions_of
from nki_lab.source.trees import FUNCTIONS, parameters

_CUSTOMARY: Final = {"nki.language": "nl", "nki.isa": "nisa"}


def names_in_scope(around: Surroundings, known: Mapping[str, Variable]) -> Iterator[Completion]:
    """Yield the names that the scope at the cursor can read, inner ones first; `known` is what an evaluation tells."""
    listed = around.values.listed(around.scope, lambda: _names(around, known))
    return (item for item, bound in listed if bound or item.label in around.words)


def _names(around: Surroundings, known: Mapping[str, Variable]) -> Iterator[tuple[Completion, bool]]:
    """Yield the names of all scopes around, and whether they are bound whatever the place of the cursor is."""
    seen: set[str] = set()
    for scope in around.scope.enclosing():
        own = set(_parameters(scope))
        for name in sorted({*scope.bound, *scope.imports, *scope.definitions, *scope.aliases}):
            bound = name in own or name in scope.definitions or name in scope.imports or scope is not around.scope
            if name not in seen and not name.startswith("__"):
                seen.add(name)
                yield _name(around, name, known.get(name), is_parameter=name in own), bound


def spelled_module(around: Surroundings, module: str) -> str:
    """Return how the text spells a module of NKI's; empty where it does not import it."""
    for scope in around.scope.enclosing():
        for name, path in scope.imports.items():
            if path == module:
                return name
    parent, _, last = module.rpartition(".")
    for scope in around.scope.enclosing():
        for name, path in scope.imports.items():
            if path == parent:
                return f"{name}.{last}"
    if any(scope.imports.get("neuronxcc") == "neuronxcc" for scope in around.scope.enclosing()):
        return module if module.startswith("neuronxcc.") else ""
    short = _CUSTOMARY.get(module, "")
    return short if short and around.scope.binder(short) is None and around.facts.module.stars else ""


def _parameters(scope: NameUses) -> Iterator[str]:
    if isinstance(scope.node, (*FUNCTIONS, ast.Lambda)):
        yield from (item.arg for item in parameters(scope.node.args))


def _name(around: Surroundings, name: str, known: Variable | None, *, is_parameter: bool) -> Completion:
    value = around.values.name(name, around.scope)
    kind: candidates.Kind = "parameter" if is_parameter else "variable"
    made = Completion(name, kind, value=value)
    if isinstance(value, Namespace):
        return replace(made, kind="module", order=3, note=value.name, summary=f"the module {value.name}")
    if known is not None:
        return replace(made, note=known.text)
    if isinstance(value, KnownTensor):
        return replace(made, note=described(value))
    if type(value) in (int, float, bool, str):
        return replace(made, kind=kind if is_parameter else "constant", order=1, note=repr(value)[:40])
    if isinstance(value, type) and issubclass(value, Enum):
        return replace(made, kind="enum")
    callee = callee_of_value(name, value, around.values)
    if callee is None:
        own = definitions_of(name, around.scope)
        callee = listed_function(own[-1]) if own else None
    if callee is not None:
        signature = f"({', '.join(item.spelling for item in callee.parameters)})"
        return replace(made, kind="function", order=2, signature=signature, summary=callee.doc, callee=callee)
    return made


def described(tensor: KnownTensor) -> str:
    """Return what is known of a tensor: shape, dtype, memory."""
    sizes = "" if tensor.shape is None else f"({', '.join(map(str, tensor.shape))}{',' * (len(tensor.shape) == 1)})"
    memory = "" if tensor.space is None else f"in {tensor.space.value.upper()}"
    return " ".join(part for part in (sizes, tensor.dtype.name if tensor.dtype else "", memory) if part) or "tensor"
