"""A `%%nki` cell: its source under a name of its own, what is found in it before it runs, and its run."""

from __future__ import annotations

import ast
import itertools
import linecache
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import numpy as np
from IPython.core.interactiveshell import InteractiveShell

from nki_lab.call_records.recorder import recorder
from nki_lab.call_records.store import CallRecord
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.interpreter import NOTEBOOK, spec_of
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.magic.notebook_context import NotebookContext
from nki_lab.own_faults import OWN_FAULT
from nki_lab.source.module import ModuleSource, keep, tree_of
from nki_lab.source.scopes import bound_by

_CONSTANTS: Final = (bool, int, float, complex, str, type(None))
_LONGEST: Final = 200  # characters of a constant that is handed to the check
_DIALECTS: Final = ("nki", "neuronxcc")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STEPS: Final = 800_000
"""Steps that the check before a run may take for one signature of a kernel; the run checks the rest."""


@dataclass(slots=True)
class Cell:
    """The code of a cell. Line 1 of `text` is the magic's as a comment, so that lines count as the cell shows them."""

    source: ModuleSource
    number: int
    tree: ast.Module = field(repr=False)
    statements: CodeType = field(repr=False)
    value: CodeType | None = field(repr=False)
    """The last line, where it is an expression."""

    @property
    def name(self) -> str:
        """The name that stands for a file's."""
        return self.source.file

    @property
    def text(self) -> str:
        """The code."""
        return self.source.text

    def functions(self) -> list[str]:
        """The functions that the cell defines, by name."""
        return [node.name for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    def kernels(self) -> set[str]:
        """The functions of the cell that have decorators."""
        return {node.name for node in self.tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}

    def runs_all(self) -> bool:
        """Whether each kernel of the cell is named by a statement that runs with the cell."""
        parts = [node for node in self.tree.body if not isinstance(node, _DEFINITIONS)]
        named = {one.id for node in parts for one in ast.walk(node) if isinstance(one, ast.Name)}
        kernels = self.kernels()
        # Functions without decorators are helpers beside kernels; alone they may be kernels.
        return kernels <= named and bool(kernels or len(parts) == len(self.tree.body))


def read(shell: InteractiveShell, line: str, body: str) -> Cell:
    """The cell of a magic's line and body, known to tracebacks and `inspect.getsource`; SyntaxError for no Python."""
    # IPython drops empty lines at the beginning; lines would count from somewhere else then.
    empty = len(body[: len(body) - len(body.lstrip())].split("\n")) - 1
    text = f"# %%nki {line}".rstrip() + "\n" * (1 + empty) + shell.transform_cell(body)
    number = running_number(shell)
    name = _enter(shell, text, number)
    source = ModuleSource(text, name, tree_of(text, name, quiet=False, compiled=True))
    keep(source)  # the same text may stand under this name with what it meant before
    # Whatever the user has IPython do to trees is done to another one: this one is shared.
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name)) if shell.ast_transformers else source.tree
    return Cell(source, number, tree, *_compiled(tree, name, shell))


def _compiled(tree: ast.Module, name: str, shell: InteractiveShell) -> tuple[CodeType, CodeType | None]:
    """Return the code of a cell's statements, and of its last line where that is an expression."""
    body = list(tree.body)
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and shell.ast_node_interactivity != "none" else None
    statements = shell.compile(ast.Module(body, tree.type_ignores), name, "exec")
    value = shell.compile(ast.Expression(last.value), name, "eval") if isinstance(last, ast.Expr) else None
    return statements, value


def running_number(shell: InteractiveShell) -> int:
    """The number of the cell that runs, as its prompt has it: some versions of IPython count on before they run it."""
    frame = sys._getframe()
    while (above := frame.f_back) is not None:
        frame = above
        result = frame.f_locals.get("result") if frame.f_code.co_name == "run_cell_async" else None
        number = getattr(result, "execution_count", None)
        if isinstance(number, int):
            return number
    return int(shell.execution_count)


def _enter(shell: InteractiveShell, text: str, number: int) -> str:
    """Make the text readable under a name that no other text has; IPython then says `Cell In[number]` for it."""
    lines = text.splitlines(keepends=True)
    for again in itertools.count(1):
        name = f"<nki-cell-{number}>" if again == 1 else f"<nki-cell-{number}-{again}>"
        known = linecache.cache.get(name)
        if known is None or known[2:3] == (lines,):
            break
    linecache.cache[name] = (len(text), None, lines, name)
    names = getattr(shell.compile, "_filename_map", None)  # what `CachingCompiler.cache` fills for ordinary cells
    if isinstance(names, dict):
        names[name] = number
    return name


def check(
    cell: Cell, namespace: Mapping[str, object], arch: Arch, *, judged: bool = True
) -> tuple[list[Diagnostic], float]:
    """Return the findings in the cell, which is not run, and the seconds of the check.

    Modules, arrays and constants of the notebook that the cell names are known by what they are now, functions and
    classes by their texts. Unless `judged`, programs are not judged as a whole: a run will.
    """
    from nki_lab.magic import checking  # loads the checker

    start = time.perf_counter()
    context = NotebookContext(namespace, meanings)
    head = "; ".join(meanings(cell.source.tree, namespace, context))
    keep(cell.source.under(head, line=1))  # what a run says of a place is what this check says
    found = checking.findings(
        checking.Question(
            cell=checking.Text(cell.text, cell.name, head),
            target=arch.target,
            steps=_STEPS,
            judged=judged,
            folder=str(Path.cwd()),
            paths=tuple(item for item in sys.path if item),
            cells=context.modules,
            arrays=context.arrays,
            recorded={} if cell.runs_all() else _recorded(cell),
        )
    )
    return [item for item in found if item.line != 1 or item.code == OWN_FAULT], time.perf_counter() - start


def _recorded(cell: Cell) -> dict[str, tuple[CallRecord, ...]]:
    """Return how functions with the names of the cell's were called in the notebook so far."""
    found = {name: recorder.calls(name, on_disk=False) for name in cell.functions()}
    return {name: calls for name, calls in found.items() if calls}


def meanings(tree: ast.Module, namespace: Mapping[str, object], context: NotebookContext) -> list[str]:
    """Return the statements that bind the names that a cell takes from the notebook, for the line above its first one.

    Arrays are entered in `context`. What only a run can know is imported from nowhere: it is unknown.
    """
    # A cell may change what it reads, `a = a.T`; then the name's first meaning is still the notebook's.
    bound = {name for node in tree.body for name in bound_by(node)}
    read = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    statements, unknown = [], []
    for name in read:
        if name in namespace and name not in bound:
            value = namespace[name]
            spec = _spec(value)
            statement = "" if spec else context.statement(name, value) or _meaning(name, value)
            if spec:
                context.arrays[name] = spec
            if statement:
                statements.append(statement)
            else:
                unknown.append(name)
    return [*statements, *([f"from {NOTEBOOK} import {', '.join(unknown)}"] if unknown else [])]


def _spec(value: object) -> TensorSpec | None:
    """Return the shape and dtype of an array; None for another value."""
    # Reading a shape runs nothing of the user's in arrays; in an object of a class of theirs it might.
    is_array = isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] in ("torch", "jax", "jaxlib")
    return spec_of(value) if is_array else value if isinstance(value, TensorSpec) else None


def _meaning(name: str, value: Any) -> str:
    """Return the statement that binds `name` to a module, a constant or a name of NKI; "" for another value."""
    if isinstance(value, ModuleType):
        is_path = all(part.isidentifier() for part in value.__name__.split("."))
        return f"import {value.__name__} as {name}" if is_path else ""
    if _is_constant(value) and len(repr(value)) <= _LONGEST:
        return f"{name} = {value!r}"
    module = getattr(type(value) if not callable(value) else value, "__module__", None)
    home = _home(value) if isinstance(module, str) else ""
    return f"{home} as {name}" if home else ""


def _is_constant(value: object) -> bool:
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return len(value) <= _LONGEST and all(_is_constant(item) for item in value)
    if type(value) is float:
        return math.isfinite(value)  # the others have no literal
    return type(value) in _CONSTANTS


def _home(value: object) -> str:
    """The import of a name of the dialects, NumPy or ml_dtypes that is `value`; "" for anything else."""
    name = getattr(value, "__name__", None)
    if isinstance(value, type) and value.__module__ in ("numpy", "ml_dtypes") and isinstance(name, str):
        return f"from {value.__module__} import {name}"
    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] in _DIALECTS and module is not None:
            for key, item in list(vars(module).items()):
                if item is value and key.isidentifier() and not key.startswith("_"):
                    return f"from {path} import {key}"
    return ""


def execute(cell: Cell, shell: InteractiveShell) -> object:
    """Run the cell in the notebook's namespace; gives the value of its last line where that is an expression."""
    __tracebackhide__ = True
    spaces = shell.user_global_ns, shell.user_ns
    exec(cell.statements, *spaces)
    return None if cell.value is None else eval(cell.value, *spaces)
