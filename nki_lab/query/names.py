"""Texts about the names of NKI: instructions, functions, dtypes. Hovers show them, and pages begin with them."""

from __future__ import annotations

import inspect
import textwrap
from enum import Enum
from functools import cache
from typing import Final

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.isa.spec import TABLE, Instruction, Limit, Operand, show_value
from nki_lab.kernel_runtime import vocabulary
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.issue.target import current_arch, tile_size_of
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.vocabulary import KINDS
from nki_lab.query.entries import bare_signature, entry
from nki_lab.query.issued import limit_names

DOCUMENTED: Final = {"nki.language": "nl", "nki.isa": "nisa"}
"""The modules whose names have texts, with the names that kernels import them by."""

BETA1_ROOT: Final = "neuronxcc."

ENGINES: Final = {name: f"{KINDS[name]} Engine" for name in vocabulary.ENGINES} | {"dma": KINDS["dma"]}
"""The engines' names in prose, by those in declarations."""


def documentation(dotted: str, arch: Arch | None = None, here: str = "") -> str | None:
    """Return the Markdown of a name of `nki.language` or `nki.isa`, spelt in full; None for other names.

    Limits are shown with the numbers of `arch`. `here` is what is known of the place that mentions the name.
    """
    instruction = instruction_of(dotted)
    if instruction is not None:
        return _instruction(instruction, arch, here)
    plain = dotted.removeprefix(BETA1_ROOT)
    module, _, name = plain.rpartition(".")
    is_removed = name in nki_api_names.REMOVED.get(module, {}) or module.startswith("nki.compiler.")
    own = None if dotted == plain and is_removed else entry(plain)
    if own is not None:
        return own
    if module == "nki.collectives":
        return _function(f"nki.collectives.{name}", collective_names().get(name), here)
    if module == "nki.language.tile_size":
        return _tile_size(name, arch or current_arch())
    if module not in DOCUMENTED and not module.startswith("nki.isa."):
        return None
    if module == "nki.language" and name in DTYPES:
        return _dtype(DTYPES[name])
    if module.startswith("nki.isa."):
        kind = namespaces.instruction_names().get(module.rpartition(".")[2])
        member = getattr(kind, "__members__", {}).get(name)
        return None if member is None else f"`nisa.{type(member).__name__}.{name}`\n\n{inspect.getdoc(type(member))}"
    names = namespaces.language_names() if module == "nki.language" else namespaces.instruction_names()
    value = names.get(name)
    return _function(f"{DOCUMENTED[module]}.{name}", value, here)


def _function(name: str, value: object, here: str) -> str | None:
    """Return a function with its signature and its text."""
    text = inspect.getdoc(value) if value is not None and (callable(value) or hasattr(value, "nki_op")) else None
    if not text:
        return None
    signature = bare_signature(value, spelled) if inspect.isfunction(value) else ""
    parts = [f"```python\n{name}{signature}\n```", here, text]
    return "\n\n".join(part for part in parts if part)


def instruction_of(dotted: str) -> Instruction | None:
    """Return the instruction that a name spelt in full means."""
    module, _, name = dotted.removeprefix(BETA1_ROOT).rpartition(".")
    return TABLE.get(name) if module == "nki.isa" else None


def _tile_size(name: str, arch: Arch) -> str | None:
    size = tile_size_of(name, arch)
    fact = arch.facts.get(name)
    source = f"\n\n*{fact.confidence}: {fact.source}*" if fact is not None else ""
    return None if size is None else f"`nl.tile_size.{name}` = {size} on {arch.target} ({arch.name}){source}"


_language_names: Final = cache(namespaces.language_names)


class _Text(str):
    """A value as it is written in NKI."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def spelled(default: object) -> object:
    """Return a default value so that it prints as NKI spells it."""
    known = _language_names()
    if isinstance(default, Enum) and known.get(default.name) is not default:
        return _Text(show_value(default))
    name = getattr(default, "name", None) or getattr(default, "__name__", None)
    return _Text(f"nl.{name}") if isinstance(name, str) and name in known else default


def _dtype(kind: DType) -> str:
    bits = f", {kind.exponent_bits} exponent and {kind.mantissa_bits} fraction bits" if kind.exponent_bits else ""
    since = f", NeuronCore-v{kind.since} and later" if kind.since > 2 else ""
    span = f"{kind.lowest:g} to {kind.max_finite:g}"
    return f"`nl.{kind.name}`\n\n{kind.nbytes} bytes an element, {kind.kind}{bits}; values {span}{since}."


# -- instructions --------------------------------------------------------------------------------------------------


def _instruction(instruction: Instruction, arch: Arch | None, here: str) -> str:
    """Return signature, this call, effect, operands, limits with the target's numbers, and engine."""
    indent = " " * len(f"nisa.{instruction.name}(")
    call = textwrap.fill(f"nisa.{instruction.signature()}", 96, subsequent_indent=indent)  # broken between arguments
    parts = [f"```python\n{call}\n```", here, instruction.doc]
    parts.append("**Arguments**\n\n" + "\n".join(f"- {_operand(item)}" for item in instruction.operands.values()))
    rules = [(item.code, limit_text(item, arch)) for item in instruction.limits]
    rules += [(item.code, item.text) for item in instruction.predicates]
    if rules:
        on = f" on {arch.target} ({arch.name})" if arch is not None else ""
        parts.append(f"**Limits**{on}\n\n" + "\n".join(f"- {text} ({code})" for code, text in rules))
    parts.append(_engine(instruction, arch))
    return "\n\n".join(part for part in parts if part)


def _operand(operand: Operand) -> str:
    dtypes = f", {' '.join(kind.name for kind in operand.dtypes)}" if operand.dtypes else ""
    return f"**{operand.name}**{place_of(operand)}{dtypes}: {operand.doc}"


def operand_text(instruction: Instruction, operand: Operand, arch: Arch, here: str = "") -> str:
    """Return the Markdown about an argument of an instruction, with the limits that are about it.

    `here` is what is known of the place that mentions it.
    """
    lines = [f"**{operand.name}**{place_of(operand)}", *([here] if here else []), operand.doc]
    if operand.dtypes:
        lines.append(f"dtypes: {', '.join(item.name for item in operand.dtypes)}")
    if operand.choices:
        lines.append(f"one of {', '.join(show_value(item) for item in operand.choices)}")
    elif operand.enum is not None:
        lines.append(f"one of {', '.join(f'nisa.{operand.enum.__name__}.{item.name}' for item in operand.enum)}")
    rules = [limit_text(item, arch) for item in instruction.limits if item.operand == operand.name]
    rules += [item.text for item in instruction.predicates if item.operand == operand.name]
    if rules:
        lines.append(f"limits on {arch.target}:\n" + "\n".join(f"- {rule}" for rule in rules))
    return "\n\n".join(lines)


def place_of(operand: Operand) -> str:
    """Return dimensions and memories of a tensor operand."""
    return f" [{', '.join(operand.dims)}] in {' or '.join(operand.spaces)}" if operand.is_tensor else ""


def limit_text(item: Limit, arch: Arch | None) -> str:
    """Return a limit with its number on a target, where the target alone decides it: `K <= pmax = 128`."""
    if arch is None or item.right_text.isdecimal():
        return item.text
    names = limit_names(arch)
    if not set(item.right.co_names) <= set(names):
        return item.text
    return f"{item.left_text} {item.compare} {item.right_text} = {eval(item.right, {'__builtins__': {}}, names)}"


def _engine(instruction: Instruction, arch: Arch | None) -> str:
    engines = " or ".join(ENGINES[name] for name in instruction.engines)
    since = f", NeuronCore-v{instruction.since} and later" if instruction.since > 2 else ""
    lacks = ""
    if arch is not None and not instruction.since <= arch.generation <= (instruction.until or arch.generation):
        lacks = f" **{arch.name} ({arch.target}) does not have it.**"
    return f"Runs on: {engines}{since}.{lacks} See: {instruction.see}."
