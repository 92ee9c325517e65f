"""NKI109 and NKI114: a bare `*` among the parameters of a kernel, and a list as the default of a parameter."""

from __future__ import annotations

import ast
import re
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FunctionNode

_STAR_OR_COMMENT: Final = re.compile(r"#.*|(\*)")


@syntax_rule("NKI109")
def check_star(facts: SyntaxFacts) -> Findings:
    """Yield one finding at the `*` of each kernel that has one. Helpers are inlined calls and may have it."""
    for node in facts.kernels:
        if node.args.kwonlyargs and node.args.vararg is None:
            names = ", ".join(arg.arg for arg in node.args.kwonlyargs)
            yield facts.report(
                "NKI109",
                _star(facts, node),
                f"the kernel {node.name} takes {names} by keyword only",
                limit="a kernel's signature has no bare *",
                use="remove the *, and move parameters with defaults to the end",
            )


@syntax_rule("NKI114")
def check_defaults(facts: SyntaxFacts) -> Findings:
    """Yield one finding at each list default in the signature of a kernel. Helpers may take lists."""
    for node in facts.kernels:
        positional = [*node.args.posonlyargs, *node.args.args]
        last = positional[len(positional) - len(node.args.defaults) :]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for parameter, default in zip([*last, *node.args.kwonlyargs], defaults, strict=True):
            if isinstance(default, ast.List | ast.ListComp):
                yield facts.report(
                    "NKI114",
                    default,
                    f"the parameter {parameter.arg} of the kernel {node.name} defaults to a list",
                    limit="a kernel argument is a tensor or an immutable constant",
                    use="write a tuple: (1, 1)",
                )


def _star(facts: SyntaxFacts, node: FunctionNode) -> Span:
    """Return the place of the `*`: the syntax tree has none, so it is sought between its neighbours."""
    before = [*node.args.posonlyargs, *node.args.args, *node.args.defaults, *getattr(node, "type_params", ())]
    ends = [(item.end_lineno or 0, item.end_col_offset or 0) for item in before]
    first = node.args.kwonlyargs[0]
    line, column = max(ends, default=(node.lineno, node.col_offset))
    start = facts.character(line, column)
    for number in range(line, first.lineno + 1):
        text = facts.line(number)
        stop = facts.character(number, first.col_offset) if number == first.lineno else len(text)
        for found in _STAR_OR_COMMENT.finditer(text, start, stop):
            if found.group(1):
                return Span(facts.file, number, found.start() + 1, number, found.end() + 1)
        start = 0
    return facts.span(first)
