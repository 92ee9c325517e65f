"""Names that can stand at the cursor: those of NKI's modules, of enumerations, of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np

from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU, AluOp
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DTYPES, NamedDType
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.interpreter.namespaces import BETA1, MODULES, Imports
from nki_lab.kernel_runtime.interpreter.values import Namespace
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.issue.legality import targets_from
from nki_lab.kernel_runtime.issue.target import tile_size, tile_size_of
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.query.completion.callees import Callee, Parameter, callee_of_value, of_function, tensor_methods
from nki_lab.query.entries import entry
from nki_lab.query.names import BETA1_ROOT, ENGINES, documentation
from nki_lab.rules.deprecations import RANGES, SIZES
from nki_lab.rules.known_values import PACKAGES, Value

Kind = Literal[
    "module", "class", "function", "method", "attribute", "variable", "parameter", "constant", "enum", "member",
    "dtype", "operator", "keyword",
]  # fmt: skip

EXPECTED, USUAL, OPTIONAL, DOUBTFUL, ABSENT, REMOVED = range(6)
"""Ranks: what the parameter at the cursor takes, others, optional keywords, what hardly fits, what the target does not
have, what NKI no longer has."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A name that can stand at the cursor.

    `signature` follows the label, `note` stands at its right, `summary` is a line about it. `dotted` is the full name
    whose documentation is the whole text about it, empty where there is none. `callee` has the parameters of a
    function. `order` puts it before and behind others of its rank, else its label does.
    """

    label: str
    kind: Kind
    rank: int = USUAL
    order: int = 0
    signature: str = ""
    note: str = ""
    summary: str = ""
    dotted: str = ""
    deprecated: bool = False
    callee: Callee | None = None
    operator: str = ""  # its name as the value of an op= argument
    value: Value = None

    @property
    def sort_text(self) -> str:
        """Return a text whose order among others is that of the completions."""
        return f"{self.rank}{self.order:03}{self.label}"

    def filter_text(self, word: str) -> str:
        """Return what an editor compares with the word typed so far: the last part, where that is begun."""
        return self.label if self.label.startswith(word) else self.label.rpartition(".")[2]


# -- modules -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def members_of(module: str, arch: Arch) -> tuple[Completion, ...]:
    """Return the names of a module of NKI's, with those it had in earlier releases."""
    names = _names(module)
    found = [_named(module, name, value, arch) for name, value in names.items() if not name.startswith("_")]
    inside = sorted(item.removeprefix(f"{module}.") for item in _nki_modules() if item.startswith(f"{module}."))
    found += [
        _module(f"{module}.{name}") for name in inside if "." not in name and name not in names and name[0] != "_"
    ]
    for name, remedy in nki_api_names.REMOVED.get(module, {}).items():
        if name not in names and name not in inside:
            text = f"removed: {remedy}"
            found.append(Completion(name, "function", REMOVED, note="removed", summary=text, deprecated=True,
                                    dotted=f"{module}.{name}"))  # fmt: skip
    return tuple(found)


def module_paths(parent: str, *, with_inner: bool) -> Iterator[Completion]:
    """Yield the modules of NKI's inside a package; without one, the packages, and `with_inner` their modules too."""
    for path in sorted(_nki_modules() | ({"nki", "neuronxcc"} if not parent else set())):
        name = path.removeprefix(f"{parent}.") if parent else path
        is_inside = path.startswith(f"{parent}.") if parent else True
        plain = "." not in name or (with_inner and not parent and path.startswith("nki.") and name.count(".") == 1)
        if is_inside and plain and not name.startswith("_"):
            yield replace(_module(path), label=name)


@cache
def _nki_modules() -> frozenset[str]:
    return frozenset(path for path in MODULES if path.partition(".")[0] in PACKAGES)


@cache
def _imports() -> Imports:
    return Imports({})


def _names(module: str) -> Mapping[str, Value]:
    found = _imports().module(module)
    return found.names if isinstance(found, Namespace) else {}


def _module(path: str) -> Completion:
    dialect = "Beta 1" if path.startswith(BETA1_ROOT) else ""
    return Completion(path.rpartition(".")[2], "module", note=dialect, summary=f"the module {path}")


def _named(module: str, name: str, value: Value, arch: Arch) -> Completion:
    """Return a name of a module, with what a target says about it."""
    dotted = f"{module}.{name}"
    made = Completion(name, _kind(value), dotted=dotted, value=value, summary=_line(dotted, value, arch))
    callee = callee_of_value(name, value, _Functions)
    if callee is not None:
        signature = f"({', '.join(item.spelling for item in callee.parameters)})"
        made = replace(made, kind="function", callee=callee, signature=signature, summary=callee.doc or made.summary)
    operator = getattr(value, "nki_op", "")
    made = replace(made, operator=operator, note=_note(value))
    lacks = absence(name, value, arch)
    if lacks:
        return replace(made, rank=ABSENT, note=lacks, summary=f"{lacks}. {made.summary}".rstrip())
    instead = _deprecation(module, name, value)
    if instead:
        return replace(made, rank=DOUBTFUL, note="deprecated", deprecated=True, summary=f"deprecated: {instead}")
    return made


class _Functions:
    """The functions of the modules, as the values of one text know them."""

    @staticmethod
    def is_function(value: Value) -> bool:
        return callable(value)


def _kind(value: Value) -> Kind:
    if isinstance(value, Namespace):
        return "module"
    if isinstance(value, type):
        return "enum" if issubclass(value, Enum) else "class"
    if isinstance(value, np.dtype | NamedDType):
        return "dtype"
    if isinstance(value, Enum):
        return "constant"
    if hasattr(value, "nki_op"):
        return "operator"
    return "function" if callable(value) else "constant"


def _note(value: Value) -> str:
    instruction = getattr(value, "nki_instruction", None)
    if isinstance(instruction, Instruction):
        return " or ".join(ENGINES[name] for name in instruction.engines)
    return ""


def _line(dotted: str, value: Value, arch: Arch) -> str:
    """Return the first line about a name that is no function."""
    if inspect.isroutine(value):
        return (inspect.getdoc(value) or "").partition("\n")[0]
    if isinstance(value, type):
        return "" if value.__module__ == "builtins" else (inspect.getdoc(value) or "").partition("\n")[0]
    text = documentation(dotted, arch) or ""
    return text.partition("\n\n")[2].partition("\n")[0] or (text if text.count("\n") == 0 else "")


def absence(name: str, value: Value, arch: Arch) -> str:
    """Return that a target does not have an instruction, operator or dtype; empty where it has it."""
    since, until = 2, None
    instruction = getattr(value, "nki_instruction", None)
    operator = getattr(value, "nki_op", "")
    if isinstance(instruction, Instruction):
        since, until = instruction.since, instruction.until
    elif operator:
        known = [table[operator].since for table in (ALU, ACTIVATIONS) if operator in table]
        since = min(known, default=2)
    elif isinstance(value, np.dtype | NamedDType) and name in DTYPES:
        since = DTYPES[name].since
    if since <= arch.generation <= (until or arch.generation):
        return ""
    return f"not on {arch.target}, but {', '.join(targets_from(since, until))}"


def _deprecation(module: str, name: str, value: Value) -> str:
    """Return what to write for a name that a release deprecates; empty for others."""
    if module.startswith(BETA1):
        return ""
    if module == "nki.language" and name in RANGES:
        return "write range"
    if module == "nki.isa" and isinstance(value, Enum):
        return f"write nisa.{type(value).__name__}.{value.name}"
    return ""


def full_text(dotted: str, arch: Arch) -> str | None:
    """Return the Markdown about a completion's full name; None where there is none."""
    module, _, name = dotted.rpartition(".")
    remedy = nki_api_names.REMOVED.get(module, {}).get(name)
    if remedy is not None:
        return f"`{dotted}` was removed (NKI603).\n\nInstead: {remedy}."
    return documentation(dotted, arch)


# -- members of values -----------------------------------------------------------------------------------------------


def members_of_enumeration(kind: type[Enum]) -> Iterator[Completion]:
    """Yield the members of an enumeration, in their order."""
    doc = (inspect.getdoc(kind) or "").partition("\n")[0]
    for place, item in enumerate(kind):
        dotted = f"nki.isa.{kind.__name__}.{item.name}"
        yield Completion(item.name, "member", order=place, note=kind.__name__, summary=doc, dotted=dotted, value=item)


def members_of_tile_size(arch: Arch) -> Iterator[Completion]:
    """Yield the sizes of a target."""
    for place, name in enumerate(dir(tile_size)):
        instead = SIZES.get(name, "")
        summary = f"deprecated: write nl.tile_size.{instead}" if instead else ""
        yield Completion(
            name,
            "constant",
            DOUBTFUL if instead else USUAL,
            order=place,
            note=f"{tile_size_of(name, arch)} on {arch.target}",
            summary=summary,
            dotted=f"nki.language.tile_size.{name}",
            deprecated=bool(instead),
        )


@lru_cache(maxsize=4)
def members_of_tensors(dialect: str) -> tuple[Completion, ...]:
    """Return the attributes and methods that tensors of a dialect have, the data first."""
    own = [(name, inspect.getattr_static(NkiTensor, name)) for name in dir(NkiTensor) if not name.startswith("_")]
    more = list(tensor_methods(dialect).items())
    return tuple(_tensor_member(name, value) for name, value in (*own, *more))


def _tensor_member(name: str, value: Any) -> Completion:
    dotted = f"nki.language.NkiTensor.{name}"
    if not inspect.isfunction(value):
        text = entry(dotted) or ""
        return Completion(name, "attribute", summary=text.partition("\n\n")[2].partition("\n")[0], dotted=dotted)
    callee = of_function(name, value, skipped=1)
    signature = "" if callee is None else f"({', '.join(item.spelling for item in callee.parameters)})"
    doc = "" if callee is None else callee.doc
    return Completion(name, "method", order=1, signature=signature, summary=doc, dotted=dotted, callee=callee)


# -- what a parameter takes --------------------------------------------------------------------------------------------


def taken(items: Iterable[Completion], parameter: Parameter) -> Iterator[Completion]:
    """Yield the names of a module that a parameter takes: operators, dtypes, memories."""
    operators, kind = parameter.operators, parameter.kind
    for item in items:
        summary, operator = item.summary, operators.get(item.operator)
        fits = {"operator": operator is not None, "dtype": item.kind == "dtype",
                "buffer": isinstance(item.value, MemoryRegion)}  # fmt: skip
        if item.rank == REMOVED or not fits.get(kind):
            continue
        if operator is not None:
            summary = operator.doc if isinstance(operator, AluOp) else operator.formula
        if item.rank == ABSENT:
            yield replace(item, callee=None, signature="")
        else:
            note = "memory" if kind == "buffer" else kind
            yield replace(item, rank=EXPECTED, note=note, summary=summary, callee=None, signature="")
