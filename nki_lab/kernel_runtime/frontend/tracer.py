"""The native tracer: runs a kernel as Python over tensors without values and leaves its IR in a Builder."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, TracebackType
from typing import Any

from nki_lab.diagnostic import NkiError, Related, Span, diagnose, error_class, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.frontend import control, misuse
from nki_lab.kernel_runtime.frontend.context import is_ours, recording
from nki_lab.kernel_runtime.frontend.issue import Builder, placed, site_at, span_of
from nki_lab.kernel_runtime.ir import Site
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor


def trace(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], builder: Builder) -> Any:
    """Run `function` with the builder recording; gives the structure it returns, with tensors in place of arrays.

    Whatever goes wrong in the kernel's own code comes out as an NkiError with a code and a place; KeyboardInterrupt
    and SystemExit pass through.
    """
    _refuse_unfinished(function)
    with recording(builder):
        builder.passes.begin(sys._getframe())
        try:
            result = function(*args, **kwargs)
            builder.sync()
            control.finish(builder)
        except NkiError as error:
            locate_error(error)
            raise
        except Exception as error:
            raise wrapped(error) from error
        finally:
            builder.passes.end()
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


def wrapped(error: Exception) -> NkiError:
    """The NkiError, also of the exception's own kind, for something the kernel's Python raised."""
    kind = type(error)
    site = innermost_site(error.__traceback__)
    misused = misuse.of_traceback(error)
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


def collect_outputs(result: Any, builder: Builder) -> None:
    """Enter the returned tensors into the program, and check that there is nothing else among them."""
    outputs: list[NkiTensor] = []
    _gather(result, outputs)
    for tensor in outputs:
        if tensor._buffer.kind == "temp":
            tensor._buffer.kind = "output"
        if tensor._buffer.space is not MemoryRegion.shared_hbm and tensor._buffer.kind != "input":
            site = tensor._buffer.site
            builder.note(
                diagnose(
                    "NKI607",
                    f"the kernel returns a tensor in {tensor._buffer.space.value}",
                    note=f"{tensor._shape} {tensor._dtype.name}",
                    limit="returned tensors are in nl.shared_hbm",
                    help="allocate it with buffer=nl.shared_hbm",
                ),
                site,
            )
        builder.view_of(tensor)
    builder.program.outputs = outputs


def _gather(result: Any, outputs: list[NkiTensor]) -> None:
    if result is None:
        return
    if isinstance(result, NkiTensor):
        outputs.append(result)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _gather(item, outputs)
    elif isinstance(result, dict):
        for item in result.values():
            _gather(item, outputs)
    elif isinstance(result, (int, float, str, bool)):
        return
    else:
        raise error_class(TypeError)(
            (
                diagnose(
                    "NKI014",
                    f"the kernel returned a {type(result).__name__}",
                    limit="a kernel returns tensors, or tuples, lists and dicts of tensors, or nothing",
                    help="return the tensor that nl.ndarray(..., buffer=nl.shared_hbm) gave",
                ),
            )
        )


def map_structure(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The structure with every leaf replaced: tuples, lists, dicts and dataclass fields are walked."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_structure(item, leaf) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_structure(item, leaf) for item in value)
    if isinstance(value, dict):
        return {key: map_structure(item, leaf) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        mapped = {name: map_structure(item, leaf) for name, item in fields.items()}
        if any(
            mapped[name] is not fields[name] for name in fields if not isinstance(fields[name], (tuple, list, dict))
        ):
            return dataclasses.replace(value, **mapped)
        return value
    return leaf(value)
