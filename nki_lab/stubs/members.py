"""Functions, classes and values as text for a stub."""

from __future__ import annotations

import inspect
import operator
import textwrap
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, NoReturn

from nki_lab.dialects.kernel import Kernel
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.query.entries import TEXTS, entry
from nki_lab.stubs.annotations import Scope, default_text, hints_of, spelled, text_of

_OPERATORS: Final = frozenset(
    name for name in dir(operator) if name.startswith("__") and callable(getattr(operator, name))
)
_CONTAINER: Final = frozenset({"__getitem__", "__setitem__", "__iter__", "__len__", "__array__", "__bool__"})
_BEHAVIOUR: Final = frozenset({"__call__", "__enter__", "__exit__"})
_EVERYWHERE: Final = frozenset({"__contains__", "__index__", "__eq__", "__ne__", "__doc__", "__name__"})
_REFLECTED: Final = frozenset(f"__r{name[2:]}" for name in _OPERATORS)
_SPECIAL: Final = (_OPERATORS | _REFLECTED | _CONTAINER | _BEHAVIOUR) - _EVERYWHERE
"""Special methods that a stub shows; what every object has is left out."""

_COMPARED: Final = frozenset({"__eq__", "__ne__"})


def indented(text: str) -> str:
    """Return a text one level deeper."""
    return textwrap.indent(text, "    ")


def docstring(text: str | None) -> str:
    """Return a docstring literal, or `...` where there is no text."""
    if not text:
        return "..."
    clean = inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" not in clean:
        return f'"""{clean}"""' if not clean.endswith('"') else f'"""{clean[:-1]}\\""""'
    return f'"""{clean}\n"""'


def deprecated(text: str, scope: Scope) -> str:
    """Return the decorator of a name that is deprecated in favour of what `text` says."""
    scope.use("typing_extensions", "deprecated")
    return f"@deprecated({text!r})\n"


def function(name: str, value: Callable[..., Any], scope: Scope, *, before: str = "", by_text: bool = False) -> str:
    """Return a function: of an instruction as its declaration says, of any other as its annotations say."""
    instruction = getattr(value, "nki_instruction", None)
    signature = inspect.signature(value)
    if instruction is None:
        return method(name, value, scope, before=before)
    parameters = [*spelled(instruction, scope, signature, by_text=by_text)]
    if by_text:
        result = "NkiTensor" if instruction.beta1.returns else "None"
        more = [name for name in ("name", "buffer") if name not in signature.parameters]
        parameters += [f"{name}: {scope.common('Any')} = None" for name in more]
        scope.common(result)
    else:
        result = scope.use(scope.shared, "NkiInstruction")
    return _definition(name, parameters, result, value.__doc__, before)


def _definition(name: str, parameters: list[str], result: str, doc: str | None, before: str = "") -> str:
    return f"{before}def {name}({', '.join(parameters)}) -> {result}:\n{indented(docstring(doc))}\n"


def parameters_of(value: Callable[..., Any], scope: Scope, *, skipped: int = 0) -> list[str]:
    """Return the parameters of a function with annotations and defaults, without the first `skipped`."""
    hints, found, kind = hints_of(value), [], None
    plain = inspect.signature(value).parameters
    for name, parameter in [*plain.items()][skipped:]:
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            found.append("*")
        kind = parameter.kind
        stars = "*" * (1 if kind is parameter.VAR_POSITIONAL else 2 if kind is parameter.VAR_KEYWORD else 0)
        text = f"{stars}{name}: {scope.given(text_of(hints.get(name, parameter.empty), scope))}"
        if parameter.default is not parameter.empty:
            given = default_text(parameter.default, scope)
            if given == "None" and not text.endswith(("None", "Any", "object")):
                text += " | None"
            text += f" = {given}"
        found.append(text)
    return found


def method(
    name: str, value: Callable[..., Any], scope: Scope, *, before: str = "", skipped: int = 0, doc: str | None = None
) -> str:
    """Return a function as its annotations say; with `skipped`, a method."""
    result = text_of(hints_of(value).get("return", inspect.Parameter.empty), scope)
    if inspect.isgeneratorfunction(inspect.unwrap(value)) and not skipped:  # which `contextmanager` wraps
        result = scope.use("contextlib", "AbstractContextManager") + "[None]"
    own = ["self"] if skipped else []
    parameters = [*own, *parameters_of(value, scope, skipped=skipped)]
    return _definition(name, parameters, result, doc or value.__doc__, before)


def decorator(name: str, value: Callable[..., Any], kind: type, scope: Scope, notes: Mapping[str, str]) -> str:
    """Return a function that makes a `kind` of kernel, with and without parentheses.

    `notes` are its keywords that are deprecated, with what to do instead.
    """
    made = scope.use(*scope.classes[id(kind)])
    plain = scope.use("collections.abc", "Callable") + f"[..., {scope.common('Any')}]"
    scope.use("typing", "overload")
    (first, *_) = inspect.signature(value).parameters
    doc = value.__doc__
    parts = [_definition(name, [f"{first}: {plain}", "/", "**keywords: Any"], made, doc, "@overload\n")]
    for keyword, instead in notes.items():
        marks = f"@overload\n{deprecated(f'{keyword}=: {instead}', scope)}"
        given = ["*", f"{keyword}: str", "**keywords: Any"]
        parts.append(_definition(name, given, f"Callable[[{plain}], {made}]", doc, marks))
    parts.append(_definition(name, ["**keywords: Any"], f"Callable[[{plain}], {made}]", doc, "@overload\n"))
    return "".join(parts)


def enumeration(kind: type[Enum], title: str, scope: Scope) -> str:
    """Return the class of an enumeration, with its members."""
    base = scope.use("enum", "IntEnum" if issubclass(kind, IntEnum) else "Enum")
    rows = [f"{name} = {member.value!r}" for name, member in kind.__members__.items()]
    return f"class {title}({base}):\n{indented(chr(10).join([docstring(kind.__doc__), *rows]))}\n"


def class_text(
    kind: type,
    name: str,
    scope: Scope,
    *,
    constructor: Callable[..., Any] | None,
    more: Mapping[str, Any],
    internal: bool = False,
    base: str = "",
) -> str:
    """Return a class with its public members.

    `constructor` is a function with the parameters of `__init__`; `more` are methods that instances have beside those
    of the class. Of an `internal` one, which kernels get and cannot name, only the special methods are shown. `base` is
    a class of another stub that it extends.
    """
    own_class = scope.classes[id(kind)]
    others = [item for item in kind.__mro__[1:] if scope.classes.get(id(item), own_class) != own_class]
    if not base and others:
        base = scope.use(*scope.classes[id(others[0])])
    builtin = next((item.__name__ for item in kind.__mro__[1:-1] if item.__module__ == "builtins"), "")
    rows = [docstring(kind.__doc__)]
    if constructor is not None:
        own = parameters_of(constructor, scope, skipped=int(constructor.__name__ == "__init__"))
        rows.append(_definition("__init__", ["self", *own], "None", constructor.__doc__).rstrip())
    elif "__init_subclass__" in vars(kind):  # which gives its subclasses a constructor
        rows.append("def __init__(self, *args: Any, **kwargs: Any) -> None: ...")
    inherited = {key for item in others for key in vars(item)}
    for key, value in _members(kind):
        if (key not in inherited or key in vars(kind)) and (key.startswith("__") or not internal):
            rows += _member(kind, key, value, scope)
    rows += [method(key, value, scope, skipped=1).rstrip() for key, value in more.items()]
    if rows[0] == "...":
        rows = rows[1:] or ["..."]
    return f"class {name}{f'({base or builtin})' if base or builtin else ''}:\n{indented(chr(10).join(rows))}\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("nki_lab"):
            found |= dict.fromkeys(getattr(base, "__annotations__", {}))
            found |= vars(base)
    for key, value in found.items():
        if (not key.startswith("_") and key not in ("id", "owner", "state", "frozen")) or key in _SPECIAL | _COMPARED:
            yield key, value
    if issubclass(kind, Kernel) and "__getattr__" in found:
        yield "__getattr__", found["__getattr__"]


def _member(kind: type, key: str, value: Any, scope: Scope) -> Iterator[str]:
    if isinstance(value, property):
        assert value.fget is not None
        said = value.fget.__doc__ or entry(f"nki.language.{kind.__name__}.{key}")
        yield method(key, value.fget, scope, before="@property\n", skipped=1, doc=said).rstrip()
    elif isinstance(value, staticmethod):
        yield method(key, value.__func__, scope, before="@staticmethod\n").rstrip()
    elif inspect.isfunction(value):
        if hints_of(value).get("return") is NoReturn or (issubclass(kind, Kernel) and not _is_documented(key)):
            return
        if key in _COMPARED:
            yield f"def {key}(self, other: object) -> {scope.common('Any')}: ..."
            return
        text = method(key, value, scope, skipped=1).rstrip()
        if issubclass(kind, NkiTensor) and key in _SPECIAL:
            text = text.replace("-> Any:", "-> NkiTensor:")
        yield text
    elif not issubclass(kind, Kernel) and not isinstance(value, type):
        hint = {name: item for base in kind.__mro__ for name, item in getattr(base, "__annotations__", {}).items()}
        slot = value is None or isinstance(value, MemberDescriptorType | GetSetDescriptorType)
        yield f"{key}: {text_of(type(value), scope) if not slot and key not in hint else scope.common('Any')}"


def _is_documented(key: str) -> bool:
    return f"nki.Kernel.{key}" in TEXTS or key in ("__call__", "__getitem__", "__getattr__")
