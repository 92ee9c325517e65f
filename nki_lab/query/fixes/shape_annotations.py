"""Annotations for the tensors of kernels whose shapes nothing gives: a template whose numbers the author edits."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span, character_at
from nki_lab.kernel_runtime.interpreter import tensor_parameters
from nki_lab.source.trees import FUNCTIONS, first_line

_SIZES: Final = (512, 128, 2, 2, 2)
"""Sizes of the template, the last dimension first."""
_TYPING: Final = "nki.typing"

Edit = tuple[Span, str]


def shape_annotations(found: Diagnostic, lines: Sequence[str]) -> list[Edit]:
    """Return the edits that annotate the tensors of the kernels that an NKI121 finding names, and import `nki.typing`.

    There are none where the text does not parse, or the kernels take no tensors.
    """
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    wanted = {found.line, *(item.span.line for item in found.related if item.span is not None)}
    kernels = [node for node in tree.body if isinstance(node, FUNCTIONS) and node.lineno in wanted]
    if not kernels:
        return []
    name, importing = _typing_of(tree, kernels[0], found.file)
    edits = [edit for node in kernels for edit in _annotations(node, f"{name}.tensor", lines, found.file)]
    return [*edits, *importing] if edits else []


def _annotations(
    node: ast.FunctionDef | ast.AsyncFunctionDef, kind: str, lines: Sequence[str], file: str
) -> Iterator[Edit]:
    """Yield the annotations of a kernel: of parameters that its text takes for tensors, else of those handed on."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    ranks = tensor_parameters(node)
    if not ranks:
        handed = {id(value) for call in ast.walk(node) if isinstance(call, ast.Call) for value in _arguments(call)}
        names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and id(item) in handed}
        ranks = {arg.arg: 2 for arg in needed if arg.annotation is None and arg.arg in names}
    for arg in (*positional, *arguments.kwonlyargs):
        if arg.arg not in ranks:
            continue
        sizes = [_SIZES[min(dim, len(_SIZES) - 1)] for dim in reversed(range(ranks[arg.arg]))]
        text = f"{kind}[{', '.join(map(str, sizes))}]"
        if arg.annotation is None:
            end = _span(arg, lines, file)
            yield Span(file, end.end_line, end.end_column, end.end_line, end.end_column), f": {text}"
        else:
            yield _span(arg.annotation, lines, file), text


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


def _typing_of(tree: ast.Module, kernel: ast.stmt, file: str) -> tuple[str, list[Edit]]:
    """Return the name of `nki.typing` in a module, and the edit that imports it where nothing does."""
    above = [
        node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < kernel.lineno
    ]
    home = ""
    for node in above:
        for item in node.names:
            path = item.name if isinstance(node, ast.Import) else f"{node.module or ''}.{item.name}"
            home = home or ("neuronxcc." if path.startswith("neuronxcc.nki") else "")
            if path.removeprefix("neuronxcc.") == _TYPING and (item.asname or isinstance(node, ast.ImportFrom)):
                return item.asname or item.name, []
    taken = {part for node in ast.walk(tree) for part in (getattr(node, "id", ""), getattr(node, "asname", ""))}
    taken |= {str(getattr(node, "arg", "")) for node in ast.walk(tree)} | {
        getattr(node, "name", "") for node in tree.body
    }
    name = "nt" if "nt" not in taken else "nki_typing"
    line = (above[-1].end_lineno or above[-1].lineno) + 1 if above else first_line(kernel)
    return name, [(Span(file, line, 1, line, 1), f"import {home}{_TYPING} as {name}\n")]


def _span(node: ast.expr | ast.arg, lines: Sequence[str], file: str) -> Span:
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return Span(
        file,
        node.lineno,
        character_at(lines[node.lineno - 1], node.col_offset) + 1,
        end_line,
        character_at(lines[end_line - 1], end) + 1,
    )
