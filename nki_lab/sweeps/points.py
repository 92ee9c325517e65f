"""The points of a sweep: each combination of its parameters, and where each parameter goes."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.dialects.environment import default_options
from nki_lab.dialects.kernel import Kernel
from nki_lab.isa.dtype import dtype_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.kernel_runtime.options import Options, option_names, with_changes
from nki_lab.late_annotations import signature_of
from nki_lab.own_faults import version
from nki_lab.query.configuration import shortened, tensor_or_dtype, whole_number
from nki_lab.session.arguments import bound
from nki_lab.session.arrays import map_leaves
from nki_lab.sweeps import reach
from nki_lab.sweeps.columns import COLUMNS
from nki_lab.sweeps.fingerprint import fingerprint
from nki_lab.sweeps.work import Task
from nki_lab.testing import plain_array

LAUNCH: Final = ("target", "grid")
"""Parameters of the launch, not of the kernel."""
MOST_POINTS: Final = 100_000
_TENSOR: Final = re.compile(r"(?:(?:hbm|sbuf|psum)\s+)?\w+\[[^\]]*\]")

Arguments = Sequence[object] | Mapping[str, object] | Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of the parameters, in the order of the sweep. Its key stays as long as its result."""

    number: int
    parameters: Mapping[str, Any]
    task: Task
    key: str

    @property
    def shapes(self) -> str:
        """The arguments as text."""
        named = [f"{name}={value!r}" for name, value in self.task.keywords.items() if isinstance(value, TensorSpec)]
        return ", ".join([*(shown(value) for value in self.task.args), *named])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Describes a sweep: the kernel, the values of each parameter, and what is the same in all points."""

    kernel: Kernel
    values: Mapping[str, tuple[Any, ...]]
    args: Arguments
    reference: Callable[..., object] | None
    options: Options | None
    trip_counts: Mapping[Any, int]
    where: Callable[..., object] | None

    def points(self) -> list[Point]:
        """Return the points in the order of the parameters, the last one changing first; NKI012 for unknown ones."""
        _require_known(self)
        own = _kernel_digest(self)
        found: list[Point] = []
        for chosen in itertools.product(*self.values.values()):
            parameters = dict(zip(self.values, chosen, strict=True))
            if self.where is None or self.where(**_accepted(self.where, parameters)):
                found.append(self._point(len(found), parameters, own))
        return found

    def _point(self, number: int, parameters: dict[str, Any], own: str) -> Point:
        kernel = self.kernel
        names = set(_signature(kernel))
        changes = {name: value for name, value in parameters.items() if name in option_names() and name not in names}
        options = default_options(kernel.dialect) if self.options is None else self.options
        try:
            options = with_changes(options, changes)
        except (TypeError, ValueError) as error:
            raise coded_error("NKI012", str(error), limit=f"options: {', '.join(option_names())}") from None
        args, keywords = _arguments(self.args, parameters)
        if self.reference is None:  # only shapes count: nothing else is sent
            args, keywords = map_leaves((args, keywords), spec_of)
        outer = _outer_names(kernel)
        task = Task(
            names={name: value for name, value in parameters.items() if name in outer and name not in names},
            args=tuple(args),
            keywords={**keywords, **{name: value for name, value in parameters.items() if name in names}},
            target=kernel.target(parameters.get("target")).target,
            grid=parameters.get("grid"),
            options=options,
            trip_counts=dict(self.trip_counts),
            reference={} if self.reference is None else _accepted(self.reference, parameters, always=False),
            computes=self.reference is not None,
        )
        key = fingerprint((version(), own, *(getattr(task, item.name) for item in fields(task))))
        return Point(number=number, parameters=parameters, task=task, key=key)


def _kernel_digest(plan: Plan) -> str:
    swept = [name for name in plan.values if name in _outer_names(plan.kernel)]
    return fingerprint((plan.kernel, plan.reference), without=swept)


# -- parameters --------------------------------------------------------------------------------------------------------


def values_of(parameters: Mapping[Any, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each parameter; a single one stands for a list of one. NKI012 for none, or one twice."""
    if not hasattr(parameters, "items"):
        raise _refused(
            "parameters", "sweep: parameters is no mapping", "a list of values by name", '{"TILE": [256, 512]}'
        )
    found: dict[str, tuple[Any, ...]] = {}
    for name, given in parameters.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise _refused(
                "parameters", f"{name!r} is no name of a parameter", "names of Python", '{"TILE": [256, 512]}'
            )
        values = _listed(given)
        if not values:
            raise _refused(
                name, f"{name} has no values", "at least one value for each parameter", f'{{"{name}": [1, 2]}}'
            )
        texts = [fingerprint(value) for value in values]
        if len(set(texts)) < len(texts):
            twice = next(value for value, text in zip(values, texts, strict=True) if texts.count(text) > 1)
            raise _refused(name, f"{name} has the value {shown(twice)} twice", "each value once", "")
        found[name] = values
    count = math.prod(len(values) for values in found.values())
    if count > MOST_POINTS:
        raise _refused("parameters", f"the sweep has {count:,} points", f"at most {MOST_POINTS:,} points", "")
    return found


def _listed(given: Any) -> tuple[Any, ...]:
    """Return the values that a list, a range or a vector has; another value alone."""
    many = isinstance(given, list | tuple | range) or (isinstance(given, np.ndarray) and given.ndim == 1)
    return tuple(value.item() if isinstance(value, np.generic) else value for value in (given if many else [given]))


def _refused(operand: str, message: str, limit: str, example: str) -> NkiError:
    return coded_error("NKI012", message, operand=operand, limit=limit, help=example and f"for example {example}")


def _signature(kernel: Kernel) -> tuple[str, ...]:
    try:
        return tuple(signature_of(kernel.function).parameters)
    except (TypeError, ValueError):
        return ()


def _outer_names(kernel: Kernel) -> set[str]:
    """Return the outer variables and the globals of its module that a kernel or a helper beside it reads."""
    function = reach.function_of(kernel)
    if function is None or reach.by_name(function):
        return set()
    found = set(reach.cells_of(function))
    pending, seen = [function], {function}
    while pending:
        read = reach.globals_read(pending.pop())
        for name, value in read.items():
            inner = reach.function_of(value) if callable(value) else None
            if inner is not None and inner.__globals__ is function.__globals__:
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
            else:
                found.add(name)
    return found


def _require_known(plan: Plan) -> None:
    """Refuse parameters that go nowhere, and those that would mean two things."""
    kernel, own = plan.kernel, _signature(plan.kernel)
    takes_all = any(
        item.kind is item.VAR_KEYWORD for item in signature_of(kernel.function).parameters.values()
    ) if own else False  # fmt: skip
    outer = _outer_names(kernel)
    elsewhere = [function for function in (plan.args, plan.reference) if callable(function)]
    sizes = {name for text in _templates(plan.args) for name in re.findall(r"[^\W\d]\w*", text.partition("[")[2])}
    for name in plan.values:
        if name in LAUNCH:
            if name in own:
                raise _refused(
                    name, f"{kernel.__name__} has a parameter {name} too", f"{name} is that of the launch",
                    "rename the kernel's parameter",
                )  # fmt: skip
            continue
        if name in COLUMNS:
            raise _refused(name, f"{name} is a column of every sweep", "a parameter has a name of its own", "tile_size")
        used = name in own or name in outer or name in option_names() or name in sizes
        used = used or any(name in signature_of(item).parameters for item in elsewhere)
        if used:
            continue
        if takes_all:
            raise _refused(name, f"{kernel.__name__} takes {name} by **", "a parameter that the kernel names", "")
        raise _unknown(name, kernel, [*own, *sorted(outer), *LAUNCH, *option_names()])


def _unknown(name: str, kernel: Kernel, known: list[str]) -> NkiError:
    function = reach.function_of(kernel)
    is_there = function is not None and name in function.__globals__
    reason = "is a global that the kernel does not read" if is_there else "goes nowhere"
    near = did_you_mean(name, known)
    return coded_error(
        "NKI012",
        f"the parameter {name} of the sweep of {kernel.__name__} {reason}",
        operand=name,
        limit="a parameter of the kernel, a global or an outer variable that its code reads, a parameter of the "
        "functions args and reference, a size in args, an option, target or grid",
        help=near or _names_that_vary(kernel),
    )


def _names_that_vary(kernel: Kernel) -> str:
    """Return which names of a kernel and of its module a sweep may vary, as a help."""
    function = reach.function_of(kernel)
    values = {} if function is None else function.__globals__
    own = [name for name in _signature(kernel) if name not in LAUNCH]
    read = sorted(name for name in _outer_names(kernel) if not isinstance(values.get(name), ModuleType | FunctionType))
    said = [f"has the parameters {', '.join(own)}" * bool(own), f"reads {', '.join(read)}" * bool(read)]
    if not any(said):
        return "give the kernel a parameter of that name"
    return f"{kernel.__name__} {' and '.join(filter(None, said))}"


def _accepted(function: Callable[..., object], parameters: Mapping[str, Any], *, always: bool = True) -> dict[str, Any]:
    """Return those of the parameters that a function takes by name; with `always` all, where it takes any."""
    found = signature_of(function).parameters
    if always and any(item.kind is item.VAR_KEYWORD for item in found.values()):
        return dict(parameters)
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {name: value for name, value in parameters.items() if name in found and found[name].kind in kinds}


# -- arguments ---------------------------------------------------------------------------------------------------------


def _arguments(given: Arguments, parameters: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional arguments and the keywords of a point."""
    what: object = given
    if callable(given):
        try:
            what = given(**_accepted(given, parameters))
        except NkiError:
            raise
        except Exception as error:
            chosen = ", ".join(f"{name}={shown(value)}" for name, value in parameters.items())
            raise coded_error(
                "NKI012",
                f"args raised {type(error).__name__}: {error}",
                operand="args",
                note=f"for {chosen}",
                limit="args gives the kernel's arguments for each point",
            ) from error
    if isinstance(what, Mapping):
        return (), {name: _filled(value, parameters) for name, value in what.items()}
    parts = tuple(what) if isinstance(what, list | tuple) else (what,)
    return tuple(_filled(value, parameters) for value in parts), {}


def _templates(args: object) -> Iterator[str]:
    parts = args.values() if isinstance(args, Mapping) else args if isinstance(args, list | tuple) else [args]
    yield from (part for part in parts if isinstance(part, str) and _TENSOR.fullmatch(part.strip()))


def _filled(value: object, parameters: Mapping[str, Any]) -> object:
    """Return the spec that `"float32[S,512]"` stands for in a point; another value as it is."""
    if not isinstance(value, str) or not _TENSOR.fullmatch(value.strip()):
        return value
    head, _, sizes = value.strip().removesuffix("]").partition("[")
    numbers = [str(_size(text.strip(), parameters, value)) for text in sizes.split(",")]
    found = tensor_or_dtype(f"{head}[{','.join(numbers)}]")
    if found is None:
        raise _refused("args", f"{value!r} is no tensor", "dtype[size,size]", '"float32[S,512]"')
    return found


def _size(text: str, parameters: Mapping[str, Any], whole: str) -> int:
    size = parameters.get(text, text)
    if isinstance(size, str) and size.isdecimal():
        size = whole_number(size, f"a size of {shortened(whole)!r}")
    if type(size) is not int or size < 1:
        near = did_you_mean(text, parameters)
        raise coded_error(
            "NKI012",
            f"{whole!r} has the size {text}" + (f", which is {shown(size)}" if text in parameters else ""),
            operand="args",
            limit="a size is a positive number, or a parameter of the sweep that is one",
            help=near or f"parameters: {', '.join(parameters)}",
        )
    return size


def spec_of(value: Any) -> Any:
    """Return the shape and dtype of an array; another value as it is."""
    if isinstance(value, TensorSpec) or not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    plain = plain_array(value)
    return spec(plain.shape, plain.dtype)


def require_arguments(plan: Plan, point: Point) -> None:
    """Refuse arguments that do not fit the kernel's parameters before anything runs."""
    try:
        bound(plan.kernel.function, point.task.args, dict(point.task.keywords))
    except NkiError as error:
        first = error.diagnostics[0]
        note = first.note or "args gives the arguments of the kernel, parameters of the sweep its constants"
        error.diagnostics = (replace(first, note=note), *error.diagnostics[1:])
        raise


def shown(value: object) -> str:
    """Return a value as tables show it, and Python reads it where that is short."""
    if isinstance(value, Enum):
        return value.name
    if not isinstance(value, bool | int | float | str | tuple | type(None)):
        try:
            return dtype_of(value).name
        except (NkiError, TypeError, ValueError, AttributeError):
            pass
        if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, TensorSpec):
            return f"{value.dtype}[{','.join(map(str, value.shape))}]"
        return str(getattr(value, "__name__", None) or repr(value))
    return repr(value)
