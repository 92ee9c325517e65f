"""The text that accepting a completion writes: a name, or a call with all required arguments as a snippet."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.query.completion.candidates import Completion


@dataclass(frozen=True, slots=True)
class Insertion:
    """A text; of a `snippet`, `$1` are the places to go on at."""

    text: str
    snippet: bool = False


def inserted(item: Completion, *, calls: bool, snippets: bool) -> Insertion:
    """Return the text that accepting a completion writes.

    Where the place `calls` functions and the editor takes `snippets`, that is a call with the required arguments by
    name; else it is the name.
    """
    if not (calls and snippets and item.callee is not None and item.kind in ("function", "method", "class")):
        return Insertion(item.label)
    required = [parameter for parameter in item.callee.parameters if parameter.required]
    parts = [
        f"{parameter.name}=${place}" if parameter.by_name else f"${place}"
        for place, parameter in enumerate(required, start=1)
    ]
    return Insertion(f"{item.label}({', '.join(parts) or '$1'})$0", snippet=True)
