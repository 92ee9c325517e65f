"""Kernels in PyTorch's graphs: a call under `torch.compile`, `torch.export` or `make_fx` becomes a custom operator.

The operator's fake kernel has the shapes and dtypes that the front end finds: a kernel is refused where torch traces
the call. When the graph runs, the operator runs the kernel on the simulator. A plain call runs it directly.

Dynamo reads `Kernel.__call__` as Python and gets from there to `call`, which it reads too; functions marked as
constant, and `enter`, it evaluates instead.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.session import Launch, Results
from nki_lab.session.arguments import bound, is_container, with_items
from nki_lab.session.arrays import check_gradient, check_tensor, map_leaves, shape_and_dtype, torch_dtype

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]
NAMESPACE: Final = "nki_lab"
"""The namespace of the operators: `torch.ops.nki_lab.<kernel>_<digest>`."""


class Launchable(Protocol):
    """A kernel as torch calls it."""

    __name__: str

    def prepared(self) -> Launch:
        """The launch with the target and the options that hold now."""

    def results_of(self, args: Arguments, kwargs: Keywords) -> Results:
        """Return what the call would return and change."""

    def launch(self, args: Arguments, kwargs: Keywords, prepared: Launch | None = None) -> Any:
        """Run on tensors; with `prepared`, on its target and with its options."""

    def on_grid(self, grid: Any) -> Any:
        """The same kernel on a launch grid."""


# -- read by Dynamo ---------------------------------------------------------------------------------------------------


def _evaluated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that Dynamo calls, and whose result it takes for a constant."""
    function.__dict__["_dynamo_marked_constant"] = True
    return function


class _Torch:
    """The library, once it traces a call."""

    tensor: type = type(None)


@_evaluated
def is_followed() -> bool:
    """Return whether torch traces or transforms the code that runs now, outside of kernels."""
    torch = sys.modules.get("torch")
    if torch is None or local.builder is not None:
        return False
    low = torch._C
    if (
        torch.compiler.is_compiling()
        or low._len_torch_dispatch_stack() > 0
        or low._functorch.peek_interpreter_stack() is not None
        or low._get_tracing_state() is not None
    ):
        _Torch.tensor = torch.Tensor
        torch.compiler.allow_in_graph(enter)
        return True
    return False


def call(kernel: Launchable, args: Arguments, kwargs: Keywords, grid: Any = None) -> Any:
    """Call a kernel where torch traces the call; returns what the kernel returns, with traced tensors.

    A fault that is known from shapes and dtypes is raised at once.
    """
    tensors: list[Any] = []
    tokens: list[Any] = []
    _split(args, tensors, tokens)
    _split(kwargs, tensors, tokens)
    if not tensors:
        return _gridded(kernel, grid).launch(args, kwargs)
    key = _key_of(kernel, grid, *tokens)
    found = enter(key, *tensors)
    return _assembled(_structure(key), found, [0])


class Gridded:
    """A kernel on a launch grid where torch traces the call."""

    def __init__(self, kernel: Launchable, grid: Any) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel."""
        return call(self.kernel, args, kwargs, self.grid)


def _gridded(kernel: Launchable, grid: Any) -> Launchable:
    return kernel if grid is None else kernel.on_grid(grid)


def _split(value: Any, tensors: list[Any], tokens: list[Any]) -> None:
    """Take the tensors out of an argument; the tokens say how it is made of them and of constants."""
    if isinstance(value, _Torch.tensor):
        tokens.extend(("tensor", len(tensors)))
        tensors.append(value)
    elif isinstance(value, (tuple, list)):
        tokens.extend((_kind_of(type(value)), len(value)))
        for item in value:
            _split(item, tensors, tokens)
    elif isinstance(value, dict):
        tokens.extend(("dict", len(value)))
        for key, item in value.items():
            tokens.append(key)
            _split(item, tensors, tokens)
    else:
        tokens.extend(("constant", value))


def _assembled(tokens: Sequence[Any], tensors: Sequence[Any], place: list[int]) -> Any:
    """Put together the value that `tokens` describe from `place[0]` on, and move `place` behind it."""
    kind, what = tokens[place[0]], tokens[place[0] + 1]
    place[0] += 2
    if kind == "tensor":
        return tensors[what]
    if kind == "constant":
        return what
    if kind == "dict":
        made = {}
        for _ in range(what):
            key = tokens[place[0]]
            place[0] += 1
            made[key] = _assembled(tokens, tensors, place)
        return made
    items = [_assembled(tokens, tensors, place) for _ in range(what)]
    if kind == "list":
        return items
    return tuple(items) if kind == "tuple" else _classes[kind](*items)


# -- evaluated by Dynamo ----------------------------------------------------------------------------------------------


@_evaluated
def _kind_of(kind: type) -> Any:
    """Return the token of lists, of tuples, or of a class of named tuples: its place in `_classes`."""
    if issubclass(kind, list):
        return "list"
    if not hasattr(kind, "_fields"):
        return "tuple"
    with _lock:
        if kind not in _classes:
            _classes.append(kind)
        return _classes.index(kind)


@_evaluated
def _key_of(kernel: Launchable, grid: Any, *tokens: Any) -> str:
    """Return the name under which this call is kept; `tokens` describe its arguments."""
    chosen = _gridded(kernel, grid)
    launch = chosen.prepared()
    same: Hashable = (id(kernel), _token_key(grid), launch.target, launch.options, *map(_token_key, tokens))
    with _lock:
        known = _names.get(same)
        if known is None:
            known = _names[same] = f"{chosen.__name__}#{len(_calls)}"
            _calls[known] = TracedCall(chosen, launch, tokens)
            _kept.append((kernel, grid, tokens))
        return known


def _token_key(token: Any) -> Hashable:
    """A key of a constant: 1, 1.0 and True differ, 0.0 and -0.0 too."""
    if type(token) is float:
        return (float, token.hex())
    return (type(token), token if isinstance(token, (bool, int, str)) else id(token))


@_evaluated
def _structure(key: str) -> tuple[Any, ...]:
    """Return the tokens of what the call returns."""
    return _calls[key].structure


def enter(key: str, *tensors: Any) -> list[Any]:
    """Call the operator of a call; gives the tensors that the kernel returns."""
    return _calls[key].enter(tensors)


_lock = threading.RLock()
_classes: list[type] = []
"""Classes of named tuples. Dynamo finds them here."""
_calls: dict[str, TracedCall] = {}
_names: dict[Hashable, str] = {}
_kept: list[Any] = []
"""Objects whose ids are in keys: graphs name calls as long as the process lives."""


class TracedCall:
    """A call of a kernel as graphs hold it: everything but its tensors."""

    def __init__(self, kernel: Launchable, launch: Launch, tokens: Sequence[Any]) -> None:
        self.kernel = kernel
        self.launch = launch
        self.tokens = tuple(tokens)
        self.structure: tuple[Any, ...] = ()
        self._operators: dict[Hashable, tuple[Callable[..., Any], tuple[Any, ...]]] = {}

    def enter(self, tensors: Sequence[Any]) -> list[Any]:
        """Call the operator for these tensors; gives the tensors that the kernel returns."""
        unique = list({id(item): item for item in tensors}.values())
        places = tuple(next(at for at, item in enumerate(unique) if item is given) for given in tensors)
        try:
            names = self._names(unique, places)
            specs = tuple(map(_spec_of, names, unique))
            with _lock:
                known = self._operators.get((places, specs))
                if known is None:
                    known = self._operators[places, specs] = self._made(unique, places, names, specs)
        except NkiError as error:
            error.diagnostics = tuple(map(_without_torch, error.diagnostics))
            raise
        operator, self.structure = known
        found = operator(*unique)
        return list(found) if isinstance(found, (tuple, list)) else [] if found is None else [found]

    def _arguments(self, tensors: Sequence[Any]) -> tuple[Arguments, Keywords]:
        """Return the arguments of the call with these tensors."""
        place = [0]
        return _assembled(self.tokens, tensors, place), _assembled(self.tokens, tensors, place)

    def _names(self, unique: Sequence[Any], places: tuple[int, ...]) -> list[str]:
        """Return the names of tensors among the kernel's arguments: `a`, `pair[1]`."""
        args, kwargs = self._arguments([unique[at] for at in places])
        found: dict[int, str] = {}

        def look(name: str, value: object) -> object:
            if isinstance(value, _Torch.tensor):
                found.setdefault(id(value), name)
            return with_items(name, value, look) if is_container(value) else value

        for name, value in bound(self.launch.function, args, kwargs).arguments.items():
            look(name, value)
        return [found.get(id(item), f"x{number}") for number, item in enumerate(unique)]

    def _made(
        self, unique: Sequence[Any], places: tuple[int, ...], names: Sequence[str], specs: tuple[TensorSpec, ...]
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the operator for tensors like these, and the tokens of what the call returns."""
        import torch

        args, kwargs = self._arguments([unique[at] for at in places])
        results = self.kernel.results_of(args, kwargs)
        changed = {id(item.argument) for item in results.written}
        written = tuple(number for number, item in enumerate(unique) if id(item) in changed)
        shapes = [(item.shape, torch_dtype(item.dtype)) for item in results.flat]
        structure: list[Any] = []
        _split_results(results.structure, structure, [0])

        def run(*tensors: Any) -> Any:
            args, kwargs = self._arguments([tensors[at] for at in places])
            found: list[Any] = []
            map_leaves(self.kernel.launch(args, kwargs, self.launch), found.append)
            return _returned(_apart([item for item in found if isinstance(item, torch.Tensor)]))

        def described(*tensors: Any) -> Any:
            return _returned([tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in shapes])

        def mapped(info: Any, axes: Sequence[int | None], *tensors: Any) -> Any:
            """Call the kernel for one element of the batch after the other."""
            found = []
            for number in range(info.batch_size):
                each = [item if at is None else item.select(at, number) for at, item in zip(axes, tensors, strict=True)]
                given = operator(*each)
                found.append(given if isinstance(given, tuple) else () if given is None else (given,))
            stacked = [torch.stack(items) for items in zip(*found, strict=True)]
            return _returned(stacked), _returned([0] * len(stacked))

        labels = _labels(names)
        operands = [f"Tensor(a{at}!) {name}" if at in written else f"Tensor {name}" for at, name in enumerate(labels)]
        gives = "Tensor" if len(shapes) == 1 else f"({', '.join(['Tensor'] * len(shapes))})"
        operator = torch.library.custom_op(
            f"{NAMESPACE}::{self._name(specs, places, labels, written, shapes)}",
            run,
            mutates_args=[labels[at] for at in written],
            schema=f"({', '.join(operands)}) -> {gives}",
        )
        operator.register_fake(described)
        operator.register_vmap(mapped)
        return operator, tuple(structure)

    def _name(self, *described: Any) -> str:
        """Return a name that no other operator has.

        Torch keeps compiled graphs on disk under the names of their operators: those of different shapes never have
        the same one.
        """
        text = repr((self.launch.name, described, [repr(item) for item in self.tokens]))
        stem = f"{self.kernel.__name__}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        name = stem
        number = 1
        while name in _taken:
            number += 1
            name = f"{stem}_{number}"
        _taken.add(name)
        return name


_taken: set[str] = set()
"""The names of operators."""


def _spec_of(name: str, tensor: Any) -> TensorSpec:
    check_tensor(tensor, name)
    check_gradient(tensor, name)
    return TensorSpec(*shape_and_dtype(tensor, "torch", name))


def _labels(names: Sequence[str]) -> list[str]:
    """Return the names of an operator's operands: the kernel's, unless an operator cannot have them."""
    free = (f"x{number}" for number in itertools.count() if f"x{number}" not in names)
    fits = (name.isidentifier() and name.isascii() and not name.startswith("_") for name in names)
    return [name if is_fit else next(free) for name, is_fit in zip(names, fits, strict=True)]


def _without_torch(item: Diagnostic) -> Diagnostic:
    """Return a finding without a place within torch: the user's call is not on the stack while Dynamo follows it."""
    import torch

    inside = item.span is not None and str(item.span.file).startswith(torch.__path__[0])
    return replace(item, span=None) if inside else item


def _split_results(value: Any, tokens: list[Any], place: list[int]) -> None:
    """Describe what a kernel returns by tokens."""
    if isinstance(value, TensorSpec):
        tokens += ("tensor", place[0])
        place[0] += 1
    elif isinstance(value, (tuple, list)):
        tokens += (_kind_of(type(value)), len(value))
        for item in value:
            _split_results(item, tokens, place)
    elif isinstance(value, dict):
        tokens += ("dict", len(value))
        for key, item in value.items():
            tokens.append(key)
            _split_results(item, tokens, place)
    else:
        tokens += ("constant", value)


def _apart(tensors: list[Any]) -> list[Any]:
    """Return the tensors with copies of those that share memory with an earlier one: results of operators do not."""
    seen: set[int] = set()
    out = []
    for item in tensors:
        place = item.untyped_storage().data_ptr()
        out.append(item.clone() if place in seen else item)
        seen.add(place)
    return out


def _returned(tensors: list[Any]) -> Any:
    """Return items as an operator returns them."""
    return None if not tensors else tensors[0] if len(tensors) == 1 else tuple(tensors)
