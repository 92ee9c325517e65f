"""The native tracer: runs a kernel as Python over tensors without values and leaves its IR in a Builder."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, TracebackType
from typing import Any

from nki_lab.diagnostic import NkiError, Related, Span, diagnose, error_class, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.ir import Site
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.issue.outputs import collect_outputs
from nki_lab.kernel_runtime.issue.source_location import placed, site_at, span_of
from nki_lab.kernel_runtime.issue.user_frames import is_ours
from nki_lab.kernel_runtime.language import control, namespaces


def trace(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], builder: Builder) -> Any:
    """Run `function` with the builder recording; gives the structure it returns, with tensors in place of arrays.

    Whatever goes wrong in the kernel's own code comes out as an NkiError with a code and a place; KeyboardInterrupt
    and SystemExit pass through.
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
    """The last frame of user code that a traceback passed through."""
    sites = _user_sites(traceback)
    return sites[-1] if sites else None


def _user_sites(traceback: TracebackType | None) -> list[Site]:
    """The frames of user code that a traceback passed through: the kernel, its helpers."""
    found: list[Site] = []
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        made = file == "<string>" and bool(found)  # a dataclass's own methods
        if not is_ours(traceback.tb_frame) and not _is_library(file) and not made:
            found.append(site_at(traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found


def _origin(traceback: TracebackType | None) -> tuple[Related, ...]:
    """Where the kernel's own module leads to what another one raised, as the checker says it."""
    sites = _user_sites(traceback)
    if not sites or sites[-1].file == sites[0].file:
        return ()
    own = [site for site in sites if site.file == sites[0].file]
    return (Related("reached from this call", span_of(own[-1])),)


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(_LIBRARY)


_LIBRARY = ("<frozen", os.path.dirname(os.__file__) + os.sep)  # noqa: PTH120 - no need of pathlib at import


def wrapped(error: Exception, dialect: str) -> NkiError:
    """The NkiError, also of the exception's own kind, for something that a kernel of `dialect` raised."""
    kind = type(error)
    site = innermost_site(error.__traceback__)
    misused = call_errors.of_traceback(error, _functions(dialect))
    if misused is not None:
        made = error_of(misused if site is None else placed(misused, site))
        made.__cause__ = error
        return made
    code = "NKI102" if isinstance(error, NameError) else "NKI007"
    if isinstance(error, NameError):
        message = str(error)
        help_text = "check the spelling, or import the name"
        if "did you mean" not in message.lower() and getattr(error, "name", None):
            near = _near_names(error)
            help_text = near or help_text
    else:
        message = f"the kernel raised {kind.__name__}: {error}" if str(error) else f"the kernel raised {kind.__name__}"
        help_text = _explain(error)
    item = diagnose(code, message, help=help_text, related=_origin(error.__traceback__))
    made = error_class(_base_of(kind))((placed(item, site) if site is not None else item,))
    made.__cause__ = error
    return made


def _functions(dialect: str) -> dict[str, Any]:
    """The functions that kernels of a dialect import, by name."""
    if dialect == "legacy":
        from nki_lab.kernel_runtime import beta1

        return beta1.names() | beta1.instruction_names()
    return collective_names() | namespaces.language_names() | namespaces.instruction_names()


def _base_of(kind: type[Exception]) -> type[Exception]:
    """The nearest class above `kind`, itself included, that can be made from diagnostics alone."""
    for base in kind.__mro__:
        own = any(isinstance(getattr(base, name, None), FunctionType) for name in ("__init__", "__new__"))
        if not own and base is not Exception and not issubclass(base, (OSError, UnicodeError, BaseExceptionGroup)):
            return base if issubclass(base, Exception) else RuntimeError
    return RuntimeError


def _near_names(error: NameError) -> str:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    frame = traceback.tb_frame
    return did_you_mean(error.name or "", [*frame.f_locals, *frame.f_globals])


def _explain(error: Exception) -> str:
    if isinstance(error, AssertionError):
        return "the kernel's own assert does not hold for these arguments"
    if isinstance(error, RecursionError):
        return "kernels are inlined: a recursion must end at specialisation time"
    if isinstance(error, AttributeError) and error.name and (near := did_you_mean(error.name, dir(error.obj))):
        return near
    return "specialisation runs the kernel as Python; the error is in its own code"
