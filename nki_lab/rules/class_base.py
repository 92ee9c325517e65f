"""NKI112: a class that kernel code instantiates and that is not made for NKI."""

from __future__ import annotations

import ast
import builtins
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts

_FOREIGN: Final = frozenset(
    {
        "object",
        "abc.ABC",
        "typing.Generic",
        "typing.NamedTuple",
        "typing.Protocol",
        "typing.TypedDict",
        "typing_extensions.NamedTuple",
        "typing_extensions.Protocol",
        "typing_extensions.TypedDict",
    }
)


@syntax_rule("NKI112")
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each class of this module that has several bases, or known ones and no NKIObject or Enum."""
    for item in facts.classes:
        several = len(item.node.bases) > 1 and not any(ast.unparse(base).endswith("Enum") for base in item.node.bases)
        if several or (item.roots and all(_is_foreign(root) for root in item.roots)):
            first = min(item.instantiations, key=lambda call: (call.lineno, call.col_offset))
            fault = f"inherits from {len(item.node.bases)} classes" if several else "does not inherit from NKIObject"
            yield facts.report(
                "NKI112",
                facts.name_span(item.node),
                f"the class {item.node.name} is used in a kernel and {fault}",
                limit="a class used in a kernel inherits from nl.NKIObject alone, or from Enum",
                use=f"class {item.node.name}(nl.NKIObject): ...",
                related=[Related(f"a kernel makes a {item.node.name} here", facts.span(first))],
            )


def _is_foreign(root: str) -> bool:
    """Whether the base is known not to be NKI's. Exceptions are left to the finding on `raise`."""
    known = getattr(builtins, root, None) if root.isidentifier() else None
    if isinstance(known, type):
        return not issubclass(known, BaseException)
    return root in _FOREIGN
