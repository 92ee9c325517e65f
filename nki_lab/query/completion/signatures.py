"""The signature of the call at a place of a text, and the parameter that is being typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.issue.target import choice
from nki_lab.query.completion.callees import Callee, callee_of
from nki_lab.query.completion.completing import evaluated_names, placed
from nki_lab.query.completion.cursor import expression
from nki_lab.query.completion.surroundings import lock, surroundings
from nki_lab.query.evaluation_cache import Examination
from nki_lab.query.navigation.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ParameterHelp:
    """A parameter: its stretch of the signature's label, and the Markdown about it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class SignatureHelp:
    """A signature, a line about the function, its parameters, and the number of the active one, None for none."""

    label: str
    doc: str
    parameters: tuple[ParameterHelp, ...]
    active: int | None


def signature_help(
    source: str | Sequence[str],
    line: int,
    column: int,
    file: str = "",
    *,
    target: str | Arch | None = None,
    known: Examination | None = None,
    files: Callable[[], Workspace] | None = None,
) -> SignatureHelp | None:
    """Return the signature of the innermost known call around a 1-based line and character column.

    It is that of a function of NKI's, a method of a tensor, or a function of the text; None where there is no such
    call. Arguments are as for `completions`.
    """
    found = placed(source, line, column)
    if found is None or not found[2].calls:
        return None
    sources, part, cursor, indent = found
    arch = arch_of(target if target is not None else choice.outside())
    with lock:
        around = surroundings(sources, file or "<source>", part, cursor, indent, files)
        if around is None or not around.dialect:
            return None
        evaluated_names(around, line, known)
        for call in cursor.calls:
            node = expression(call.function)
            callee = None if node is None else callee_of(around, node)
            if callee is not None and (callee.is_kernel_code or around.in_kernel_code):
                parameter = callee.parameter(call.before, call.current)
                active = None if parameter is None else callee.parameters.index(parameter)
                return _shown(callee, active, arch)
    return None


def _shown(callee: Callee, active: int | None, arch: Arch) -> SignatureHelp:
    label, shown = f"{callee.name}(", []
    for place, item in enumerate(callee.parameters):
        start = len(label) + (2 if place else 0)
        label += f"{', ' if place else ''}{item.spelling}"
        shown.append(ParameterHelp(start, len(label), callee.text(item, arch)))
    return SignatureHelp(f"{label})", callee.doc, tuple(shown), active)
