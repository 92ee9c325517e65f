"""Source analysis: text to tree, half-typed text too; names and their scopes; kernel code; places; comments to obey.

A text is parsed once under the name of its file (`parsed`), and its readers share the tree: the rules, the evaluator,
the tracer, the editor's queries, the cells of a notebook. Nothing of it is executed.
"""

from __future__ import annotations

from nki_lab.source.facts import SyntaxFacts, facts_of, known_facts, syntax_facts
from nki_lab.source.kernel_code import Dialect, KernelClass, KernelFunction
from nki_lab.source.module import PARSER_FAILURES, ModuleSource, module_at, parsed

__all__ = [
    "PARSER_FAILURES",
    "Dialect",
    "KernelClass",
    "KernelFunction",
    "ModuleSource",
    "SyntaxFacts",
    "facts_of",
    "known_facts",
    "module_at",
    "parsed",
    "syntax_facts",
]
