"""Types and modifiers of tokens, and those that names of NKI have."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Final

from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.interpreter.namespaces import MODULES
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.kernel_runtime.vocabulary import KINDS, MEMORIES, MEMORY_OF
from nki_lab.query.names import DOCUMENTED, instruction_of
from nki_lab.source import SyntaxFacts

TYPES: Final = ("namespace", "type", "function", "parameter", "variable", "enumMember")
"""Types of tokens, all of the protocol's own, so that every theme has colours for them."""

ENGINE_MODIFIERS: Final = {kind: f"{kind}Engine" if kind != "dma" else "dma" for kind in KINDS if kind != "cc"}
"""Modifiers of calls by the kind of lane that they occupy."""

MODIFIERS: Final = (
    "declaration", "defaultLibrary", *MEMORIES, "compileTime", "register", *ENGINE_MODIFIERS.values(), "kernel",
    "helper",
)  # fmt: skip
"""Modifiers of tokens: those of the protocol, then those that this package adds."""

_BIT: Final = {name: 1 << number for number, name in enumerate(MODIFIERS)}


@dataclass(frozen=True, slots=True)
class Token:
    """A name: its 1-based line, its 0-based character, its length, its type and modifiers."""

    line: int
    character: int
    length: int
    type: str
    modifiers: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        """Return the modifiers as bits, in the order of `MODIFIERS`."""
        return sum(_BIT[name] for name in set(self.modifiers))


def token_of(facts: SyntaxFacts, line: int, column: int, name: str, kind: str, *modifiers: str) -> Token:
    """Return the token of a name; of length 0 where the text has another there, as in lines that were mended."""
    start = facts.character(line, column)
    stands = facts.line(line)[start : start + len(name)] == name
    return Token(line, start, len(name) if stands else 0, kind, modifiers)


@cache
def sort_of(name: str) -> tuple[str, ...]:
    """Return the type and the modifiers of a name of NKI's, spelt in the current way; an empty type for none."""
    home, _, last = name.rpartition(".")
    if instruction_of(name) is not None:
        return ("function",)
    if name in MODULES:
        return ("namespace",)
    if home == "nki.language" and last in DTYPES:
        return ("type",)
    names = namespaces.language_names() if home == "nki.language" else namespaces.instruction_names()
    value = names.get(last) if home in DOCUMENTED else None
    if isinstance(value, MemoryRegion):
        return "variable", MEMORY_OF[value.name], "compileTime"
    if home.startswith(("nki.isa.", "nki.language.")):
        return "enumMember", "compileTime"
    if inspect.isclass(value):
        return ("type",)
    if value is not None and not inspect.isfunction(value):
        return "variable", "compileTime"
    return ("type" if home == "nki.typing" else "function" if home in MODULES else "",)
