"""The safe evaluator: NKI's meta-language, interpreted over the syntax tree.

It uses the tracer's tensors, functions and `Builder.issue`, so that its findings are the tracer's; it executes and
imports nothing of the user's. What it does not know is unknown, and silent; what it cannot finish, it says.
"""

from nki_lab.kernel_runtime.frontend.evaluator.evaluation import Evaluation, Variable, evaluate
from nki_lab.kernel_runtime.frontend.evaluator.intake import Signature, spec_of
from nki_lab.kernel_runtime.frontend.evaluator.interpreter import REACHED
from nki_lab.kernel_runtime.frontend.evaluator.limits import Budget, Stopped
from nki_lab.kernel_runtime.frontend.evaluator.module_finder import NOTEBOOK, Library, Reads, site_folders
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import legacy_dialect
from nki_lab.kernel_runtime.frontend.evaluator.signatures import Launches, launches, signatures
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, EnumMember, Instance
from nki_lab.source.module import ModuleSource

__all__ = [
    "NOTEBOOK",
    "REACHED",
    "UNKNOWN",
    "Budget",
    "EnumMember",
    "Evaluation",
    "Instance",
    "Launches",
    "Library",
    "ModuleSource",
    "Reads",
    "Signature",
    "Stopped",
    "Variable",
    "evaluate",
    "launches",
    "legacy_dialect",
    "signatures",
    "site_folders",
    "spec_of",
]
