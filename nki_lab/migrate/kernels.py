"""Rows about a kernel as a whole: its parameters, its outputs, and the grid that it is launched on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from nki_lab.migrate.context import Context
from nki_lab.migrate.names import FUNCTIONS

_LANGUAGE: Final = "nki.language"

Kernel = ast.FunctionDef | ast.AsyncFunctionDef


def rewrite_kernels(context: Context, kernels: Sequence[ast.AST], reached: Sequence[ast.AST]) -> None:
    """Rewrite kernels; `reached` are all functions that run on the device."""
    rewrite_signatures(context, kernels, reached)
    for kernel in kernels:
        if isinstance(kernel, FUNCTIONS):
            _outputs(context, kernel)
            _grid(context, kernel)


def rewrite_signatures(context: Context, kernels: Sequence[ast.AST], reached: Sequence[ast.AST]) -> None:
    """Rewrite what the current dialect refuses since 0.3: `is`, lists and `*` in signatures, results in `nl.hbm`."""
    for node in reached:
        for item in ast.walk(node):
            if isinstance(item, ast.Compare):
                _identity(context, item)
    for kernel in kernels:
        if isinstance(kernel, FUNCTIONS):
            _parameters(context, kernel)
            _memory(context, kernel)


# -- signatures --------------------------------------------------------------------------------------------------------


def _identity(context: Context, node: ast.Compare) -> None:
    """`x is None` is `x == None`."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
        return
    other = node.comparators[0]
    if not isinstance(other, ast.Constant):
        return
    edits = context.edits
    start, end = edits.end(node.left), edits.start(other)
    between = edits.text[start:end]
    sign = "!=" if isinstance(node.ops[0], ast.IsNot) else "=="
    words = "is not" if sign == "!=" else "is"
    if " ".join(between.split()) != words:
        context.leave(27, node, "a comment or a line end stands in it")
        return
    context.done(27)
    edits.cut(node, start, end, f" {sign} ")


def _parameters(context: Context, kernel: Kernel) -> None:
    arguments = kernel.args
    for item in (*arguments.defaults, *arguments.kw_defaults):
        if isinstance(item, ast.List):
            context.done(28)
            inner = [context.edits.text_of(part) for part in item.elts]
            context.edits.replace(item, f"({', '.join(inner)}{',' if len(inner) == 1 else ''})")
    if arguments.kwonlyargs and arguments.vararg is None:
        values = [
            *[None] * (len(arguments.args) - len(arguments.defaults)),
            *arguments.defaults,
            *arguments.kw_defaults,
        ]
        given = [value is not None for value in values]
        if given != sorted(given):
            context.leave(28, kernel, "a parameter without a default would follow one with a default")
            return
        edits, first = context.edits, arguments.kwonlyargs[0]
        start = edits.start(first)
        star = edits.text.rindex("*", 0, start)
        if "#" in edits.text[star:start]:
            context.leave(28, kernel, "a comment stands behind the *")
            return
        context.done(28)
        edits.cut(kernel, star, start)


# -- outputs -----------------------------------------------------------------------------------------------------------


def _returns(kernel: Kernel) -> Iterator[ast.Return]:
    stack: list[ast.AST] = list(kernel.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def _memory(context: Context, kernel: Kernel) -> None:
    """Returned tensors lie in `nl.shared_hbm`."""
    for node in _returns(kernel):
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in values:
            found = context.names.definition(value) if isinstance(value, ast.Name) else None
            call = found[1] if found is not None else value
            for item in call.keywords if isinstance(call, ast.Call) else ():
                if item.arg == "buffer" and context.names.dotted(item.value) in (
                    f"{_LANGUAGE}.hbm",
                    f"{_LANGUAGE}.private_hbm",
                ):
                    context.done(30)
                    context.edits.replace(item.value, context.nl("shared_hbm"))


def _outputs(context: Context, kernel: Kernel) -> None:
    """A parameter that is written becomes a result of its shape: callers that keep the array copy the result there."""
    if any(item.value is not None for item in _returns(kernel)):
        return
    arguments = {item.arg for item in (*kernel.args.posonlyargs, *kernel.args.args)}
    written: dict[str, None] = {}
    for node in ast.walk(kernel):
        if not isinstance(node, ast.Call):
            continue
        name = context.names.dotted(node.func)
        targets: list[ast.expr] = []
        if name == f"{_LANGUAGE}.store":
            targets = [*node.args[:1], *(item.value for item in node.keywords if item.arg == "dst")]
        elif name.startswith("nki.isa."):
            targets = [item.value for item in node.keywords if item.arg == "dst"]
        for target in targets:
            base = target
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in arguments and context.names.definition(base) is None:
                written[base.id] = None
    if not written:
        return
    edits = context.edits
    results = {name: context.fresh(f"{name}_result") for name in written}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Name) and node.id in results and isinstance(node.ctx, ast.Load):
            if _is_shape(edits.parent(node)):
                continue
            edits.replace(node, results[node.id])
    body = kernel.body
    first = body[1] if _is_docstring(body[0]) and len(body) > 1 else body[0]
    for name, result in results.items():
        edits.before(
            first,
            f"{result} = {context.nl('ndarray')}({name}.shape, dtype={name}.dtype, buffer={context.nl('shared_hbm')})",
        )
    last = body[-1]
    if isinstance(last, ast.Return):
        edits.replace(last, f"return {', '.join(results.values())}")
    else:
        edits.after(last, f"return {', '.join(results.values())}")
    context.done(*[29] * len(results))
    _keep_results(context, kernel, list(written))


def _is_shape(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _keep_results(context: Context, kernel: Kernel, written: list[str]) -> None:
    """Copy the results where callers of this module keep them: `k(a, out)` is `out[...] = k(a, out)`."""
    order = [item.arg for item in (*kernel.args.posonlyargs, *kernel.args.args)]
    for node in ast.walk(context.edits.tree):
        if not isinstance(node, ast.Call) or not isinstance(context.edits.parent(node), ast.Expr):
            continue
        func, positional = node.func, node.args
        if context.names.called(node, "nki.simulate_kernel") and node.args:
            func, positional = node.args[0], node.args[1:]
        if isinstance(func, ast.Subscript):
            func = func.value
        while isinstance(func, ast.Call) and func.args:
            func = func.args[0]
        if not isinstance(func, ast.Name) or func.id != kernel.name or context.names.function(node) is kernel:
            continue
        given = dict(zip(order, positional, strict=False)) | {
            item.arg: item.value for item in node.keywords if item.arg
        }
        targets = [given.get(name) for name in written]
        if any(not isinstance(item, ast.Name) for item in targets):
            context.leave(29, node, "the array that it fills has no name")
            continue
        texts = [f"{context.edits.text_of(item)}[...]" for item in targets if item is not None]
        start = context.edits.start(node)
        statement = context.edits.statement(node)
        context.edits.cut(statement, start, start, f"{', '.join(texts)} = ")


# -- grids -------------------------------------------------------------------------------------------------------------


def _launches(context: Context, kernel: Kernel) -> list[ast.Subscript]:
    return [
        node
        for node in ast.walk(context.edits.tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == kernel.name
        and context.names.function(node) is not kernel
    ]


def _grid(context: Context, kernel: Kernel) -> None:
    """Programs of a grid are iterations of loops: the sizes of the grid become arguments."""
    launches = _launches(context, kernel)
    ids = [
        node
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call)
        and context.names.dotted(node.func) in (f"{_LANGUAGE}.program_id", f"{_LANGUAGE}.num_programs")
    ]
    if not launches or not ids:
        for node in launches:
            _plain_launch(context, node)
        return
    grids = [node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice] for node in launches]
    if any(_cores(context, grid) for grid in grids):
        for node, grid in zip(launches, grids, strict=True):
            cores = _cores(context, grid)
            if cores is None or len(grid) != 1:
                context.leave(35, node, "cores and programs are mixed in one grid")
            else:
                context.done(35)
                context.edits.replace(node.slice, cores)
        return
    ranks = {len(grid) for grid in grids}
    axes = [_axis(node) for node in ids]
    if len(ranks) != 1 or any(axis is None for axis in axes) or not _loops_fit(kernel, ids):
        context.leave(35, kernel, "its programs cannot be told from what they share")
        return
    rank = ranks.pop()
    counts = [context.fresh(f"programs_{place}") for place in range(rank)]
    loops = [context.fresh(f"program_{place}") for place in range(rank)]
    span = _span(kernel, ids)
    if span is None or any(axis is not None and axis >= rank for axis in axes):
        context.leave(35, kernel, "its programs cannot be told from what they share")
        return
    for program, axis in zip(ids, axes, strict=True):
        assert axis is not None
        names = loops if context.names.dotted(program.func).endswith("program_id") else counts
        context.edits.replace(program, names[axis])
    context.edits.wrap(*span, [f"for {loop} in range({count}):" for loop, count in zip(loops, counts, strict=True)])
    _add_parameters(context, kernel, counts)
    for node, grid in zip(launches, grids, strict=True):
        call = context.edits.parent(node)
        sizes = [context.edits.text_of(item) for item in grid]
        context.edits.replace(node, context.edits.text_of(node.value))
        more = ", ".join(f"{name}={size}" for name, size in zip(counts, sizes, strict=True))
        if isinstance(call, ast.Call) and call.func is node:
            end = context.edits.end(call) - 1
            before = context.edits.text[:end].rstrip()
            comma = "" if before.endswith(("(", ",")) else ", "
            context.edits.cut(call, end, end, f"{comma}{more}")
        elif isinstance(call, ast.Call) and context.names.called(call, "nki.simulate_kernel"):
            context.extra[id(call)] = more
        else:
            context.leave(35, node, "the kernel with its grid is handed on: pass the sizes where it is called")
    context.done(35)


def _plain_launch(context: Context, node: ast.Subscript) -> None:
    """A grid of a kernel that asks for no program: the brackets may hold a number of cores only."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) > 1:
        context.leave(35, node, "every program of the grid does the same")


def _cores(context: Context, grid: Sequence[ast.expr]) -> str | None:
    """Return the number of cores of a grid `nl.nc(2)`; None for one of programs."""
    for item in grid:
        for part in ast.walk(item):
            if context.names.called(part, f"{_LANGUAGE}.nc") and isinstance(part, ast.Call) and part.args:
                return context.edits.text_of(part.args[0]) if part is item else "0"
    return None


def _axis(node: ast.Call) -> int | None:
    value = (
        node.args[0]
        if node.args
        else next((item.value for item in node.keywords if item.arg in ("axis", "axes")), None)
    )
    if value is None:
        return 0 if not node.args and not node.keywords else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def _loops_fit(kernel: Kernel, ids: Sequence[ast.AST]) -> bool:
    """Return whether all program ids stand in the kernel itself."""
    inner = [item for item in ast.walk(kernel) if isinstance(item, FUNCTIONS) and item is not kernel]
    return not any(node in set(ast.walk(item)) for item in inner for node in ids)


def _span(kernel: Kernel, ids: Sequence[ast.AST]) -> tuple[ast.stmt, ast.stmt] | None:
    """Return the first and the last statement of what each program does; None where results are made among them."""
    body = kernel.body
    holds = [any(node in ids for node in ast.walk(statement)) for statement in body]
    start = holds.index(True)
    end = len(body) - 1
    if isinstance(body[end], ast.Return):
        end -= 1
    if end < start or any(isinstance(node, ast.Return) for item in body[start : end + 1] for node in ast.walk(item)):
        return None
    bound = {
        node.id
        for item in body[start : end + 1]
        for node in ast.walk(item)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = {node.id for item in body[end + 1 :] for node in ast.walk(item) if isinstance(node, ast.Name)}
    if bound & read:
        return _hoisted(body, start, end, ids, bound & read)
    return body[start], body[end]


def _hoisted(
    body: Sequence[ast.stmt], start: int, end: int, ids: Sequence[ast.AST], results: set[str]
) -> tuple[ast.stmt, ast.stmt] | None:
    """Return the statements behind the creation of the results, where what stands before can be done once as well."""
    last = max(
        place
        for place in range(start, end + 1)
        if any(
            isinstance(node, ast.Name) and node.id in results and isinstance(node.ctx, ast.Store)
            for node in ast.walk(body[place])
        )
    )
    pure = all(isinstance(item, ast.Assign | ast.Expr) for item in body[start : last + 1])
    if not pure or any(node in ids for item in body[start : last + 1] for node in ast.walk(item)):
        return None
    return (body[last + 1], body[end]) if last < end else None


def _add_parameters(context: Context, kernel: Kernel, names: Sequence[str]) -> None:
    edits, arguments = context.edits, kernel.args
    items = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    text = ", ".join(f"{name}=1" for name in names)
    if not items:
        return
    defaults = [item for item in (*arguments.defaults, *arguments.kw_defaults) if item is not None]
    end = max([edits.end(item) for item in (*items, *defaults)])
    edits.cut(kernel, end, end, f", {text}")
