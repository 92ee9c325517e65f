"""Annotations of functions as text for a stub."""

from __future__ import annotations

import builtins
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from numbers import Number
from typing import Any, Final

import numpy as np

from nki_lab.isa.spec import Instruction, Operand
from nki_lab.kernel_runtime.issue.legality import PLAIN_VALUES

KINDS: Final[Mapping[str, str]] = {
    "alu": "Operator",
    "activation": "Operator",
    "bool": "bool",
    "number": "Scalar",
    "pattern": "Sequence[Sequence[int]]",
    "axis": "int | Sequence[int]",
    "pair": "Sequence[int]",
    "integers": "int | Sequence[int]",
    "any": "Any",
    "register": "VirtualRegister",
    "register_out": "VirtualRegister",
    "register_or_int": "VirtualRegister | int",
}
"""The types of compile-time arguments by the `kind` of their declaration; an enumeration is its own."""

_WIDER: Final[Mapping[object, str]] = {Number: "Scalar", inspect.Parameter.empty: "Any", Ellipsis: "..."}
"""What checkers would read too narrowly: to them an int is no `Number`."""


@dataclass(slots=True)
class Scope:
    """The names of one stub: those that it defines, by the object that they name, and those that it has to import."""

    module: str
    shared: str
    """The module with the classes of the dialect."""
    classes: Mapping[int, tuple[str, str]]
    """Module and name of each class that some stub of the dialect defines, by the class's `id`."""
    taken: frozenset[str] = frozenset()
    """Names of the module that hide a builtin."""
    tensor: str = "NkiTensor"
    """The class of tensors that functions take."""
    imports: set[str] = field(default_factory=set)

    def builtin(self, name: str) -> str:
        """Return how the stub spells a builtin."""
        if name not in self.taken:
            return name
        self.imports.add("import builtins")
        return f"builtins.{name}"

    def use(self, module: str, name: str) -> str:
        """Return a name of another module, and import it."""
        if module != self.module:
            self.imports.add(f"from {module} import {name}")
        return name

    def given(self, text: str) -> str:
        """Return the annotation of a parameter: Beta 1's functions take the tensors of both dialects."""
        if self.tensor == "NkiTensor" or "NkiTensor" not in text:
            return text
        self.use(self.shared, self.tensor)
        return text.replace("NkiTensor", self.tensor)

    def common(self, text: str) -> str:
        """Return an annotation of `KINDS` as the stub has it."""
        for name in ("Any", "Literal"):
            if name in text:
                self.use("typing", name)
        if "Sequence" in text:
            self.use("collections.abc", "Sequence")
        for name in ("Operator", "Scalar", "VirtualRegister", "NkiTensor"):
            if name in text:
                self.use(self.shared, name)
        for name in ("int", "bool", "str"):
            if name in self.taken:
                text = text.replace(name, self.builtin(name))
        return text


def text_of(kind: Any, scope: Scope) -> str:
    """Return a type as text; `Any` for one that has no place in a stub."""
    if isinstance(kind, typing.TypeVar | str):
        return scope.common("Any")
    if kind is None or kind is type(None):
        return "None"
    if kind in _WIDER:
        return scope.common(_WIDER[kind])
    if kind is Any:
        return scope.common("Any")
    if kind is typing.Self:
        return scope.use("typing_extensions", "Self")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        parts = dict.fromkeys(text_of(item, scope) for item in arguments)
        return "Any" if "Any" in parts else " | ".join(parts)
    if origin is typing.Literal:
        scope.use("typing", "Literal")
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is np.ndarray or kind is np.ndarray:
        scope.imports.add("import numpy as np")
        return scope.common("np.ndarray[Any, Any]")
    if origin is not None:
        return _generic(origin, arguments, scope)
    if isinstance(kind, type):
        return _plain(kind, scope)
    return scope.common("Any")


def _generic(origin: Any, arguments: tuple[Any, ...], scope: Scope) -> str:
    base = _plain(origin, scope)
    if base == "Any":
        return base
    if origin is Callable or base == "Callable":
        parameters, result = arguments
        inner = "..." if parameters is Ellipsis else f"[{', '.join(text_of(item, scope) for item in parameters)}]"
        return f"Callable[{inner}, {text_of(result, scope)}]"
    return f"{base}[{', '.join(text_of(item, scope) for item in arguments)}]"


def _plain(kind: type, scope: Scope) -> str:
    inner = typing.get_args(next(iter(getattr(kind, "__orig_bases__", ())), None))
    if inner and issubclass(kind, tuple):
        return f"{scope.builtin('tuple')}[{', '.join(text_of(item, scope) for item in inner)}]"
    for base in kind.__mro__:
        if id(base) in scope.classes:
            return scope.use(*scope.classes[id(base)])
        if base is not object and getattr(builtins, base.__name__, None) is base:
            return scope.builtin(base.__name__)
        if base.__module__ == "collections.abc":
            return scope.use("collections.abc", base.__name__)
    if kind is object:
        return scope.builtin("object")
    if kind in (np.generic,):
        scope.imports.add("import numpy as np")
        return f"np.{kind.__name__}"
    if kind is Enum:
        return scope.use("enum", "Enum")
    if getattr(kind, "__module__", "") == "os" and kind.__name__ == "PathLike":
        return scope.use("os", "PathLike")
    return scope.common("Any")


def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the evaluated annotations of a function by parameter; empty where they name what is not there."""
    plain = inspect.unwrap(function)
    try:
        return typing.get_type_hints(plain)
    except (NameError, TypeError):  # names under TYPE_CHECKING
        return {}


def operand_type(operand: Operand, scope: Scope, *, several: bool = False, by_text: bool = False) -> str:
    """Return the type of an instruction's argument.

    `several`: it is a list of such. `by_text`: members of enumerations may be given by their names.
    """
    if operand.is_tensor:
        text = "NkiTensor | Scalar" if operand.scalar else "NkiTensor"
        text = f"Sequence[{text}]" if several else text
    elif operand.enum is not None:
        text = scope.use(*scope.classes[id(operand.enum)])
        if operand.enum in PLAIN_VALUES and not by_text:
            text += "".join(f" | {name}" for name in sorted({type(item.value).__name__ for item in operand.enum}))
        text = f"{text} | str" if by_text else text
    elif operand.choices:
        kinds = dict.fromkeys("None" if item is None else type(item).__name__ for item in operand.choices)
        text = " | ".join(kinds)
    else:
        text = KINDS[operand.kind]
    if (operand.optional or operand.default is None) and text != "Any" and "None" not in text:
        text = f"{text} | None"
    return scope.common(text)


def default_text(value: object, scope: Scope) -> str:
    """Return a default value as a stub may have it: `...` where it has no short spelling."""
    if isinstance(value, Enum) and id(type(value)) in scope.classes:
        return f"{scope.use(*scope.classes[id(type(value))])}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str) or value == ():
        return repr(value)
    return "..."


def spelled(instruction: Instruction, scope: Scope, signature: inspect.Signature, *, by_text: bool) -> Iterable[str]:
    """Yield the parameters of an instruction's function; generic ones are those that no operand is named by."""
    separated = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not separated:
            separated = True
            yield "*"
        operand = instruction.arguments.get(name)
        if operand is None:
            kind = scope.common("str | None" if name == "name" else "Any")
        else:
            kind = scope.given(operand_type(operand, scope, several=name in instruction.groups, by_text=by_text))
        default = parameter.default
        yield f"{name}: {kind}" + ("" if default is parameter.empty else f" = {default_text(default, scope)}")
    for name in sorted(set(instruction.tolerated) - set(signature.parameters)):
        if not separated:
            separated = True
            yield "*"
        yield f"{name}: {scope.common('Any')} = ..."
