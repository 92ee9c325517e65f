"""Assembly of the interpreter: the modules imported here enter their nodes, functions and methods."""

from __future__ import annotations

from nki_lab.kernel_runtime.interpreter import definitions, exceptions, expressions, loops, statements
from nki_lab.kernel_runtime.interpreter.builtins import functions, standard_library
from nki_lab.kernel_runtime.interpreter.builtins.launching_libraries import host_modules
from nki_lab.kernel_runtime.interpreter.builtins.numpy_functions import numpy_namespace
from nki_lab.kernel_runtime.interpreter.interpreter import Interpreter
from nki_lab.kernel_runtime.interpreter.limits import Budget, FunctionExit, OverBudget, PendingException, budget_reached
from nki_lab.kernel_runtime.interpreter.module_finder import NOTEBOOK, ModuleFinder
from nki_lab.kernel_runtime.interpreter.namespaces import Imports
from nki_lab.kernel_runtime.interpreter.values import Namespace
from nki_lab.kernel_runtime.issue.context import evaluation
from nki_lab.source.module import ModuleSource

NODES = (definitions, exceptions, expressions, loops, statements)
FUNCTIONS = (functions, standard_library)


def assemble(
    module: ModuleSource, budget: Budget, *, host: bool = False, library: ModuleFinder | None = None
) -> Interpreter:
    """Return an interpreter for `module`, with `host` for code that launches kernels."""
    given = host_modules() if host else {"numpy": numpy_namespace({})}
    if host and library is not None:  # a kernel takes arrays as arguments only
        given[NOTEBOOK] = Namespace(NOTEBOOK, library.arrays)
    return Interpreter(module, budget, Imports(given), run=statements.run_module, host=host, library=library)


def run_module(interpreter: Interpreter) -> bool:
    """Evaluate the statements of the module; where the budget ends, the names after it are unknown.

    Returns whether it has not ended.
    """
    try:
        with evaluation():
            statements.run_module(interpreter.base)
    except (FunctionExit, PendingException):
        return True
    except OverBudget as end:
        interpreter.guards = 0
        interpreter.record(
            budget_reached(f"the module's own statements are evaluated up to {end.reason}"), end.node, interpreter.base
        )
        return False
    except RecursionError:
        interpreter.guards = 0
        interpreter.record(budget_reached("the module is nested too deeply to be evaluated"), None, interpreter.base)
    return True
