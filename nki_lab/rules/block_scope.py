"""NKI337: a Beta 1 kernel uses a tile after the loop or the branch that made it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.isa.spec import TABLE
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FUNCTIONS, elif_of

_NUMBERS: Final = frozenset(
    {"affine_range", "sequential_range", "static_range", "program_id", "num_programs", "program_ndim", "ds", "arange",
     "mgrid", "par_dim", "get_nc_version", "multi_buffer", "no_reorder", "nc", "spmd_dim"}
)  # fmt: skip
"""Functions of NKI that give no tile."""


@syntax_rule("NKI337", dialects=("beta1",))
def check(facts: SyntaxFacts) -> Findings:
    """Yield one finding for the first use of each name that only blocks bind, to what NKI's functions return, and of
    each that a loop binds again, to another tile.

    Compile-time branches count: what the name stands for after them is not one tensor.
    """
    for item in facts.functions:
        yield from _Function(facts).walked(item.node.body)


@dataclass(slots=True)
class _Block:
    """The names that a block binds to tiles for the first time or again, and all names bound in it or before it."""

    bound: set[str]
    tiles: dict[str, ast.AST] = field(default_factory=dict)
    rebound: dict[str, ast.AST] = field(default_factory=dict)


@dataclass(slots=True)
class _Inside:
    """The names that the blocks of a statement in `block` have bound so far: those of tiles, and others."""

    block: _Block
    kind: str
    made: dict[str, ast.AST] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


class _Function:
    def __init__(self, facts: SyntaxFacts) -> None:
        self.facts = facts
        self.ended: dict[str, tuple[ast.AST, str]] = {}
        self.known: set[str] = set()  # names of tiles
        self.found: list[Diagnostic] = []

    def walked(self, body: list[ast.stmt]) -> list[Diagnostic]:
        self._block(body, _Block(set()))
        return self.found

    def _block(self, body: list[ast.stmt], block: _Block) -> None:
        for node in body:
            match node:
                case ast.For(target=target, iter=source, body=inner, orelse=after):
                    self._uses(source)
                    self._bind(target, None, block)
                    kind = "unrolled loop" if self.facts.calls(source, "static_range") else "loop"
                    self._inner([inner, after], block, kind)
                case ast.While(test=test, body=inner, orelse=after):
                    self._uses(test)
                    self._inner([inner, after], block, "loop")
                case ast.If():
                    self._branches(node, block)
                case ast.With(body=inner):
                    self._block(inner, block)
                case ast.Assign(targets=targets, value=value):
                    self._uses(value)
                    for target in targets:
                        self._bind(target, value, block)
                case ast.AnnAssign(target=target, value=value):
                    self._uses(value)
                    self._bind(target, value, block)
                case ast.AugAssign(target=target, value=value):
                    self._uses(value)
                    self._uses(target)
                case _ if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    block.bound.add(node.name)
                case _:
                    self._uses(node)

    def _branches(self, node: ast.If, block: _Block) -> None:
        """Walk the branches of an `if`, those of each `elif` within the `else` before it."""
        around: list[_Inside] = []
        other: ast.If | None = node
        while other is not None:
            self._uses(other.test)
            around.append(_Inside(block, "branch"))
            self._enter(other.body, around[-1])
            node, other = other, elif_of(other)
            block = _Block(set(block.bound)) if other is not None else block
        self._enter(node.orelse, around[-1])
        while around:
            inside = around.pop()
            self._leave(inside)
            if around:
                self._merge(inside.block, around[-1])

    def _inner(self, bodies: list[list[ast.stmt]], block: _Block, kind: str) -> None:
        """Walk the blocks of a statement."""
        inside = _Inside(block, kind)
        for body in bodies:
            self._enter(body, inside)
        self._leave(inside)

    def _enter(self, body: list[ast.stmt], inside: _Inside) -> None:
        inner = _Block(set(inside.block.bound))
        self._block(body, inner)
        self._merge(inner, inside)

    def _merge(self, inner: _Block, inside: _Inside) -> None:
        """Take up what a block of a statement binds."""
        block = inside.block
        inside.made |= inner.tiles
        inside.others |= inner.bound - block.bound - inner.tiles.keys()
        if inside.kind == "loop":
            self.ended |= {name: (node, "loop that binds it anew") for name, node in inner.rebound.items()}
        else:
            block.rebound |= inner.rebound

    def _leave(self, inside: _Inside) -> None:
        """End the names that the blocks of a statement alone bind."""
        for name, node in inside.made.items():
            if name not in inside.others:
                self.ended[name] = (node, f"{inside.kind} that makes it")
        inside.block.bound |= inside.others

    def _bind(self, target: ast.expr, value: ast.expr | None, block: _Block) -> None:
        if isinstance(target, ast.Name):
            self.ended.pop(target.id, None)
            is_tile = value is not None and self._is_tile(value)
            if target.id in block.bound:
                if is_tile and target.id in self.known and target.id not in block.tiles:
                    block.rebound.setdefault(target.id, target)
                return
            if is_tile:
                self.known.add(target.id)
                block.tiles.setdefault(target.id, target)
            block.bound.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._bind(item, None, block)
        else:
            self._uses(target)

    def _is_tile(self, value: ast.expr) -> bool:
        if isinstance(value, ast.BinOp):
            return any(isinstance(item, ast.Name) and item.id in self.known for item in (value.left, value.right))
        if not isinstance(value, ast.Call):
            return False
        home, _, name = self.facts.dotted(value.func).rpartition(".")
        if home.endswith(".isa"):
            return name in TABLE
        return home.endswith(".language") and name not in _NUMBERS

    def _uses(self, node: ast.AST | None) -> None:
        for item in () if node is None or not self.ended else ast.walk(node):
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load) and item.id in self.ended:
                made, kind = self.ended.pop(item.id)
                self.found.append(
                    self.facts.report(
                        "NKI337",
                        item,
                        f"{item.id} is used after the {kind}",
                        limit="a tile belongs to the block in which its name is first bound",
                        use=f"make {item.id} before that with nl.ndarray, and write {item.id}[...] = ... in it",
                        related=(Related(f"{item.id} is bound here", self.facts.span(made)),),
                    )
                )
