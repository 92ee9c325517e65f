"""NKI's entry points as decorators and functions, and how a decorator changes a function or class."""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.kernel_runtime.interpreter.calls import CallSite, call, library_function
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.namespaces import ENTRIES, special
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, BoundMethod, Partial, Special, UserClass, Value

_RUN_OPTIONS: Final = frozenset({"target", "options", "on_error", "strict", "grid", "out_shape"})
_KERNEL_DECORATOR: Final = Special("kernel decorator")
_KERNELS: Final = {_KERNEL_DECORATOR.name, *(f"nki.{name}" for name in ENTRIES)}


@library_function(*(f"nki.{name}" for name in ENTRIES if name != "simulate_kernel"))
def _entry(site: CallSite, *args: Value, **options: Value) -> Value:
    """Return the kernel of `nki.jit` and its kin on a function; with options only, the decorator."""
    if not args:
        return _KERNEL_DECORATOR
    kernel = args[0]
    if isinstance(kernel, Function) and not kernel.entry:
        return Launch(kernel)
    return kernel if isinstance(kernel, Function | Launch) else UNKNOWN


_KERNEL_DECORATOR.run = special("nki.jit").run


@library_function("nki.simulate_kernel", "nki_lab.run", "nki_lab.profile", "nki_lab.compile")
def _run(site: CallSite, kernel: Value, *args: Value, **kwargs: Value) -> Value:
    """Launch a kernel with its arguments in one call."""
    launch = Launch(kernel) if isinstance(kernel, Function) else kernel
    own = {name: value for name, value in kwargs.items() if name not in _RUN_OPTIONS}
    known = isinstance(launch, Launch)
    return site.interpreter.launch(launch, list(args), own, site.node, site.frame) if known else UNKNOWN


def decorated(frame: Frame, node: ast.AST, decorator: Value, value: Value) -> Value:
    """Return a function or class under one decorator."""
    host = frame.interpreter.host
    if decorator is UNKNOWN:
        return value if host else UNKNOWN  # code that launches a kernel does so under any decorator
    if isinstance(value, Function):
        kind = next((name for known, name in _METHOD_KINDS if decorator is known), "")
        if kind:
            value.kind = kind
            return value
        marker = decorator.function if isinstance(decorator, Partial) else decorator
        if isinstance(marker, Special) and marker.name in _KERNELS:
            value.entry = True
            return value
    if isinstance(decorator, Special) and isinstance(value, Function | UserClass):
        return call(frame, node, decorator, [value], {})
    if isinstance(decorator, Function | BoundMethod | Partial):
        found = call(frame, node, decorator, [value], {})
        return value if found is UNKNOWN and host else found
    return UNKNOWN


_METHOD_KINDS: Final = ((property, "property"), (staticmethod, "static"), (classmethod, "class"))
