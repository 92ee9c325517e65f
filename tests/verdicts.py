"""What the tracer and the evaluator each say about one kernel, in a form that can be compared."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from nki_lab import session, spec
from nki_lab.diagnostic import Diagnostic, NkiError, Span
from nki_lab.kernel_runtime.interpreter import Budget, Evaluation, ModuleSource, Signature, evaluate

KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Verdict:
    """The first fault, or the whole program of a kernel without one."""

    code: str = ""
    span: Span | None = None
    program: str = ""

    @classmethod
    def of_fault(cls, item: Diagnostic) -> Verdict:
        return cls(code=item.code, span=item.span)


def corpus() -> list[str]:
    """The kernels of tests/kernels, by file name."""
    return sorted(file.stem for file in KERNELS.glob("*.py"))


def kernel_file(name: str) -> Path:
    return KERNELS / f"{name}.py"


def loaded(file: Path, text: str | None = None) -> ModuleType:
    """A module, executed; with `text`, of a file that does not exist."""
    name = f"loaded_{file.stem}"
    if text is None:
        found = importlib.util.spec_from_file_location(name, file)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module
        found.loader.exec_module(module)
        return module
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    module = sys.modules[name] = ModuleType(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # snippets are odd on purpose
        code = compile(text, str(file), "exec")
    exec(code, vars(module))
    return module


def traced(
    function: Callable[..., Any], arguments: tuple[Any, ...], target: str, *, dialect: Any = "current",
    grid: tuple[int, ...] = (),
) -> Verdict:  # fmt: skip
    """What running the kernel as Python, over tensors without values, says."""
    plain = getattr(function, "function", function)
    try:
        program, _ = session.specialise(session.Launch(plain, target, dialect=dialect, grid=grid), arguments)
    except NkiError as error:
        return Verdict.of_fault(error.diagnostics[0])
    return Verdict(program=program.text())


def evaluated(text: str, file: Path, arguments: tuple[Any, ...], target: str, *, dialect: str = "current",
              grid: tuple[int, ...] = (), budget: Budget | None = None, name: str = "kernel",
              ) -> tuple[Verdict, Evaluation]:  # fmt: skip
    """What the evaluator says, and all that it found."""
    made = evaluate(
        ModuleSource.parse(text, str(file)), name, Signature(args=arguments, grid=grid), arch=target,
        dialect=dialect, budget=budget,
    )  # fmt: skip
    faults = [item for item in made.diagnostics if item.outcome == "fault"]
    return (Verdict.of_fault(faults[0]) if faults else Verdict(program=made.program.text())), made


def missed(made: Evaluation) -> list[str]:
    """What the evaluator says that it has not looked at."""
    return [f"{item.code} {item.message}" for item in made.diagnostics if item.code in ("NKI120", "NKI121", "NKI122")]


SNIPPET_HEAD = """import functools
import math
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from functools import partial

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

"""
_numbers = count()


def agreed(body: str, module: str = "") -> Verdict:
    """The verdict of tracer and evaluator on a kernel with this body, the same and complete."""
    text = f"{SNIPPET_HEAD}{module}\ndef kernel(x, n=3):\n{textwrap.indent(body, '    ')}\n"
    file = Path(f"snippet_{next(_numbers)}.py")
    arguments = (spec((128, 64), "float32"),)
    run = traced(loaded(file, text).kernel, arguments, "trn2")
    seen, made = evaluated(text, file, arguments, "trn2")
    assert seen == run
    assert not missed(made)
    return run
