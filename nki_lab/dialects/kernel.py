"""The kernel object: what `@nki.jit` makes of a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import CodeType, MethodType
from typing import Any, Final, Self

from nki_lab import session
from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose, error_of, render
from nki_lab.dialects import launches
from nki_lab.dialects.annotation import check_shapes
from nki_lab.dialects.environment import default_options, records_calls, resolve_target
from nki_lab.dialects.tracebacks import user_frames, with_user_frames
from nki_lab.frameworks import jax_calls, torch_calls
from nki_lab.isa.arch import Arch
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue import launching
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.kernel_runtime.issue.source_location import placed, site_at, user_frame
from nki_lab.kernel_runtime.language.scheduling import pairs_of
from nki_lab.kernel_runtime.options import Options
from nki_lab.late_annotations import annotations_of, signature_of
from nki_lab.source.callables import code_of
from nki_lab.source.kernel_code import Dialect

_KEYWORDS: Final = ("mode", "platform_target", "debug_kernel", "show_compiler_tb", "experimental_flags",
                    "additional_compile_opt")  # fmt: skip
_CODE_FIELDS: Final = ("co_filename", "co_firstlineno", "co_name", "co_qualname")
_FUNCTION_FIELDS: Final = ("__code__", "__globals__", "__defaults__", "__kwdefaults__", "__closure__")


class Kernel:
    """A kernel: called with arrays it runs on the simulator, called inside another kernel it is inlined.

    `kernel[n]` launches it on n physical cores of a logical one. The results are arrays of the caller's library.
    """

    dialect: Dialect = "current"
    quiet: frozenset[str] = frozenset()
    """Codes that a plain call keeps to itself; `nki_lab.run` has them."""
    _prepared: session.Launch | None = None
    """The launch of the last call; most calls have the same."""
    _prepared_schedule: tuple[Any, ...] | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        keywords: Mapping[str, Any] | None = None,
        grid: tuple[int, ...] = (),
        schedule: tuple[Any, ...] = (),
        notes: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.function = function
        self.keywords = dict(keywords or {})
        self.grid = grid
        self.schedule = schedule
        self.notes = notes
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(function, name):
                self.__dict__[name] = getattr(function, name)
        self.__dict__.update(__annotations__=annotations_of(function))
        self.__dict__.setdefault("__name__", type(function).__name__)

    # -- calls -------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the simulator, or as a part of what makes the call: a kernel, or what torch or JAX trace."""
        if torch_calls.is_followed():
            return torch_calls.call(self, args, kwargs)
        if local.builder is not None:
            return self.inline(args, kwargs)
        with user_frames:
            if jax_calls.is_traced(args, kwargs):
                return jax_calls.call(self, args, kwargs)
            return self.launch(args, kwargs)

    def launch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], prepared: session.Launch | None = None) -> Any:
        """Run on the simulator; gives the results. An observer gets errors and warnings, else they are printed.

        `prepared` is the launch of a call that was prepared earlier, with the target and the options of then.
        """
        launch = prepared or self.prepared()
        if launches.current_observer() is None:
            repeated = session.again(launch, args, kwargs)
            if repeated is not None:
                self._announce(repeated.diagnostics)
                return repeated.outputs
        return self.launched(args, kwargs, prepared=launch).outputs

    def launched(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        timed: bool = False,
        prepared: session.Launch | None = None,
    ) -> session.Execution:
        """Run on the simulator as `launch` does; gives everything that the run leaves, with times where asked for."""
        launch = prepared or self.prepared()
        observer = launches.current_observer()
        if observer is not None:
            return self._observed(observer, launch, args, kwargs, timed=timed)
        execution = self._executed(launch, args, kwargs, timed=timed)
        self._announce(execution.diagnostics)
        return execution

    def _announce(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        if diagnostics:
            announce(item for item in diagnostics if item.code not in self.quiet)

    def _observed(
        self,
        observer: launches.LaunchObserver,
        launch: session.Launch,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        timed: bool,
    ) -> session.Execution:
        """Run under an observer; a call that had shapes for arguments computes nothing."""
        given, named, valued = launches.filled(observer.inputs, args, kwargs)
        if not valued:
            self.check_grid(launch.arch)
            execution = session.profile(launch, given, named)
        else:
            execution = self._executed(launch, given, named, on_error="report", timed=timed or observer.timed)
        loud = tuple(item for item in execution.diagnostics if item.code not in self.quiet)
        observer.launched(self.__name__, replace(execution, diagnostics=loud), (*given, *named.values()))
        if execution.error is not None:
            raise KeyboardInterrupt if execution.interrupted else execution.error
        return execution

    def inline(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The call as a part of the kernel that makes it."""
        if self.grid:
            raise error_of(launching.grid_in_kernel(self.__name__, self.grid))
        return self.function(*args, **kwargs)

    def execute(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        target: str | Arch | None = None,
        options: Options | None = None,
        on_error: session.OnError = "raise",
        timed: bool = False,
    ) -> session.Execution:
        """The call with everything that it leaves; see `session.execute`."""
        return self._executed(self.prepared(target, options), args, kwargs, on_error=on_error, timed=timed)

    def _executed(
        self,
        launch: session.Launch,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        on_error: session.OnError = "raise",
        timed: bool = False,
    ) -> session.Execution:
        refusals: list[NkiError] = []

        def check() -> None:
            try:
                self._check_launch(launch.arch, args, kwargs)
            except NkiError as error:
                _place(error)
                refusals.append(error)
                raise

        try:
            return session.execute(launch, args, kwargs, on_error=on_error, timed=timed, check=check)
        except NkiError as error:
            if on_error == "raise" or error not in refusals:
                raise
            return session.not_executed(launch, error)

    def results_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> session.Results:
        """Return what this call would return and change, from shapes and dtypes; see `session.results_of`."""
        launch = self.prepared()
        try:
            self._check_launch(launch.arch, args, kwargs)
        except NkiError as error:
            _place(error)
            raise
        return session.results_of(launch, args, kwargs)

    def prepared(self, target: str | Arch | None = None, options: Options | None = None) -> session.Launch:
        """The kernel as a session launches it; without `options` those of its dialect."""
        chosen = options or default_options(self.dialect)
        arch, records = self.target(target), records_calls(self.function)
        known = self._prepared
        if (
            known is not None
            and known.function is self.function
            and known.options is chosen
            and known.target is arch
            and known.records is records
            and known.grid is self.grid
            and known.notes is self.notes
            and self._prepared_schedule is self.schedule
        ):
            return known
        known = session.Launch(
            self.function,
            arch,
            chosen,
            self.grid,
            self.dialect,
            self.notes,
            pairs_of(self.schedule),
            records=records,
        )
        self.__dict__["_prepared"], self.__dict__["_prepared_schedule"] = known, self.schedule
        return known

    def target(self, argument: str | Arch | None = None) -> Arch:
        """The target of a call that names `argument`."""
        return resolve_target(argument, kernel=self.keywords.get("platform_target") or "")

    def _check_launch(self, arch: Arch, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not args and not kwargs:
            raise coded_error(
                "NKI009",
                f"{self.__name__} is called without arguments",
                limit="a kernel takes at least one tensor",
                help="pass an array, if only for its shape",
            )
        self.check_grid(arch)
        check_shapes(self.function, args, kwargs)

    # -- launch ------------------------------------------------------------------------------------------------------

    def __getitem__(self, grid: Any) -> Self:
        """The same kernel on `grid` physical cores."""
        if torch_calls.is_followed():
            return torch_calls.Gridded(self, grid)  # type: ignore[return-value]
        return self.on_grid(grid)

    def on_grid(self, grid: Any) -> Self:
        """The same kernel on `grid` physical cores."""
        return self._with(grid=self.grid_of(grid))

    def grid_of(self, key: Any) -> tuple[int, ...]:
        """The launch grid that the bracket says; NKI016 where it says none."""
        found = launching.misshapen(self.__name__, key)
        if found is not None:
            raise error_of(found)
        return (key,)

    def check_grid(self, arch: Arch) -> None:
        """NKI016 for a grid that the target does not have."""
        found = launching.too_many(self.__name__, self.grid, arch)
        if found is not None:
            raise error_of(found)

    def with_schedule(self, edges: Iterable[Any]) -> Self:
        """The same kernel with scheduling edges: pairs (consumer, producer or producers) of instruction names.

        The order of instructions with respect to time changes, their results do not. A kernel that is called inside
        another one leaves its edges behind. NKI012 for what is no such pair; names that no instruction has are NKI403
        when the kernel runs.
        """
        given = tuple(edges)
        try:
            pairs_of(given)
        except NkiError as error:
            _place(error)
            raise
        return self._with(schedule=(*self.schedule, *given))

    def _with(self, **changes: Any) -> Self:
        fields = {"keywords": self.keywords, "grid": self.grid, "schedule": self.schedule, "notes": self.notes}
        made = type(self)(self.function, **(fields | changes))
        made.__dict__["_plain"] = self.__dict__.get("_plain", self)
        return made

    # -- a function as others see it -------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":
            return signature_of(self.function)
        if name in _CODE_FIELDS and (code := code_of(self.__dict__["function"])) is not None:
            return getattr(code, name)
        if name in _FUNCTION_FIELDS:
            return getattr(self.function, name)
        raise AttributeError(f"a kernel has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # %autoreload edits functions in place: it sets the parts of the old one to those of the new one, without and
        # then with its decorators. What it does to a kernel belongs to the kernel's function.
        if name in _FUNCTION_FIELDS:
            setattr(self.function, name, value)
        elif name == "__dict__":
            self.__dict__.update(value)
        else:
            object.__setattr__(self, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # inspect.getsource knows functions, code objects and `__wrapped__`, and nothing else. With `__wrapped__`, and
        # as a function, a kernel called test_* would be collected by pytest. type() tells the truth.
        # The ignored rule: `object` has the attribute writeable.
        return CodeType if sys._getframe(1).f_globals.get("__name__") == "inspect" else Kernel

    def __reduce__(self) -> Any:
        plain = self.__dict__.get("_plain")
        if plain is None:
            return self.__qualname__
        return partial(plain._with, grid=self.grid, schedule=self.schedule), ()

    def __repr__(self) -> str:
        return f"<nki kernel {self.__name__}{f'[{launching.shown(self.grid)}]' if self.grid else ''}>"


def _place(error: NkiError) -> None:
    """Give findings about a launch the place of the call."""
    frame = user_frame(2)
    if frame is not None:
        site = site_at(frame.f_code, frame.f_lasti)
        error.diagnostics = tuple(placed(item, site) for item in error.diagnostics)


def as_kernel(function: object, decorator: str = "@nki.jit") -> Kernel:
    """`function` itself where it is a kernel, else a kernel of it; NKI001 for what cannot be called."""
    if isinstance(function, Kernel):
        return function
    if not callable(function):
        raise coded_error(
            "NKI001",
            f"the kernel is a {type(function).__name__}",
            operand="kernel",
            limit="a kernel is a function",
            help=f"decorate a function with {decorator}",
        )
    return Kernel(function)


@with_user_frames
def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """The kernel of a function: `@nki.jit`, `@nki.jit()`, or `nki.jit(function)`.

    Of the keywords that earlier releases had, `platform_target` is used where neither the call nor the environment
    names a target, and the others are accepted without effect.
    """
    for name in kwargs:
        near = did_you_mean(name, _KEYWORDS)
        if name not in _KEYWORDS and near:
            raise coded_error("NKI002", f"nki.jit got an unexpected keyword argument {name!r}", operand=name, help=near)
    notes = tuple(_notes(kwargs)) if kwargs else ()

    def decorate(function: Callable[..., Any]) -> Kernel:
        plain = as_kernel(function)
        return plain if not kwargs else plain._with(keywords=plain.keywords | kwargs, notes=(*plain.notes, *notes))

    return decorate if fn is None else decorate(fn)


jit.nki_kernel = Kernel  # type: ignore[attr-defined]


def _notes(keywords: Mapping[str, Any]) -> Iterable[Diagnostic]:
    frame = user_frame(2)
    for name, remedy in (
        ("platform_target", "set NEURON_PLATFORM_TARGET_OVERRIDE"),
        ("mode", "drop it: the arguments tell which framework calls"),
    ):
        if name in keywords:
            note = diagnose(
                "NKI604",
                f"nki.jit({name}=...) is deprecated",
                operand=name,
                limit="NKI 0.3 and later have nki.jit without it",
                help=remedy,
            )
            yield note if frame is None else placed(note, site_at(frame.f_code, frame.f_lasti))


@with_user_frames
def simulate(kernel: Callable[..., Any]) -> Kernel:
    """The kernel on the simulator: `nki.simulate(kernel)(a, b)`, also of a function without `@nki.jit`."""
    return as_kernel(kernel)


_announced: set[tuple[str, Any, str]] = set()


def announce(diagnostics: Iterable[Diagnostic]) -> None:
    """Print errors and warnings to the error stream, each once in a process: a plain call has no other place."""
    for item in diagnostics:
        key = (item.code, item.span, item.message)
        if item.severity in ("error", "warning") and key not in _announced:
            _announced.add(key)
            print(f"{item.severity}: {render(item)}", file=sys.stderr)
