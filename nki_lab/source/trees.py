"""Walking syntax trees, quickly: a large module has a hundred thousand nodes, and they are walked at each keystroke."""

from __future__ import annotations

import ast
import sys
from typing import Final

# Fields that hold no node, or one that says nothing: contexts and operators.
_SILENT: Final = frozenset({
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "n", "name", "op", "ops",
    "rest", "s", "simple", "type_comment", "type_ignores",
})  # fmt: skip
_SPEAKING: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.Name: (),
    ast.Constant: (),
}
if sys.version_info >= (3, 12):
    _SPEAKING[ast.TypeAlias] = ("name", "type_params", "value")


def children(node: ast.AST) -> list[ast.AST]:
    """The child nodes in the order of their fields, but for contexts and operators."""
    kind = type(node)
    names = _SPEAKING.get(kind)
    if names is None:
        # The `name` of an `except` handler and of a pattern is a text.
        names = _SPEAKING[kind] = tuple(name for name in kind._fields if name not in _SILENT)
    found: list[ast.AST] = []
    for name in names:
        # Not vars(node): tools that explain tracebacks set attributes at nodes, and the parser shares some of them.
        value = getattr(node, name, None)
        if type(value) is list:
            found += value if name not in _MIXED else [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


_MIXED: Final = frozenset({"names", "keys", "kw_defaults", "kwd_attrs"})
"""Lists that may hold something else than nodes: names of `global`, the missing keys of `**` in a dictionary."""
