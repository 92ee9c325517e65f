"""The safe evaluator: NKI's meta-language, interpreted over the syntax tree.

It uses the tracer's tensors, functions and `Builder.issue`, so that its findings are the tracer's; it executes and
imports nothing of the user's. What it does not know is unknown, and silent; what it cannot finish, it says.
"""

from nki_lab.kernel_runtime.interpreter.assumptions import OTHER_DTYPES, VARIANTS, Assumptions, Demand
from nki_lab.kernel_runtime.interpreter.evaluation import Evaluation, evaluate
from nki_lab.kernel_runtime.interpreter.intake import Signature, TileSpec, spec_of
from nki_lab.kernel_runtime.interpreter.interpreter import REACHED
from nki_lab.kernel_runtime.interpreter.known_calls import KnownCalls
from nki_lab.kernel_runtime.interpreter.limits import Budget, Stopped
from nki_lab.kernel_runtime.interpreter.module_finder import NOTEBOOK, Buffer, ModuleFinder, Reads, site_folders
from nki_lab.kernel_runtime.interpreter.module_states import ModuleStates
from nki_lab.kernel_runtime.interpreter.namespaces import beta1_dialect
from nki_lab.kernel_runtime.interpreter.observing import observed
from nki_lab.kernel_runtime.interpreter.parameter_uses import tensor_parameters
from nki_lab.kernel_runtime.interpreter.signatures import HostRun, Launches, best, launches
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, EnumMember, Instance, UserClass, modest
from nki_lab.kernel_runtime.interpreter.variables import Variable
from nki_lab.source.module import ModuleSource

__all__ = [
    "NOTEBOOK",
    "OTHER_DTYPES",
    "REACHED",
    "UNKNOWN",
    "VARIANTS",
    "Assumptions",
    "Budget",
    "Buffer",
    "Demand",
    "EnumMember",
    "Evaluation",
    "HostRun",
    "Instance",
    "KnownCalls",
    "Launches",
    "ModuleFinder",
    "ModuleSource",
    "ModuleStates",
    "Reads",
    "Signature",
    "Stopped",
    "TileSpec",
    "UserClass",
    "Variable",
    "best",
    "beta1_dialect",
    "evaluate",
    "launches",
    "modest",
    "observed",
    "site_folders",
    "spec_of",
    "tensor_parameters",
]
