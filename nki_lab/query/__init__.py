"""Answers about source text for editors and the command line: findings, hovers, explanations.

Pure functions of text. Nothing of the user's is executed or imported; kernels are evaluated within a budget.
"""

from nki_lab.query.checking import Document, Examination, check
from nki_lab.query.completion import completions, signature_help
from nki_lab.query.configuration import Configuration, Selection, configuration_of, library
from nki_lab.query.fixes.quick_fixes import QuickFix, quick_fixes
from nki_lab.query.hovers import findings_text, hover
from nki_lab.query.one_kernel import STEPS, EvaluationRequest
from nki_lab.query.pages import explain

__all__ = [
    "STEPS",
    "Configuration",
    "Document",
    "EvaluationRequest",
    "Examination",
    "QuickFix",
    "Selection",
    "check",
    "completions",
    "configuration_of",
    "explain",
    "findings_text",
    "hover",
    "library",
    "quick_fixes",
    "signature_help",
]
