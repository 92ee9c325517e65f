"""What editors and the command line ask about source text: findings, hovers, explanations.

Pure functions of text. Nothing of the user's is executed or imported; kernels are evaluated within a budget.
"""

from nki_lab.query.checking import check
from nki_lab.query.configuration import Configuration, configuration_of, library
from nki_lab.query.document import Document, Examination
from nki_lab.query.fixes.quick_fixes import QuickFix, quick_fixes
from nki_lab.query.hovers import findings_text, hover
from nki_lab.query.kernels import EvaluationRequest
from nki_lab.query.names import explain
from nki_lab.query.selecting import Selection

__all__ = [
    "Configuration",
    "Document",
    "EvaluationRequest",
    "Examination",
    "QuickFix",
    "Selection",
    "check",
    "configuration_of",
    "explain",
    "findings_text",
    "hover",
    "library",
    "quick_fixes",
]
