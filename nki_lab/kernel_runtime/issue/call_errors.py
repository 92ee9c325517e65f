"""Calls that do not fit the function they call: Python's message becomes a code, the signature and near names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, EnumType
from types import FrameType
from typing import Final, TypeGuard

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.source_location import is_ours
from nki_lab.kernel_runtime.tensor import DynamicSlice, MemoryRegion, NkiTensor
from nki_lab.late_annotations import signature_of

# The words of CPython 3.11 and later for arguments that do not fit; the name before them is a qualified one.
_CALL: Final = re.compile(r"^([\w.<>]+)\(\) (.*)$", re.DOTALL)
_KEYWORD: Final = re.compile(r"got an unexpected keyword argument '(\w+)'")
_MISSING: Final = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: '(\w+)'")
_OTHER: Final = re.compile(r"takes .* positional argument|got multiple values for argument '(\w+)'|takes no arguments")

_REMOVED: Final[Mapping[str, str]] = {
    "mask": "slice the operands instead",
    "num_channels": "pass channel_ids=[0, 1], a number for each channel",
}
"""Keywords that functions had in earlier releases and have no more, with the remedy."""


def of_call(error: Exception, callee: Callable[..., object]) -> Diagnostic | None:
    """Diagnose the arguments of a call of `callee`, a function of ours; None where they are not the cause."""
    inner = None if error.__traceback__ is None else error.__traceback__.tb_next
    if not isinstance(error, TypeError) or (
        inner is not None and (inner.tb_next is not None or not _stands_for_another(callee, inner.tb_frame))
    ):
        return None
    found = _CALL.match(str(error))
    return None if found is None else _finding(callee, _shown_name(callee, found[1]), found[2])


def no_member(kind: type[Enum], name: str) -> Diagnostic:
    """Diagnose a member that an enumeration of nki.isa does not have."""
    members = list(kind.__members__)
    return diagnose(
        "NKI006",
        f"nisa.{kind.__name__} has no {name}",
        operand=name,
        limit=f"members: {', '.join(members)}",
        help=did_you_mean(name, members),
    )


def is_enumeration(kind: object) -> TypeGuard[type[Enum]]:
    """Return whether a value is one of the enumerations of nki.isa."""
    return isinstance(kind, EnumType) and kind.__module__ == enums.__name__


def of_traceback(error: Exception, functions: Mapping[str, object]) -> Diagnostic | None:
    """Diagnose an error that left a kernel of the dialect with these functions, by name.

    The innermost frame of its traceback holds the call, or the one around that of a wrapper of ours.
    """
    if isinstance(error, AttributeError) and is_enumeration(kind := error.obj):
        return no_member(kind, error.name or "")
    found = _CALL.match(str(error)) if isinstance(error, TypeError) else None
    traceback = error.__traceback__
    if found is None or traceback is None:
        return None
    outer = traceback
    while traceback.tb_next is not None:
        outer, traceback = traceback, traceback.tb_next
    callee = _called(found[1], traceback.tb_frame, functions)
    if callee is None:
        callee = _called(found[1], outer.tb_frame, functions)
        callee = callee if callee is not None and _stands_for_another(callee, traceback.tb_frame) else None
    return None if callee is None else _finding(callee, _shown_name(callee, found[1]), found[2])


def _stands_for_another(callee: Callable[..., object], frame: FrameType) -> bool:
    """Return whether a frame is that of the wrapper which `callee` is, and which calls what it stands for."""
    return hasattr(callee, "__wrapped__") and getattr(callee, "__code__", None) is frame.f_code


def _called(name: str, frame: FrameType, functions: Mapping[str, object]) -> Callable[..., object] | None:
    """Return the function of ours that a frame of the user's calls by this qualified name."""
    if is_ours(frame):
        return None
    owner, _, method = name.rpartition(".")
    if owner == "NkiTensor":
        return getattr(NkiTensor, method, None)
    if owner == "DynamicSlice":
        return DynamicSlice
    if owner:
        return None
    own = frame.f_locals.get(name, frame.f_globals.get(name))
    if own is not None and not str(getattr(own, "__module__", "")).startswith(("nki", "neuronxcc")):
        return None  # a function of the user's with the name of one of ours
    callee = functions.get(name)
    return callee if callable(callee) else None


def _shown_name(callee: Callable[..., object], spelled: str) -> str:
    if callee is DynamicSlice:
        return "nl.ds"
    if spelled.startswith("NkiTensor."):
        return spelled.removeprefix("NkiTensor")
    module = (callee.__module__ or "").rpartition(".")[2]
    return f"nki.{module}.{spelled}" if module == "collectives" else f"{'nisa' if module == 'isa' else 'nl'}.{spelled}"


def _finding(callee: Callable[..., object], name: str, words: str) -> Diagnostic | None:
    parameters = _parameters(callee)
    limit = f"{name}({', '.join(map(_shown, parameters.values()))})"
    if keyword := _KEYWORD.match(words):
        given = keyword[1]
        if given in _REMOVED:
            return diagnose(
                "NKI602", f"{name}: argument {given} was removed", operand=given, limit=limit, help=_REMOVED[given]
            )
        return diagnose(
            "NKI002",
            f"{name}: got an unexpected keyword argument {given!r}",
            operand=given,
            limit=limit,
            help=did_you_mean(given, parameters) or _names(parameters),
        )
    if missing := _MISSING.match(words):
        return diagnose(
            "NKI003",
            f"{name}: argument {missing[1]} is missing",
            operand=missing[1],
            limit=limit,
            help=f"pass {missing[1]}=",
        )
    if _OTHER.match(words):
        return diagnose("NKI002", f"{name}: {words}", limit=limit, help=_names(parameters))
    return None


def _shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return str(parameter)
    shown = f"nl.{default.value}" if isinstance(default, MemoryRegion) else repr(default)
    return f"{parameter.name}={shown}"


def _names(parameters: Iterable[str]) -> str:
    names = list(parameters)
    return f"the arguments are {', '.join(names)}" if names else "it takes no arguments"


def _parameters(callee: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters by name, without annotations."""
    try:
        found = signature_of(callee).parameters
    except (TypeError, ValueError):
        return {}
    bare = inspect.Parameter.empty
    return {name: item.replace(annotation=bare) for name, item in found.items() if name != "self" and name[:1] != "_"}
