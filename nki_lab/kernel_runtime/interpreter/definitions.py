"""`def`, `class` and `import`: they bind functions, classes and modules of the interpreter's own; none is executed.

NKI's entry points are decorators and functions here.
"""

from __future__ import annotations

import ast
from typing import Final

from nki_lab.kernel_runtime.interpreter.attributes import get
from nki_lab.kernel_runtime.interpreter.calls import CallSite, call, library_function
from nki_lab.kernel_runtime.interpreter.classes import make_class
from nki_lab.kernel_runtime.interpreter.compiler import (
    Statement,
    Store,
    compile_binding,
    compile_block,
    compile_defaults,
    compile_expression,
    compiles,
)
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.limits import PendingException
from nki_lab.kernel_runtime.interpreter.modules import public_names
from nki_lab.kernel_runtime.interpreter.namespaces import ENTRIES, special
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    Namespace,
    Partial,
    Special,
    UserClass,
    Value,
)
from nki_lab.source.scopes import Scope, function_scope


@compiles(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Statement:
    """Compile a `def` statement."""
    inner, defaults = function_scope(node, node.name, scope), compile_defaults(node.args, scope)
    store = _compile_decorated(node, scope)

    def run(frame: Frame) -> None:
        store(frame, Function(node, node.name, inner, defaults(frame), frame))

    return run


@compiles(ast.ClassDef)
def _class(node: ast.ClassDef, scope: Scope) -> Statement:
    """Compile a `class` statement: its body runs in a frame whose names become the attributes."""
    inner = Scope("class", node.name, scope, (), node.body)
    bases = [compile_expression(item, scope) for item in node.bases]
    body, store = compile_block(node.body, inner), _compile_decorated(node, scope)

    def run(frame: Frame) -> None:
        parents = [base(frame) for base in bases]
        own = Frame(frame.interpreter, frame, frame.function, {})
        body(own)
        if node.keywords:
            parents.append(UNKNOWN)
        store(frame, make_class(frame, node, parents, own.locals))

    return run


def _compile_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> Store:
    """Return the function that binds a function or class under its decorators."""
    decorators = [(item, compile_expression(item, scope)) for item in reversed(node.decorator_list)]
    bind = compile_binding(node.name, node, scope)

    def store(frame: Frame, value: Value) -> None:
        found = [(place, decorator(frame)) for place, decorator in reversed(decorators)]
        is_kernel = any(_is_kernel_decorator(decorator) for _, decorator in found)
        for place, decorator in reversed(found):
            changed = decorated(frame, place, decorator, value)
            value = value if changed is UNKNOWN and is_kernel else changed  # under any decorator it stays a kernel
        bind(frame, value)

    return store


@compiles(ast.Import)
def _import(node: ast.Import, scope: Scope) -> Statement:
    """Carry out `import a.b as c`."""
    stores = [(item, compile_binding(item.asname or item.name.partition(".")[0], node, scope)) for item in node.names]

    def run(frame: Frame) -> None:
        for item, store in stores:
            store(frame, (_package if item.asname is None else _module)(frame, item.name))

    return run


@compiles(ast.ImportFrom)
def _import_from(node: ast.ImportFrom, scope: Scope) -> Statement:
    """Carry out `from a.b import c`."""
    stores = [(item.name, compile_binding(item.asname or item.name, node, scope)) for item in node.names]
    level, name = node.level, node.module or ""

    def run(frame: Frame) -> None:
        frame.interpreter.effects += 1
        module = _module(frame, name) if not level else frame.interpreter.modules.relative(level, name, frame.module)
        module = UNKNOWN if module is MISSING else module
        for wanted, store in stores:
            if wanted != "*":
                store(frame, _member(frame, node, module, "" if level else name, wanted))
            elif isinstance(module, Namespace):
                frame.module.open_stars.discard("." * level + name)
                frame.module.globals.update({key: module.names[key] for key in public_names(module.names)})

    return run


def _module(frame: Frame, name: str) -> Value:
    """Return the module `name`; UNKNOWN for one that cannot be shown."""
    interpreter = frame.interpreter
    interpreter.effects += 1
    found = interpreter.imports.module(name)
    if found is not UNKNOWN:
        return found
    found = interpreter.modules.absolute(name, frame.module)
    if found is MISSING and interpreter.guards and interpreter.modules.is_absent(name):
        raise PendingException(ModuleNotFoundError(f"No module named {name!r}"), ())  # a handler has another way
    return UNKNOWN if found is MISSING else found


def _package(frame: Frame, name: str) -> Value:
    """Return the first of the packages in `name`, each of which has the next one."""
    parts = name.split(".")
    first = outer = _module(frame, parts[0])
    for i in range(1, len(parts)):
        inner = _module(frame, ".".join(parts[: i + 1]))
        if isinstance(outer, Namespace) and outer.place and isinstance(outer.names, dict) and inner is not UNKNOWN:
            outer.names[parts[i]] = inner
        outer = inner
    return first


def _member(frame: Frame, node: ast.AST, module: Value, name: str, wanted: str) -> Value:
    """Return `wanted` of `from module import wanted`; `name` is the module's full name, empty for a relative one."""
    interpreter = frame.interpreter
    if isinstance(module, Namespace) and module.place:
        found = module.names.get(wanted, MISSING)
        found = interpreter.modules.member(module, wanted) if found is MISSING else found
        return UNKNOWN if found is MISSING else found
    inner = interpreter.imports.module(f"{name}.{wanted}") if name else UNKNOWN
    return get(frame, node, module, wanted) if inner is UNKNOWN else inner


# -- decorators --------------------------------------------------------------------------------------------------------

_RUN_OPTIONS: Final = frozenset({"target", "options", "on_error", "strict", "grid", "out_shape"})
KERNEL_DECORATOR: Final = Special("kernel decorator")
"""The decorator that an entry point with options only gives."""
_KERNELS: Final = {KERNEL_DECORATOR.name, *(f"nki.{name}" for name in ENTRIES)}


@library_function(*(f"nki.{name}" for name in ENTRIES if name != "simulate_kernel"))
def _entry(site: CallSite, *args: Value, **options: Value) -> Value:
    """Return the kernel of `nki.jit` and its kin on a function; with options only, the decorator."""
    if not args:
        return KERNEL_DECORATOR
    kernel = args[0]
    if isinstance(kernel, Function) and not kernel.entry:
        return Launch(kernel)
    if isinstance(kernel, Partial) and isinstance(kernel.function, Function):
        return Partial(Launch(kernel.function), kernel.args, kernel.kwargs)
    return kernel if isinstance(kernel, Function | Launch) else UNKNOWN


KERNEL_DECORATOR.run = special("nki.jit").run


@library_function("nki.simulate_kernel", "nki_lab.run", "nki_lab.profile", "nki_lab.compile")
def _run(site: CallSite, kernel: Value, *args: Value, **kwargs: Value) -> Value:
    """Launch a kernel with its arguments in one call."""
    launch = Launch(kernel) if isinstance(kernel, Function) else kernel
    own = {name: value for name, value in kwargs.items() if name not in _RUN_OPTIONS}
    known = isinstance(launch, Launch)
    return site.interpreter.launch(launch, list(args), own, site.node, site.frame) if known else UNKNOWN


def _is_of_module(value: Value) -> bool:
    return isinstance(value, Function) and value.closure.function is None


def _is_kernel_decorator(decorator: Value) -> bool:
    marker = decorator.function if isinstance(decorator, Partial) else decorator
    return isinstance(marker, Special) and marker.name in _KERNELS


def decorated(frame: Frame, node: ast.AST, decorator: Value, value: Value) -> Value:
    """Return a function or class under one decorator."""
    host = frame.interpreter.host
    if decorator is UNKNOWN:
        return value if host else UNKNOWN  # code that launches a kernel does so under any decorator
    if frame.function is not None and (isinstance(value, UserClass) or _is_of_module(value)):
        frame.interpreter.shared_changes += 1  # a kernel decorates what its module defines
    if isinstance(value, Function):
        kind = next((name for known, name in _METHOD_KINDS if decorator is known), "")
        if kind:
            value.kind = kind
            return value
        if _is_kernel_decorator(decorator):
            value.entry = True
            return value
    if isinstance(decorator, Special) and isinstance(value, Function | UserClass):
        return call(frame, node, decorator, [value], {})
    if isinstance(decorator, Function | BoundMethod | Partial):
        found = call(frame, node, decorator, [value], {})
        return value if found is UNKNOWN and host else found
    return UNKNOWN


_METHOD_KINDS: Final = ((property, "property"), (staticmethod, "static"), (classmethod, "class"))
