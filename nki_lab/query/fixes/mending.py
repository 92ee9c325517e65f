"""Chooses the findings of a file that are mended: those with one exact remedy, as far as that brings no error along.

`nki-lab check --fix` and the editor's "fix all" both ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.query.fixes.source_fixes import FIXABLE, FixedTexts, fixed_texts, new_error

MOST_FIXES: Final = 10
"""Most rounds in which a file is fixed and checked again: an edit may uncover what the next one fixes."""
MOST_EXAMINED: Final = 40
"""Most examinations of one file while it is fixed: fixes that fail together are tried in parts."""

S = TypeVar("S")
Texts = tuple[str, ...]


class Mending(Generic[S]):
    """The rounds in which the findings of one file, or of the cells of a notebook, are fixed.

    `examine` looks at new texts, and `findings` gives what it saw. Afterwards `texts` and `seen` are the new ones,
    after `count` edits. `left` has the findings whose fixes would bring an error along, by code, message and line,
    each with that error.
    """

    def __init__(
        self, texts: Texts, seen: S, examine: Callable[[Texts], S], findings: Callable[[S], Sequence[Diagnostic]]
    ) -> None:
        self.texts, self.seen, self.count = texts, seen, 0
        self.left: dict[tuple[str, str, int], tuple[Diagnostic, Diagnostic]] = {}
        self._examine = examine
        self._findings = findings
        self._examinations = MOST_EXAMINED

    def run(self) -> None:
        """Fix what can be fixed; an edit may uncover what the next round fixes. Raises NKI022 without libcst."""
        for _ in range(MOST_FIXES):
            found = self._findings(self.seen)
            wanted = [item for item in found if item.code in FIXABLE and _name(item) not in self.left]
            if not self._mend(found, wanted):
                break
        remaining = set(map(_name, self._findings(self.seen)))
        self.left = {name: item for name, item in self.left.items() if name in remaining}

    def _mend(self, found: Sequence[Diagnostic], wanted: Sequence[Diagnostic]) -> bool:
        """Apply the fixes that bring no error along; return whether there are any.

        Of `wanted` that fail together the halves are tried.
        """
        sure: list[Diagnostic] = []
        kept: tuple[FixedTexts, S] | None = None
        stack = [list(wanted)]
        while stack and self._examinations:
            group = stack.pop()
            after = fixed_texts(self.texts, [*sure, *group])
            if after is None or (kept is not None and after.texts == kept[0].texts):
                continue
            self._examinations -= 1
            later = self._examine(after.texts)
            worse = new_error(found, self._findings(later))
            if worse is None:
                sure += group
                kept = after, later
            elif len(group) == 1:
                self.left[_name(group[0])] = group[0], worse
            else:
                half = len(group) // 2
                stack += [group[half:], group[:half]]
        if kept is None:
            return False
        self.texts, self.seen = kept[0].texts, kept[1]
        self.count += kept[0].count
        return True


def _name(item: Diagnostic) -> tuple[str, str, int]:
    return item.code, item.message, item.line
