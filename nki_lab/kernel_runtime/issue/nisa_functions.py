"""The functions of `nki.isa`, made from the declarations: same names, same arguments, same order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.diagnostic import Diagnostic, coded_error, diagnose, error_of
from nki_lab.isa.spec import REQUIRED, TABLE, Instruction
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.context import current as current_builder
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.kernel_runtime.issue.legality import fixed_names, live_names, missing

# Keywords of earlier releases, with the release that dropped them and the remedy.
_REMOVED: Mapping[str, str] = {
    "mask": "slice the operands instead",
    "dtype": "allocate dst with the wanted dtype",
    "dst_rmw_op": "use nisa.dma_compute",
    "unique_indices": "use nisa.dma_compute",
    "use_gpsimd_dma": "use dma_engine=nisa.dma_engine.gpsimd_dma",
    "imm": "pass the value as src",
    "psumAccumulateFlag": "use accumulate=",
    "is_moving_zero": "use is_moving_onezero=",
    "num_channels": "drop it",
}


def make_instruction_function(instruction: Instruction) -> Callable[..., Any]:
    """Return the function that records `instruction` when a kernel calls it."""
    params = ", ".join(f"{name}=_D{i}" for i, name in enumerate(instruction.arguments))
    places = {
        name: f"{group}[{place}]" for group, names in instruction.groups.items() for place, name in enumerate(names)
    }
    live = "".join(f"{places.get(name, name)}, " for name in live_names(instruction))
    spread = "".join(f"    {group} = _members(_I, {group!r}, {group})\n" for group in instruction.groups)
    fixed = "".join(f"{name}, " for name in fixed_names(instruction))
    source = (
        f"def {instruction.name}({params}, name=None, *_more, **_extra):\n"
        f"    if _more or _extra:\n"
        f"        _surplus(_I, _more, _extra)\n"
        f"    builder = _local.builder\n"
        f"    if builder is None:\n"
        f"        _current('nisa.{instruction.name}')\n"
        f"{spread}"
        f"    return builder.issue(_I, ({live}), ({fixed}), name)\n"
    )
    scope: dict[str, Any] = {
        "_I": instruction,
        "_local": local,
        "_current": current_builder,
        "_surplus": refuse_surplus,
        "_members": members,
        "__name__": __name__,
    } | {f"_D{i}": operand.default for i, operand in enumerate(instruction.arguments.values())}
    exec(compile(source, f"<nki.isa.{instruction.name}>", "exec"), scope)
    function: Callable[..., Any] = scope[instruction.name]
    function.__dict__.update(__signature__=signature_of(instruction), nki_instruction=instruction)
    function.__doc__, function.__module__ = describe(instruction), "nki.isa"
    return function


def signature_of(instruction: Instruction) -> inspect.Signature:
    """Return the documented signature, for help() and editors."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(name, kind, default=empty if operand.default is REQUIRED else operand.default)
        for name, operand in instruction.arguments.items()
    ]
    required = [p for p in parameters if p.default is empty]
    if parameters[: len(required)] != required:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [p if p.default is empty else p.replace(kind=kind) for p in parameters]
        parameters.sort(key=lambda p: p.kind)
    return inspect.Signature([*parameters, inspect.Parameter("name", kind, default=None)])


def describe(instruction: Instruction) -> str:
    """Return the documentation of an instruction, as hover, help() and the manual show it."""
    lines = [instruction.doc, "", "Arguments:"]
    for name, operand in instruction.arguments.items():
        place = f" [{', '.join(operand.dims)}] in {' or '.join(operand.spaces)}" if operand.is_tensor else ""
        kinds = f", {'|'.join(dtype.name for dtype in operand.dtypes)}" if operand.dtypes else ""
        kinds += f", a list of up to {len(instruction.groups[name])}" if name in instruction.groups else ""
        lines.append(f"    {name}{place}{kinds}: {operand.doc}")
    rules = [(item.code, item.text) for item in instruction.limits]
    rules += [(item.code, item.text) for item in instruction.predicates]
    if rules:
        lines += ["", "Limits:", *(f"    {code}  {text}" for code, text in rules)]
    engines = " or ".join(instruction.engines)
    since = f", NeuronCore-v{instruction.since} and later" if instruction.since > 2 else ""
    lines += ["", f"Engine: {engines}{since}.", f"See: {instruction.see}."]
    return "\n".join(lines)


def members(instruction: Instruction, group: str, value: object) -> tuple[object, ...]:
    """Return the tensors of a list argument, followed by None up to its length."""
    names = instruction.groups[group]
    if value is REQUIRED:
        raise missing(instruction, names[0])
    if not isinstance(value, (list, tuple)):
        problem = f"{group} is a {type(value).__name__}"
    elif not 1 <= len(value) <= len(names):
        problem = f"{group} has {len(value)} entries"
    else:
        return (*value, *(None,) * (len(names) - len(value)))
    raise coded_error(
        "NKI012",
        f"{instruction.name}: {problem}",
        operand=group,
        limit=f"{group} is a list of 1 to {len(names)} tensors",
        help=f"write {group}=[first, second]",
    )


def refuse_surplus(instruction: Instruction, more: tuple[object, ...], extra: dict[str, object]) -> None:
    """Refuse arguments that the instruction does not have, or note those that are known to be harmless."""
    for found in surplus(instruction, len(more), extra):
        if found.outcome == "fault":
            raise error_of(found)
        if local.builder is not None:
            local.builder.note(found, local.builder.site())


def surplus(instruction: Instruction, more: int, extra: Iterable[str]) -> Iterator[Diagnostic]:
    """Diagnose `more` positional arguments than the instruction has, and the keywords that it does not have."""

    def found(code: str, message: str, operand: str, remedy: str) -> Diagnostic:
        text = f"{instruction.name}: {message}"
        return diagnose(code, text, operand=operand, limit=instruction.signature(), help=remedy)

    if more:
        yield found("NKI002", f"takes {len(instruction.arguments) + 1} arguments, {more} more were given", "", "")
    for keyword in extra:
        if keyword in instruction.tolerated:
            message = f"argument {keyword} is not part of the current signature"
            yield found("NKI604", message, keyword, f"drop it: {instruction.tolerated[keyword]}")
        elif keyword in _REMOVED:
            yield found("NKI602", f"argument {keyword} was removed", keyword, _REMOVED[keyword])
        else:
            near = did_you_mean(keyword, [*instruction.arguments, "name"])
            yield found("NKI002", f"got an unexpected keyword argument {keyword!r}", keyword, near)


_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def instruction_function(name: str) -> Callable[..., Any]:
    """The nisa function of a declared instruction; KeyError for another name."""
    instruction = TABLE[name]
    known = _FUNCTIONS.get(name)
    if known is None or known.nki_instruction is not instruction:  # type: ignore[attr-defined]
        known = _FUNCTIONS[name] = make_instruction_function(instruction)
    return known
