"""The native tracer: runs a kernel as Python over tensors without values and leaves its IR in a Builder."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FrameType, FunctionType, TracebackType
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose, error_class, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.ir import Site
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.issue.outputs import collect_outputs
from nki_lab.kernel_runtime.issue.source_location import handed_over, is_ours, placed, site_at, span_of
from nki_lab.kernel_runtime.language import control, namespaces
from nki_lab.source.checks import failed_check
from nki_lab.source.module import module_at


def trace(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], builder: Builder
) -> object:
    """Run `function` with the builder recording; return its structure of results, with tensors in place of arrays.

    Errors in the kernel's own code come out as an NkiError with a code and a place; KeyboardInterrupt and SystemExit
    pass through.
    """
    _refuse_unfinished(function)
    with recording(builder):
        builder.iterations.begin(sys._getframe())
        try:
            result = function(*args, **kwargs)
            builder.sync()
            control.finish(builder)
        except NkiError as error:
            locate_error(error)
            raise
        except Exception as error:
            raise wrapped(error, builder.program.dialect) from error
        finally:
            builder.iterations.end()
            while builder.loops:
                control.end_loop(builder)
    collect_outputs(result, builder)
    return result


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    """NKI106 for a function that Python would stop half way: calling it runs none of it."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & _UNFINISHED:
        return
    kind = "a generator" if code.co_flags & inspect.CO_GENERATOR else "a coroutine"
    item = diagnose(
        "NKI106",
        f"the kernel {code.co_name} is {kind}",
        span=Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 2),
        limit="a kernel runs from its first statement to its end, once",
        help="return the tensors instead; engines overlap without coroutines",
    )
    raise error_class(SyntaxError)((item,))


_UNFINISHED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def locate_error(error: NkiError) -> None:
    """Give the error's diagnostics the place of the innermost user call in its traceback."""
    if all(item.span is not None for item in error.diagnostics):
        return
    site = innermost_site(error.__traceback__)
    if site is not None:
        error.diagnostics = tuple(placed(item, site) for item in error.diagnostics)


def innermost_site(traceback: TracebackType | None) -> Site | None:
    """Return the last frame of user code that a traceback passed through."""
    return next(reversed(_user_sites(traceback)), None)


def _user_sites(traceback: TracebackType | None) -> list[Site]:
    """Return the frames of user code that a traceback passed through: the kernel, its helpers."""
    found: list[Site] = []
    for frame, instruction in _frames(traceback):
        file = frame.f_code.co_filename
        made = file == "<string>" and bool(found)  # a dataclass's own methods
        library = "site-packages" in file or file.startswith(_LIBRARY)
        if not is_ours(frame) and not library and not made:
            found.append(site_at(frame.f_code, instruction))
    return found


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


def _origin(traceback: TracebackType | None) -> tuple[Related, ...]:
    """Return the call in the kernel's own module that leads to an error in another one, as the checker does."""
    sites = _user_sites(traceback)
    if not sites or sites[-1].file == sites[0].file:
        return ()
    own = [site for site in sites if site.file == sites[0].file]
    return (Related("reached from this call", span_of(own[-1])),)


_LIBRARY = ("<frozen", os.path.dirname(os.__file__) + os.sep)  # noqa: PTH120 - no need of pathlib at import


def wrapped(error: Exception, dialect: str) -> NkiError:
    """Return the NkiError, also of the exception's own kind, for an exception that a kernel of `dialect` raised."""
    site = innermost_site(error.__traceback__)
    item = call_errors.of_traceback(error, _functions(dialect))
    if item is not None:
        raised = error_of(item if site is None else placed(item, site))
    else:
        message, help_text = _explanation(error)
        code = "NKI102" if isinstance(error, NameError) else "NKI007"
        item = diagnose(code, message, help=help_text, related=_origin(error.__traceback__))
        item = _handed_over(item, error.__traceback__) or (item if site is None else placed(item, site))
        raised = error_class(_base_of(type(error)))((item,))
    raised.__cause__ = error
    return raised


def _handed_over(item: Diagnostic, traceback: TracebackType | None) -> Diagnostic | None:
    """Return the finding of an exception that a checking function raised, in the call of it; None for others."""
    passed = list(_frames(traceback))
    if item.code != "NKI007" or len(passed) < _CALL or any(is_ours(frame) for frame, _ in passed[-_CALL:]):
        return None
    (caller, at), (frame, raised) = passed[-_CALL:]
    site, code = site_at(caller.f_code, at), frame.f_code
    module, inner = module_at(site.file), module_at(code.co_filename)
    function = None if inner is None else inner.function(code.co_name)
    if module is None or function is None or function.lineno != code.co_firstlineno:
        return None
    call = module.calls_on(site.line).calls.get((site.line, site.column, site.end_line, site.end_column))
    check = None if call is None else failed_check(function, call, caller.f_locals.get)
    if check is None:
        return None
    if site.file == _user_sites(traceback)[0].file:
        item = replace(item, related=())
    return handed_over(item, span_of(site_at(code, raised)), site.file, check)


_CALL: Final = 2  # the frames of a call: the caller's, and the one of the function


def _functions(dialect: str) -> dict[str, Any]:
    """Return the functions that kernels of a dialect import, by name."""
    if dialect == "beta1":
        from nki_lab.kernel_runtime import beta1

        return beta1.names() | beta1.instruction_names()
    return collective_names() | namespaces.language_names() | namespaces.instruction_names()


def _base_of(kind: type[Exception]) -> type[Exception]:
    """Return the nearest class above `kind`, itself included, that can be made from diagnostics alone."""
    for base in kind.__mro__:
        own = any(isinstance(getattr(base, name, None), FunctionType) for name in ("__init__", "__new__"))
        if not own and base is not Exception and not issubclass(base, (OSError, UnicodeError, BaseExceptionGroup)):
            return base if issubclass(base, Exception) else RuntimeError
    return RuntimeError


def _explanation(error: Exception) -> tuple[str, str]:
    """Return message and help for an exception of the kernel's own code."""
    text = str(error)
    if isinstance(error, NameError):
        names: list[str] = []
        if "did you mean" not in text.lower():
            for frame, _ in _frames(error.__traceback__):
                names = [*frame.f_locals, *frame.f_globals]
        near = did_you_mean(error.name, names) if error.name else ""
        return text, near or "check the spelling, or import the name"
    message = f"the kernel raised {type(error).__name__}" + (f": {text}" if text else "")
    if isinstance(error, AssertionError):
        return message, "the kernel's own assert does not hold for these arguments"
    if isinstance(error, RecursionError):
        return message, "kernels are inlined: a recursion must end at specialisation time"
    near = did_you_mean(error.name, dir(error.obj)) if isinstance(error, AttributeError) and error.name else ""
    return message, near or "specialisation runs the kernel as Python; the error is in its own code"
