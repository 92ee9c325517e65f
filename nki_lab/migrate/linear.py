"""Sums of integers and of texts times integers: what index arithmetic of the source comes to, as new source."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_ATOM: Final = re.compile(r"[\w.]+(\[[\w., :]*\]|\([^()]*\))*")


@dataclass(frozen=True, slots=True)
class Linear:
    """`const` and the sum of `terms`: a text that Python reads as an integer, times an integer."""

    const: int = 0
    terms: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Linear:
        """Return a text as one term."""
        try:
            return cls(int(text))
        except ValueError:
            return cls(0, {text: 1})

    @property
    def is_number(self) -> bool:
        """Return whether it is a number."""
        return not self.terms

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for text, factor in other.terms.items():
            terms[text] = terms.get(text, 0) + factor
        return Linear(self.const + other.const, {text: factor for text, factor in terms.items() if factor})

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Linear:
        """Return the sum times an integer."""
        return Linear(self.const * factor, {text: item * factor for text, item in self.terms.items() if factor})

    def times(self, other: Linear) -> Linear:
        """Return the product, as one text where neither is a number."""
        if other.is_number:
            return self.scaled(other.const)
        if self.is_number:
            return other.scaled(self.const)
        return Linear(0, {f"{self.factor()} * {other.factor()}": 1})

    def text(self) -> str:
        """Return the sum as source."""
        out = ""
        for text, factor in self.terms.items():
            own = text if abs(factor) == 1 else f"{_in_product(text)} * {abs(factor)}"
            if factor < 0 and abs(factor) == 1 and not _ATOM.fullmatch(text) and (" + " in text or " - " in text):
                own = f"({text})"
            sign = "-" if factor < 0 else "+"
            out = (own if sign == "+" else f"-{own}") if not out else f"{out} {sign} {own}"
        if self.const or not out:
            out = f"{out} {'-' if self.const < 0 else '+'} {abs(self.const)}" if out else str(self.const)
        return out

    def factor(self) -> str:
        """Return the sum as source that can stand in a product."""
        text = self.text()
        simple = len(self.terms) + bool(self.const) == 1 and all(factor > 0 for factor in self.terms.values())
        return text if self.is_number or (simple and not _is_sum(text)) else f"({text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.const == other.const and dict(self.terms) == dict(other.terms)

    def __hash__(self) -> int:
        return hash((self.const, frozenset(self.terms.items())))


def _is_sum(text: str) -> bool:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return True
    return isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mult)


def _in_product(text: str) -> str:
    """Return a term as source that can stand in a product."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return f"({text})"
    plain = not isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare | ast.BoolOp | ast.Lambda)
    return text if plain or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)) else f"({text})"


def least(*values: Linear) -> str:
    """Return the smallest of some sums, as source."""
    return _of("min", min, values)


def greatest(*values: Linear) -> str:
    """Return the largest of some sums, as source."""
    return _of("max", max, values)


def _of(name: str, choose: object, values: tuple[Linear, ...]) -> str:
    different = list(dict.fromkeys(values))
    numbers = [item.const for item in different if item.is_number]
    others = [item.text() for item in different if not item.is_number]
    if numbers:
        others.insert(0, str((min if choose is min else max)(numbers)))
    return others[0] if len(others) == 1 else f"{name}({', '.join(others)})"
