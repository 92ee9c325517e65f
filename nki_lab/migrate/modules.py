"""Rows about modules, decorators and callers: imports, `nki.jit`, simulation, and what is no index or call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.migrate.context import Context
from nki_lab.migrate.language import LANGUAGE, RANGES
from nki_lab.migrate.names import FUNCTIONS

_RUNS: Final = "nki.baremetal"
_TIMES: Final = ("nki.benchmark", "nki.profile")
_NO_OPS: Final = tuple(
    f"nki.compiler.{name}" for name in ("skip_middle_end_transformations", "enable_stack_allocator", "force_auto_alloc")
)
_RANGES: Final = tuple(f"{LANGUAGE}.{name}" for name in RANGES)
_OTHERS: Final = {
    "nki.isa.tensor_copy_dynamic_src": 21, "nki.isa.tensor_copy_dynamic_dst": 21, "nki.language.atomic_rmw": 22,
}  # fmt: skip
_MOVED: Final = {"nki.isa.constants": "nki.isa"}
_GONE: Final = frozenset(
    ("baremetal", "simulate_kernel", "trace", "arange", "mgrid", "par_dim", "loop_reduce", "static_cast", "fp32",
     *RANGES, "skip_middle_end_transformations", "enable_stack_allocator",
     "force_auto_alloc", "spmd_dim", "nc")
)  # fmt: skip


def rewrite_module(context: Context) -> None:
    """Rewrite what is not about tiles, before their statements are."""
    for statement in context.names.renamed.values():
        if context.names.dotted(statement.value).rpartition(".")[2] in _GONE:
            context.done(4)
            context.edits.drop(statement)
    for node in ast.walk(context.edits.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _decorators(context, node)
        elif isinstance(node, ast.For):
            _loop(context, node)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "neuronxcc.nki":
            context.edits.replace(node, "nki")


def _loop(context: Context, node: ast.For) -> None:
    """`for i in nl.affine_range(n)` is `for i in range(n)`."""
    call = node.iter
    if (
        context.names.called(call, *_RANGES)
        and isinstance(call, ast.Call)
        and "range" not in context.names.bindings(context.edits.tree)
    ):
        context.done(37)
        edits, last = context.edits, call.args[-1] if call.args else None
        if last is None or any(item.arg in ("start", "stop", "step") for item in call.keywords):
            context.applied[37] -= 1
            return
        edits.replace(call.func, "range")
        if call.keywords:
            edits.cut(call, edits.end(last), edits.end(call.keywords[-1]))


def _decorators(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    for item in node.decorator_list:
        called = item.func if isinstance(item, ast.Call) else item
        name = context.names.dotted(called)
        if not context.names.is_old(called):
            continue
        if name in _TIMES:
            context.leave(6, item, f"{name} has no counterpart")
        elif name == "nki.trace" or name in _NO_OPS or (name == "nki.jit" and _mode(item) == "trace"):
            context.done(3 if name not in _NO_OPS else 24)
            _remove(context, node, item)
        elif name == _RUNS:
            context.done(5)
            context.edits.replace(item, f"{_nki(context)}.jit")
        elif name == "nki.jit" and isinstance(item, ast.Call):
            context.done(2)
            context.edits.replace(item, context.edits.text_of(item.func))


def _mode(node: ast.expr) -> object:
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return next(
        (item.value.value for item in keywords if item.arg == "mode" and isinstance(item.value, ast.Constant)), None
    )


def _remove(context: Context, owner: ast.AST, decorator: ast.expr) -> None:
    edits = context.edits
    start = edits.text.rindex("@", 0, edits.start(decorator))
    end = edits.end(decorator)
    line = edits.text.rfind("\n", 0, start) + 1
    stop = edits.text.find("\n", end)
    following = edits.text[stop + 1 :]
    indent = len(following) - len(following.lstrip(" \t"))
    edits.cut(owner, start, stop + 1 + indent if edits.text[line:start].strip() == "" else end)


def _nki(context: Context) -> str:
    context.needed.add("nki")
    return context.names.spelt("nki")


def rewrite_calls(context: Context) -> None:
    """Rewrite the calls of the host that run kernels."""
    simulated = {
        node.name
        for node in ast.walk(context.edits.tree)
        if isinstance(node, ast.FunctionDef) and any(_mode(item) == "simulation" for item in node.decorator_list)
    }
    calls = [node for node in ast.walk(context.edits.tree) if isinstance(node, ast.Call)]
    for node in reversed(calls):
        name = context.names.dotted(node.func)
        if name in _OTHERS:
            context.leave(_OTHERS[name], node, f"{name} is gone")
        if name == "nki.simulate_kernel" and node.args and not isinstance(node.args[0], ast.Starred):
            context.done(4)
            kernel, *others = (context.edits.text_of(item) for item in node.args)
            others += [context.edits.text_of(item) for item in node.keywords]
            others += [context.extra[id(node)]] if id(node) in context.extra else []
            context.edits.replace(node, f"{_nki(context)}.simulate({kernel})({', '.join(others)})")
        elif name == _RUNS:
            if context.names.function(node) is None or not _is_decorator(context, node):
                context.done(5)
                inner = ", ".join(context.edits.text_of(item) for item in node.args)
                context.edits.replace(node, f"{_nki(context)}.jit({inner})" if inner else f"{_nki(context)}.jit")
        elif name in _TIMES and not _is_decorator(context, node):
            context.leave(6, node, f"{name} has no counterpart")
        elif name == "nki.jit" and context.names.is_old(node.func) and not _is_decorator(context, node):
            inner = ", ".join(context.edits.text_of(item) for item in node.args)
            if node.keywords:
                context.done(2)
                context.edits.replace(
                    node, f"{context.edits.text_of(node.func)}({inner})" if inner else context.edits.text_of(node.func)
                )
        elif simulated:
            kernel_node = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if isinstance(kernel_node, ast.Name) and kernel_node.id in simulated and not _in_kernel(context, node):
                context.done(2)
                context.edits.replace(node.func, f"{_nki(context)}.simulate({context.edits.text_of(node.func)})")


def _in_kernel(context: Context, node: ast.AST) -> bool:
    owner = context.names.function(node)
    return owner is not None and any(
        context.names.dotted(item.func if isinstance(item, ast.Call) else item) == "nki.jit"
        for item in owner.decorator_list
    )


def _is_decorator(context: Context, node: ast.Call) -> bool:
    above = context.edits.parent(node)
    return isinstance(above, FUNCTIONS) and node in above.decorator_list


# -- imports -----------------------------------------------------------------------------------------------------------


def rewrite_imports(context: Context, used: set[str]) -> None:
    """Rewrite the imports of `neuronxcc`, and import what the new text needs; `used` are the names that it reads."""
    last: ast.stmt | None = None
    made: set[str] = set()
    for node in context.edits.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node
    for item in ast.walk(context.edits.tree):
        if isinstance(item, ast.Import | ast.ImportFrom):
            lines = list(_import(context, item, used))
            texts = dict.fromkeys(lines)
            if context.edits.segment(item) not in texts or len(texts) != 1:
                context.done(1)
                if texts:
                    *first, final = texts
                    context.edits.before(item, *first)
                    context.edits.replace(item, final)
                else:
                    context.edits.drop(item)
            made.update(texts)
    wanted = [module for module in sorted(context.needed) if not _is_imported(context, module)]
    needed = []
    for module in wanted:
        alias = context.names.spelt(module)
        needed.append(f"import {module}" if alias == module else f"import {module} as {alias}")
    fresh = [text for text in needed if text not in made]
    if fresh and last is not None:
        context.edits.after(last, *fresh)


def _is_imported(context: Context, module: str) -> bool:
    return context.names.imports(module)


def _import(context: Context, node: ast.Import | ast.ImportFrom, used: set[str]) -> Iterator[str]:
    """Yield the import statements that stand for one."""
    if isinstance(node, ast.Import):
        if not any(item.name.partition(".")[0] == "neuronxcc" for item in node.names):
            yield context.edits.segment(node)
            return
        for item in node.names:
            name = item.name.removeprefix("neuronxcc.") if item.name.startswith("neuronxcc.nki") else item.name
            name = _MOVED.get(name, name)
            if item.name.startswith("neuronxcc") and not item.name.startswith("neuronxcc.nki"):
                context.leave(1, node, f"{item.name} is no part of nki")
            bare = item.asname is None or (item.asname == "nki" and name == "nki")
            yield f"import {name}" if bare else f"import {name} as {item.asname}"
        return
    module = node.module or ""
    if node.level or module.partition(".")[0] != "neuronxcc":
        yield context.edits.segment(node)
        return
    if module == "neuronxcc":
        for item in node.names:
            if item.name == "nki":
                yield "import nki" if item.asname in (None, "nki") else f"import nki as {item.asname}"
            else:
                context.leave(1, node, f"neuronxcc.{item.name} is no part of nki")
                yield f"from neuronxcc import {item.name}" + (f" as {item.asname}" if item.asname else "")
        return
    if not module.startswith("neuronxcc.nki"):
        context.leave(1, node, f"{module} is no part of nki")
        yield context.edits.segment(node)
        return
    home = module.removeprefix("neuronxcc.")
    home = _MOVED.get(home, home)
    kept = [item for item in node.names if item.name not in _GONE or (item.asname or item.name) in used]
    if kept:
        names = ", ".join(item.name + (f" as {item.asname}" if item.asname else "") for item in kept)
        yield f"from {home} import {names}"
