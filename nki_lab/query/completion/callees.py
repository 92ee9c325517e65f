"""Functions that a call at the cursor may call, and their parameters: NKI's, tensors' methods, the user's own."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, Protocol
from weakref import WeakKeyDictionary

from nki_lab.isa.activation import Activation
from nki_lab.isa.alu import ALU, AluOp
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Instruction, Operand
from nki_lab.kernel_runtime.interpreter.namespaces import beta1_dialect
from nki_lab.kernel_runtime.interpreter.parameter_uses import TENSORS
from nki_lab.kernel_runtime.issue.legality import operators_of
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.query.completion.cursor import Argument
from nki_lab.query.completion.imported import imported_function
from nki_lab.query.completion.surroundings import Surroundings
from nki_lab.query.completion.values import OPEN, KnownTensor, Method, Value, ValuesAt
from nki_lab.query.names import operand_text, place_of, spelled
from nki_lab.source.names import NameUses, definitions_of, dotted
from nki_lab.source.trees import FUNCTIONS, last_name

Kind = Literal["", "tensor", "operator", "enum", "dtype", "buffer", "bool", "choice"]

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OF_TENSORS: Final = frozenset({"NkiTensor", "Operand", "Tensors"})
"""Annotations of NKI's functions that stand for tensors."""


class Functions(Protocol):
    """Tells NKI's functions and classes from other values."""

    def is_function(self, value: Value) -> bool: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its default as NKI spells it, empty where it has none, how it is passed, and what it takes.

    `kind` tells what is passed for it, `enum` the enumeration where that is a member of one; `operand` is its
    declaration where it is an argument of an instruction, and `doc` a line about it otherwise.
    """

    name: str
    default: str = ""
    by_position: bool = True
    by_name: bool = True
    kind: Kind = ""
    enum: type[Enum] | None = None
    operand: Operand | None = None
    doc: str = ""

    @property
    def required(self) -> bool:
        """Return whether a call without it is wrong."""
        return not self.default

    @property
    def operators(self) -> Mapping[str, AluOp | Activation]:
        """Return the operators that it takes, by name; none where it takes something else."""
        if self.operand is not None:
            return operators_of(self.operand)
        return ALU if self.kind == "operator" else {}

    @property
    def spelling(self) -> str:
        """Return the parameter as a signature shows it."""
        return f"{self.name}={self.default}" if self.default else self.name

    @property
    def summary(self) -> str:
        """Return one line about it."""
        if self.operand is None:
            return self.doc
        dtypes = f", {' '.join(item.name for item in self.operand.dtypes)}" if self.operand.dtypes else ""
        return f"{self.operand.doc}{place_of(self.operand)}{dtypes}"


@dataclass(frozen=True, slots=True)
class Callee:
    """A function with its parameters; `doc` is a line about it, `instruction` its declaration where it has one.

    A function of the text that no kernel reaches is no kernel code.
    """

    name: str
    parameters: tuple[Parameter, ...]
    doc: str = ""
    instruction: Instruction | None = None
    rest: bool = False  # it takes any number of arguments by position
    is_kernel_code: bool = True

    def parameter(self, before: Sequence[Argument], current: Argument) -> Parameter | None:
        """Return the parameter that an argument is for, None where that is unknown.

        A bare name behind keywords is the beginning of another keyword.
        """
        if current.keyword:
            return next((item for item in self.parameters if item.name == current.keyword), None)
        given = {item.keyword for item in before if item.keyword}
        if given:
            missing = self.missing(given, sum(not item.keyword for item in before))
            alike = [item for item in missing if current.value and item.name.startswith(current.value)]
            return next(iter([*alike, *missing]), None)
        places = [item for item in self.parameters if item.by_position]
        if any(item.value.startswith("*") for item in (*before, current)):
            return None
        return (
            places[min(len(before), len(places) - 1)] if len(before) < len(places) or (self.rest and places) else None
        )

    def missing(self, given: set[str] | frozenset[str], positional: int) -> list[Parameter]:
        """Return the parameters that can still be passed by keyword, the required ones first."""
        taken = {item.name for item in [item for item in self.parameters if item.by_position][:positional]} | given
        left = [item for item in self.parameters if item.by_name and item.name not in taken]
        return [*(item for item in left if item.required), *(item for item in left if not item.required)]

    def text(self, item: Parameter, arch: Arch) -> str:
        """Return the Markdown about a parameter, with its limits on a target."""
        if item.operand is not None and self.instruction is not None:
            default = f"default: `{item.default}`" if item.default else ""
            return operand_text(self.instruction, item.operand, arch, default)
        return f"**{item.name}**{f': {item.doc}' if item.doc else ''}"


def callee_of(around: Surroundings, node: ast.expr) -> Callee | None:
    """Return the function that an expression at the cursor names; None where nothing is known of it."""
    value = around.values.of(node, around.scope)
    if isinstance(value, Method):
        return of_function(f"tensor.{value.name}", value.function, skipped=1)
    if isinstance(node, ast.Attribute) and around.dialect == "beta1":
        method = tensor_methods(around.dialect).get(node.attr)
        if method is not None and isinstance(around.values.of(node.value, around.scope), KnownTensor):
            return of_function(f"tensor.{node.attr}", method, skipped=1)
    found = callee_of_value(ast.unparse(node), value, around.values)
    if found is not None:
        return found
    inner = node.value if isinstance(node, ast.Subscript) else node  # kernel[2]
    if isinstance(inner, ast.Name):
        candidates = definitions_of(inner.id, around.scope)
    elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
        candidates = _methods(inner.value.id, inner.attr, around.scope)
    else:
        candidates = []
    if candidates:
        return _own(candidates[-1], around.values)
    path = dotted(inner, around.scope) if around.files is not None and value is OPEN else ""
    if around.files is None or "." not in path:
        return None
    other = imported_function(path, around.facts.file, around.files())
    return None if other is None else _own(*other)


def callee_of_value(name: str, value: Value, values: Functions) -> Callee | None:
    """Return a function or class of NKI's as it is called; None for other values."""
    instruction = getattr(value, "nki_instruction", None)
    if isinstance(instruction, Instruction):
        return _instruction(name, value, instruction)
    if inspect.isroutine(value) and values.is_function(value):
        return of_function(name, value)
    if isinstance(value, type) and values.is_function(value) and not issubclass(value, Enum):
        made = of_function(name, value)  # type: ignore[arg-type]  # classes can be hashed
        is_made_by_users = made is not None and bool(made.parameters) and made.parameters[0].name[0] != "_"
        return made if is_made_by_users else None
    return None


def tensor_methods(dialect: str) -> dict[str, Callable[..., Any]]:
    """Return the methods of tensors that a dialect has beside those of all tensors."""
    front_end = beta1_dialect() if dialect == "beta1" else None
    return {} if front_end is None else dict(front_end.TENSOR_METHODS)


# -- NKI's -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _instruction(name: str, function: Callable[..., object], instruction: Instruction) -> Callee:
    arguments = {**instruction.operands, **instruction.arguments}
    found = [
        Parameter(
            item.name,
            "" if item.default is item.empty else repr(spelled(item.default)),
            by_position=item.kind in _POSITIONAL,
            kind=_kind_of_operand(arguments.get(item.name)) or _kind_of(item)[0],
            enum=getattr(arguments.get(item.name), "enum", None),
            operand=arguments.get(item.name),
            doc=_GENERIC.get(item.name, ""),
        )
        for item in inspect.signature(function).parameters.values()
    ]
    return Callee(name, tuple(found), instruction.summary, instruction)


_GENERIC: Final = {
    "name": "the name of the instruction, in views and for `kernel.with_schedule`",
    "mask": "a comparison of indices: elements where it is false are left as they are",
    "dtype": "the dtype of the result",
}
"""Arguments that Beta 1 has for all instructions, and the name, which both dialects have."""


def _kind_of_operand(operand: Operand | None) -> Kind:
    if operand is None:
        return ""
    if operand.is_tensor:
        return "tensor"
    if operators_of(operand):
        return "operator"
    if operand.enum is not None:
        return "enum"
    if operand.kind == "bool":
        return "bool"
    return "choice" if operand.choices else ""


@lru_cache(maxsize=1024)
def of_function(name: str, function: Callable[..., object], skipped: int = 0) -> Callee | None:
    """Return a function that tells its parameters, without those `skipped` at the beginning; None for others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    items = list(signature.parameters.values())[skipped:]
    found = []
    for item in items:
        if item.kind in _VARIADIC:
            continue
        kind, enum = _kind_of(item)
        default = "" if item.default is item.empty else repr(spelled(item.default))
        by_name = item.kind is not inspect.Parameter.POSITIONAL_ONLY
        found.append(Parameter(item.name, default, item.kind in _POSITIONAL, by_name, kind, enum))
    doc = inspect.getdoc(function) or ""
    rest = any(item.kind is inspect.Parameter.VAR_POSITIONAL for item in items)
    return Callee(name, tuple(found), doc.partition("\n")[0], rest=rest)


def _kind_of(item: inspect.Parameter) -> tuple[Kind, type[Enum] | None]:
    """Return what a function that has no declaration takes for a parameter, by its name, default and annotation."""
    if isinstance(item.default, MemoryRegion) or item.name == "buffer":
        return "buffer", None
    if isinstance(item.default, Enum):
        return "enum", type(item.default)
    if item.name.endswith("dtype"):
        return "dtype", None
    if isinstance(item.default, bool):
        return "bool", None
    if item.name == "op":
        return "operator", None
    return ("tensor" if str(item.annotation).partition(" ")[0] in _OF_TENSORS else ""), None


# -- the user's --------------------------------------------------------------------------------------------------------


def _methods(owner: str, name: str, scope: NameUses) -> list[NameUses]:
    """Return the methods that `self.name` may mean in a method of the same class."""
    for item in scope.enclosing():
        outer, node = item.parent, item.node
        if outer is None or not isinstance(outer.node, ast.ClassDef) or not isinstance(node, FUNCTIONS):
            continue
        if node.args.args and node.args.args[0].arg == owner:
            return outer.definitions.get(name, [])
    return []


def _own(scope: NameUses, values: ValuesAt) -> Callee | None:
    """Return a function or class of the text as it is called."""
    node = scope.node
    if isinstance(node, ast.ClassDef):
        made = scope.definitions.get("__init__")
        if made:
            inner = _own(made[-1], values)
            doc = (ast.get_docstring(node) or "").partition("\n")[0]
            return None if inner is None else replace(inner, name=node.name, doc=doc or inner.doc)
        doc = (ast.get_docstring(node) or "").partition("\n")[0]
        return Callee(node.name, tuple(_fields(node)), doc, is_kernel_code=values.is_kernel_code(scope))
    if not isinstance(node, FUNCTIONS):
        return None
    text = ast.get_docstring(node) or ""
    method = isinstance(scope.parent.node if scope.parent is not None else None, ast.ClassDef)
    bound = method and not any(last_name(item) == "staticmethod" for item in node.decorator_list)
    found = tuple(_parameters(node.args, text, values.used_as_tensors(scope)))[1 if bound else 0 :]
    return Callee(
        node.name,
        found,
        text.partition("\n")[0],
        rest=node.args.vararg is not None,
        is_kernel_code=values.is_kernel_code(scope),
    )


def _parameters(arguments: ast.arguments, text: str, tensors: frozenset[str]) -> Iterator[Parameter]:
    for item, default in _defaults(arguments):
        kind: Kind = "tensor" if item.arg in tensors else ""
        if item.annotation is not None and last_name(_plain_annotation(item.annotation)) in TENSORS:
            kind = "tensor"
        elif isinstance(default, ast.Constant) and isinstance(default.value, bool):
            kind = "bool"
        elif item.arg.endswith("dtype") and not kind:
            kind = "dtype"
        annotation = ast.unparse(item.annotation) if item.annotation is not None else ""
        yield replace(_brief(item, default, arguments), kind=kind, doc=_argument_doc(text, item.arg) or annotation)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the parameters that have names, with their defaults."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = len(positional) - len(arguments.defaults)
    yield from zip(positional, [*[None] * without, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _brief(item: ast.arg, default: ast.expr | None, arguments: ast.arguments) -> Parameter:
    return Parameter(
        item.arg,
        "" if default is None else ast.unparse(default),
        by_position=item not in arguments.kwonlyargs,
        by_name=item not in arguments.posonlyargs,
    )


_briefs: Final[WeakKeyDictionary[ast.AST, Callee]] = WeakKeyDictionary()


def listed_function(scope: NameUses) -> Callee | None:
    """Return a function or class of the text for a list of names: without what its parameters take."""
    node = scope.node
    if node in _briefs:
        return _briefs[node]
    made = scope.definitions.get("__init__", []) if isinstance(node, ast.ClassDef) else [scope]
    inner = made[-1].node if made else None
    if isinstance(inner, FUNCTIONS) and isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        found = [_brief(item, default, inner.args) for item, default in _defaults(inner.args)]
        parameters = tuple(found[1 if inner is not node else 0 :])
    elif isinstance(node, ast.ClassDef):
        parameters = tuple(_fields(node))
    else:
        return None
    _briefs[node] = Callee(node.name, parameters, (ast.get_docstring(node) or "").partition("\n")[0])
    return _briefs[node]


def _plain_annotation(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _fields(node: ast.ClassDef) -> Iterator[Parameter]:
    """Yield the parameters of a class without a constructor of its own: the fields that it annotates."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = "" if item.value is None else ast.unparse(item.value)
            yield Parameter(item.target.id, default, doc=ast.unparse(item.annotation))


def _argument_doc(text: str, name: str) -> str:
    """Return the line about a parameter in a docstring that lists them."""
    found = re.search(rf"^\s*[-*]?\s*`?{re.escape(name)}`?\s*(?:\([^)\n]*\))?\s*:\s*(\S.*)$", text, re.MULTILINE)
    return found[1].strip() if found is not None else ""
