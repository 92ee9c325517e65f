"""Plans: calls of a kernel that were made before, with everything bound that does not depend on the arguments' values.

The second call of a kernel with arguments of the same shapes and dtypes only copies arguments, performs the calls that
the first one planned, and hands out results. Everything that a program is kept for (`programs.key_of`) must be as it
was; findings that depend on values are made anew.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.collectives.rank_group import local
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.repeating import RepeatableExecutor
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.session import arrays, programs
from nki_lab.session.arguments import Arguments, Input, Keywords
from nki_lab.session.guards import Guards
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import Execution, Timings

OnTarget = Callable[[Arch], Execution]
Change = tuple[Any, arrays.Array, arrays.Kind]
"""An array of the caller's with the values that it gets."""

KEPT: Final = 64
"""Plans that are kept; the one unused for longest goes first."""

KEPT_BYTES: Final = 256 * 2**20
"""Bytes that all plans together keep between calls, and the most that one may."""

_PLAIN: Final = (int, bool, str, type(None))


@dataclass(slots=True, eq=False)
class Plan:
    """A call to be made again: `inputs` are the buffers of its arrays in the order of `Signature.arrays`, with their
    host dtypes; `written` those that the kernel changes, by their place in that order.

    `busy` says that a thread is running it, `dropped` that it is in the cache no more.
    """

    guards: Guards
    executor: RepeatableExecutor
    inputs: tuple[tuple[int, np.dtype[Any]], ...]
    written: tuple[tuple[int, NkiTensor], ...]
    kind: arrays.Kind
    structure: object
    template: Execution
    nbytes: int
    busy: bool = False
    dropped: bool = False


class Repeated(NamedTuple):
    """The result of a call by its plan; most callers want its outputs only."""

    outputs: object
    flat: tuple[object, ...]
    diagnostics: tuple[Diagnostic, ...]
    seconds: float
    template: Execution

    def execution(self, on_target: OnTarget) -> Execution:
        """Return the result in full."""
        return Execution(
            program=self.template.program,
            outputs=self.outputs,
            flat=self.flat,
            diagnostics=self.diagnostics,
            timings=Timings(numeric=self.seconds),
            cached=True,
            values=self.template.values,
            on_target=on_target,
        )


class Signature:
    """The arguments of a call as a key, and its arrays in order, as the caller has them and as NumPy sees them."""

    __slots__ = ("_parts", "hosts", "key", "kinds", "originals")

    def __init__(self) -> None:
        self.key: tuple[Hashable, ...] = ()
        self._parts: list[Hashable] = []
        self.originals: list[Any] = []
        self.hosts: list[arrays.Array] = []
        self.kinds: list[arrays.Kind] = []

    def take(self, value: Any) -> bool:
        """Add an argument; return whether it is one that plans are made for: an array, or a plain constant."""
        kind = type(value)
        if kind is np.ndarray and value.ndim:
            return self._array(value, value, "numpy")
        if kind in _PLAIN or isinstance(value, (Enum, DType, NamedDType, np.dtype)):
            self._parts.append((kind, value))
            return not (isinstance(value, np.dtype) and programs.has_metadata(value))
        if kind is float:
            self._parts.append((kind, value, math.copysign(1.0, value)))
            return value == value  # noqa: PLR0124 - NaN equals nothing, so that its plan would never be found
        library = arrays.kind_of(value)
        if library in (None, "numpy") or not value.shape:
            return False
        if library == "torch":
            arrays.check_gradient(value, "")
        return self._array(value, arrays.plain(value, library, ""), library)

    def close(self, positional: int, kwargs: Keywords, launch: Launch) -> None:
        """Make the key, when all arguments are taken."""
        epoch = 0
        if launch.records:  # a call that was recorded need not be recorded again until the records are dropped
            from nki_lab.call_records.recorder import recorder

            epoch = recorder.epoch
        self.key = (launch, epoch, positional, *kwargs, *self._parts)

    def _array(self, original: Any, host: arrays.Array, kind: arrays.Kind) -> bool:
        for other in self.originals:
            if other is original:
                return False  # one tensor under two names
        self._parts.append((kind, host.shape, host.dtype))
        self.originals.append(original)
        self.hosts.append(host)
        self.kinds.append(kind)
        return True


def signature_of(launch: Launch, args: Arguments, kwargs: Keywords) -> Signature | None:
    """Return the signature of a call; None where no plan is made for such a call, or something is wrong with it."""
    if type(launch.function) is not FunctionType or programs.is_debugged() or local.rank is not None:
        return None
    found = Signature()
    try:
        for value in (*args, *kwargs.values()):
            if not found.take(value):
                return None
    except Exception:  # noqa: BLE001 - torch and jax have many for arrays without values; the call in full tells
        return None
    found.close(len(args), kwargs, launch)
    return found


class PlanCache:
    """The plans of a process, by signature. A plan is one thread's from `take` to `give`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[Hashable, ...], Plan] = OrderedDict()

    def take(self, key: tuple[Hashable, ...]) -> Plan | None:
        """Return the plan for `key`; None if there is none, or another thread has it."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is None or plan.busy:
                return None
            plan.busy = True
            self._plans.move_to_end(key)
            return plan

    def give(self, plan: Plan) -> None:
        """Put a plan back."""
        with self._lock:
            plan.busy = False
            dropped = plan.dropped
        if dropped:
            plan.executor.close()

    def add(self, key: tuple[Hashable, ...], plan: Plan) -> None:
        """Put a new plan in; those unused for longest go where there are too many."""
        with self._lock:
            dropped = [old] if (old := self._plans.pop(key, None)) is not None else []
            self._plans[key] = plan
            # Not by their values, which say KeyError where an interrupt comes while a key is hashed.
            while len(self._plans) > KEPT or sum(self._plans[item].nbytes for item in self._plans) > KEPT_BYTES:
                dropped.append(self._plans.popitem(last=False)[1])
            unused = _unused(dropped)
        _close(unused)

    def drop(self, key: tuple[Hashable, ...], plan: Plan) -> None:
        """Take a plan out that is the caller's, and close it."""
        with self._lock:
            if self._plans.get(key) is plan:
                del self._plans[key]
            plan.busy, plan.dropped = False, True
        _close([plan])

    def forget(self, files: Collection[str] | None = None) -> None:
        """Drop the plans of kernels in some files; without `files` all."""
        with self._lock:
            left = [key for key in self._plans if files is None or _file_of(key[0]) in files]
            unused = _unused([self._plans.pop(key) for key in left])
        _close(unused)


def _unused(dropped: list[Plan]) -> list[Plan]:
    """Return those of plans just taken out that no thread has: a thread that has one closes it."""
    for plan in dropped:
        plan.dropped = True
    return [plan for plan in dropped if not plan.busy]


def _close(dropped: list[Plan]) -> None:
    for plan in dropped:
        plan.executor.close()


plans: Final = PlanCache()


def forget(files: Collection[str] | None = None) -> None:
    """Drop what is kept between calls, plans and programs, of kernels in some files; without `files` all."""
    plans.forget(files)
    programs.forget(files)


def again(launch: Launch, args: Arguments, kwargs: Keywords) -> Repeated | None:
    """Run a call by the plan of an earlier one; None where there is none, or where it meets a fault."""
    signature = signature_of(launch, args, kwargs)
    return None if signature is None else run_again(signature)


def run_again(signature: Signature) -> Repeated | None:
    """Run a call by the plan of an earlier one; None where there is none, or where it meets a fault.

    The call that is then made in full reports the fault: until the end of a run nothing of the caller's is changed.
    """
    plan = plans.take(signature.key)
    if plan is None:
        return None
    changed = False
    try:
        found = _performed(plan, signature) if plan.guards.hold() else None
        if found is not None:
            changed = True
            change_all(found.changes)
    except BaseException as error:
        plans.drop(signature.key, plan)
        if isinstance(error, Exception) and not changed:
            return None
        raise
    if found is None:
        plans.drop(signature.key, plan)
        return None
    plan.executor.rest()
    plans.give(plan)
    return found.repeated


def change_all(changes: Sequence[Change]) -> None:
    """Change the arrays that a kernel writes: all of them, also where the user interrupts between two."""
    try:
        for change in changes:
            arrays.changed(*change)
    except KeyboardInterrupt:
        for change in changes:
            arrays.changed(*change)
        raise


def keep(
    signature: Signature,
    guards: Guards,
    executor: RepeatableExecutor,
    inputs: list[Input],
    written: list[Input],
    kind: arrays.Kind,
    template: Execution,
) -> bool:
    """Keep what a call in full has left, for `run_again`; return whether the executor is the plan's from now on.

    `template` is the result without outputs and without findings that depend on values; its `structure` that of the
    program.
    """
    places = {id(original): place for place, original in enumerate(signature.originals)}
    if len(inputs) != len(places) or any(id(item.original) not in places for item in inputs):
        return False
    ordered = sorted(inputs, key=lambda item: places[id(item.original)])
    plan = Plan(
        guards,
        executor,
        tuple((item.tensor._buffer.id, item.values.dtype) for item in ordered if item.values is not None),
        tuple((places[id(item.original)], item.tensor) for item in written),
        kind,
        template.outputs,
        replace(template, outputs=None),
        executor.nbytes,
    )
    if plan.nbytes > KEPT_BYTES:
        return False
    executor.rest()
    plans.add(signature.key, plan)
    return True


@contextmanager
def _reported(program: Program) -> Iterator[None]:
    """Tell whoever follows the runs of this thread of one that consists of its values only."""
    monitor = current_monitor()
    monitor.open(program.name, program.arch.target)
    monitor.begin("numerics", len(program))
    try:
        yield
        monitor.complete()
    finally:
        monitor.leave()


class _Performed(NamedTuple):
    """The result of a call by its plan, and what it has yet to change."""

    repeated: Repeated
    changes: list[Change]


def _performed(plan: Plan, signature: Signature) -> _Performed | None:
    start = time.perf_counter()
    executor, originals, kinds = plan.executor, signature.originals, signature.kinds
    if plan.written and any(arrays.frozen(originals[place], kinds[place]) for place, _ in plan.written):
        return None
    values = {
        number: np.ascontiguousarray(host, dtype=dtype)
        for (number, dtype), host in zip(plan.inputs, signature.hosts, strict=True)
    }
    if current_monitor().is_followed:
        with _reported(executor.program):
            executor.again(values)
    else:
        executor.again(values)
    flat: list[object] = []
    outputs = arrays.map_leaves(plan.structure, lambda leaf: given_back(executor, leaf, plan.kind, flat))
    changes = [(originals[place], executor.read(tensor), kinds[place]) for place, tensor in plan.written]
    template = plan.template
    found = template.diagnostics
    if executor.diagnostics:
        found = tuple(dict.fromkeys((*found, *executor.diagnostics)))
    return _Performed(Repeated(outputs, tuple(flat), found, time.perf_counter() - start, template), changes)


def given_back(executor: Any, leaf: object, kind: arrays.Kind, flat: list[object]) -> object:
    """Return a part of a kernel's result, a tensor as an array of the caller's library, which joins those in `flat`."""
    if not isinstance(leaf, NkiTensor):
        return leaf
    values = executor.hand_out(leaf)
    values = values.view(np.dtype(leaf._dtype.host)) if leaf._dtype.kind == "packed" else values
    flat.append(arrays.give_back(values, kind))
    return flat[-1]


def _file_of(launch: object) -> str:
    return launch.file if isinstance(launch, Launch) else ""
