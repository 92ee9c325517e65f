"""Every use of NKI in a module, evaluated or not: names, imports, arguments of calls, attributes of tensors.

The findings are those that an evaluation gives, with the same codes at the same places. Code that expects a name to be
missing (`hasattr`, `try`, a test of a version, `pytest.raises`) or that sets it has none.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Final, NamedTuple

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose
from nki_lab.isa.dtype import F32
from nki_lab.isa.spec import Beta1, Instruction
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.interpreter.calls import bind_names
from nki_lab.kernel_runtime.interpreter.namespaces import MODULES, beta1_dialect
from nki_lab.kernel_runtime.interpreter.values import Namespace
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.known_arguments import OPEN, KnownTensor, misuse
from nki_lab.kernel_runtime.issue.legality import fixed_names
from nki_lab.kernel_runtime.issue.nisa_functions import surplus
from nki_lab.kernel_runtime.issue.source_location import of_allocation, placed_in
from nki_lab.kernel_runtime.issue.target import tile_size
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.rules.deprecations import RANGES, SIZES, deprecated_range, deprecated_size
from nki_lab.rules.known_values import PACKAGES, KnownValues, Method, Value, root_of, same, signature_of
from nki_lab.source import SyntaxFacts
from nki_lab.source.copies import copies_in
from nki_lab.source.names import NameUses, dotted
from nki_lab.source.paths import path_to
from nki_lab.source.trees import extent, last_name

RightCalls = dict[ast.Call, dict[str, Value]]
"""Calls with nothing wrong, each with the values of the names that this comes from."""


def check_uses(facts: SyntaxFacts, right: RightCalls | None = None) -> list[Diagnostic]:
    """Return the findings about all uses of NKI in a module.

    `right` are the right calls of an earlier state of the text, and becomes those of this one: where the names in a
    call that has not changed have the values that they had, it is not looked at again.
    """
    before = {} if right is None else dict(right)
    if right is not None:
        right.clear()
    paths = (path for scope in facts.module.subtree() for path in (*scope.imports.values(), *scope.stars))
    if not any(path.partition(".")[0] in PACKAGES for path in paths):
        return []
    uses = _Uses(facts, before)
    found = [*uses.findings(), *uses.deprecations()]
    if right is not None:
        right.update(uses.right)
    return found


class NkiCall(NamedTuple):
    """A call of a function of NKI's modules, by its full name.

    `obstacle` says why `check_uses` cannot look at its arguments: "ambiguous-name" where the name may stand for another
    thing as well, "not-modelled" where NKI has it and nki_lab has not; else it is empty.
    """

    node: ast.Call
    name: str
    obstacle: str


def nki_calls(facts: SyntaxFacts) -> list[NkiCall]:
    """Return the calls of functions of NKI's modules, in either dialect, in any order."""
    return facts.parsed.once("nki calls", lambda: list(_nki_calls(facts)))


def _nki_calls(facts: SyntaxFacts) -> Iterator[NkiCall]:
    uses = _Uses(facts)
    copies, scopes = copies_in(facts.parsed), {scope.node: scope for scope in facts.module.children}
    yield from (found for found in uses.nki_calls([facts.module]) if found is not None)
    known: dict[ast.AST, list[NkiCall | None]] = {}
    for node, scope in scopes.items():
        original = copies.get(node, node)
        if original not in known:
            known[original] = list(uses.nki_calls(scopes[original].subtree()))
        same_calls = known[original]
        if original is not node:  # calls of the same names, in the same order
            calls = (call for inner in scope.subtree() for call in inner.calls)
            same_calls = [other and other._replace(node=call) for other, call in zip(same_calls, calls, strict=True)]
        yield from (found for found in same_calls if found is not None)


_INSIDE: Final = tuple(
    f"{package}." for package in ("nki.isa", "nki.language", "neuronxcc.nki.isa", "neuronxcc.nki.language")
)


class _Uses:
    def __init__(self, facts: SyntaxFacts, before: RightCalls | None = None) -> None:
        self.facts = facts
        self._before = before or {}
        self.right: RightCalls = {}
        self._same: dict[NameUses, dict[str, Value]] = {}  # earlier values that names in a scope still have
        self.values = KnownValues(facts.module, facts.parsed.unread)
        self.replaced = frozenset(
            node.attr
            for scope in self.values.scopes
            for node in scope.mentions
            if type(node.ctx) is not ast.Load and self._is_module(node.value, scope)
        )

    def findings(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with names and calls; a copy of a function with nothing wrong has nothing either."""
        module = self.facts.module
        yield from self._in_scope(module)
        copies, scopes = copies_in(self.facts.parsed), {scope.node: scope for scope in module.children}
        known: dict[ast.AST, list[Diagnostic]] = {}
        for node in scopes:
            for part in dict.fromkeys((copies.get(node, node), node)):
                if part not in known:
                    known[part] = [item for scope in scopes[part].subtree() for item in self._in_scope(scope)]
                if not known[part]:
                    break
            else:
                yield from known[node]

    def _in_scope(self, scope: NameUses) -> Iterator[Diagnostic]:
        for imported in scope.import_nodes:
            yield from self._import(imported)
        for mention in scope.mentions:
            if type(mention.ctx) is not ast.Load or self._is_open(mention, scope):
                continue
            found = self._name(mention, scope)
            if found is not None and not self._expected(mention, mention.attr):
                yield self._at(found, mention)
        for call in scope.calls:
            if not self._is_open(call.func, scope):
                yield from self._checked(call, scope)

    def deprecations(self) -> Iterator[Diagnostic]:
        """Yield the findings about deprecated names outside of kernel code, which has rules for them."""
        facts = self.facts
        for scope in self.values.scopes:
            found = [item for node in scope.mentions if node.attr in SIZES for item in deprecated_size(facts, node)]
            ranges = [node for node in scope.calls if last_name(node.func) in RANGES]
            found += [item for node in ranges for item in deprecated_range(facts, node)]
            yield from (item for item in found if not facts.functions_around(item.line))

    def obstacle(self, node: ast.expr, scope: NameUses, called: Value) -> str:
        """Return why nothing is known of the parameters of what is called; empty where its name is found wrong."""
        if self._is_open(node, scope):
            return "ambiguous-name"
        if called is not OPEN or (isinstance(node, ast.Attribute) and self._name(node, scope) is not None):
            return ""
        return "not-modelled"

    def nki_calls(self, scopes: Iterable[NameUses]) -> Iterator[NkiCall | None]:
        """Yield for each call in some scopes which function of NKI's it calls; None where it is none."""
        for scope in scopes:
            for call in scope.calls:
                called = self.values.of(call.func, scope)
                name = dotted(call.func, scope)
                if self.values.is_function(called):
                    home = "isa" if hasattr(called, "nki_instruction") else "language"
                    yield NkiCall(call, name or f"nki.{home}.{called.__name__}", "")
                elif name.startswith(_INSIDE) and not isinstance(called, Namespace):
                    yield NkiCall(call, name, self.obstacle(call.func, scope, called))
                else:
                    yield None

    def is_bound(self, called: Value) -> bool:
        """Return whether the parameters of what is called are known."""
        return isinstance(called, Method) or self.values.is_function(called)

    def _is_open(self, node: ast.expr, scope: NameUses) -> bool:
        """Return whether nothing is known of what an expression starts from."""
        root = root_of(node)
        return type(root) is not ast.Name or self.values.name(root.id, scope) is OPEN

    def _is_module(self, node: ast.expr, scope: NameUses) -> bool:
        return not self._is_open(node, scope) and isinstance(self.values.of(node, scope), Namespace)

    def _at(self, found: Diagnostic, node: ast.AST) -> Diagnostic:
        return replace(found, span=self.facts.place(node))

    # -- names ---------------------------------------------------------------------------------------------------------

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Diagnostic]:
        """Check the modules and names of an import statement."""
        found: list[tuple[ast.AST, str, Diagnostic | None]]
        if isinstance(node, ast.Import):
            found = [(item, item.name, _no_module(item.name)) for item in node.names if not self._has(item.name)]
        elif node.level or (node.module or "").partition(".")[0] not in PACKAGES:
            return
        else:
            home = node.module or ""
            module = self.values.module(home)
            if isinstance(module, Namespace):
                names = [item.name for item in node.names if item.name != "*"]
                found = [(node, name, self.values.lacks(module, name)) for name in names]
            else:
                found = [(node, home, _no_module(home))]
        for place, name, item in found:
            if item is not None and not self._expected(node, name):
                yield self._at(item, place)

    def _has(self, path: str) -> bool:
        return path.partition(".")[0] not in PACKAGES or self.values.module(path) is not OPEN

    def _name(self, node: ast.Attribute, scope: NameUses) -> Diagnostic | None:
        """Return the finding about an attribute that its module, enumeration or tensor does not have."""
        value, name = self.values.of(node.value, scope), node.attr
        if isinstance(value, Namespace):
            return self.values.lacks(value, name)
        if name.startswith("_"):
            return None
        if call_errors.is_enumeration(value):
            return None if hasattr(value, name) else call_errors.no_member(value, name)
        if value is tile_size:
            return _refused(lambda: getattr(tile_size, name))
        if isinstance(value, KnownTensor) and not hasattr(NkiTensor, name):
            return _refused(lambda: getattr(NkiTensor((1, 1), F32), name))
        return None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _checked(self, node: ast.Call, scope: NameUses) -> list[Diagnostic]:
        """Check a call unless it was right before, and the names in it are what they were."""
        read = self._before.get(node)
        found: list[Diagnostic] = []
        if read is None or not self._has_values(read, scope):
            with self.values.reading() as read:
                found = list(self._call(node, scope))
        if not found:
            self.right[node] = read
        return found

    def _has_values(self, read: dict[str, Value], scope: NameUses) -> bool:
        """Return whether names in a scope have the values that they had: most calls have read the same ones."""
        known = self._same.setdefault(scope, {})
        for name, value in read.items():
            if known.get(name, known) is not value:
                if not same(value, self.values.name(name, scope)):
                    return False
                known[name] = value
        return True

    def _call(self, node: ast.Call, scope: NameUses) -> Iterator[Diagnostic]:
        """Check the arguments of a call of NKI's."""
        called = self.values.of(node.func, scope)
        if isinstance(called, Method):
            found = list(_misfit(node, called.function, first=1))
        elif not self.is_bound(called):
            return
        elif isinstance(instruction := getattr(called, "nki_instruction", None), Instruction):
            found = list(self._instruction(node, scope, called, instruction))
        else:
            found = list(_misfit(node, called)) or self._allocation(node, scope, called)
        if found and not self._expected(node, last_name(node.func)):
            for item in found:
                yield item if item.span is not None else self._placed(item, node)

    def _instruction(
        self, node: ast.Call, scope: NameUses, called: Value, instruction: Instruction
    ) -> Iterator[Diagnostic]:
        """Check the arguments of an instruction: which there are, then their values."""
        keywords = [item.arg for item in node.keywords if item.arg is not None]
        starred = any(isinstance(item, ast.Starred) for item in node.args)
        complete = not starred and len(keywords) == len(node.keywords)
        positional = 0 if starred else len(node.args)
        dialect = beta1_dialect() if self.values.is_beta1(called) else None
        if dialect is not None:
            misfits = list(dialect.misfits(instruction, positional, keywords))
            misfits = [item for item in misfits if complete or item.code != _MISSING]
            yield from misfits
            if not any(item.outcome == "fault" for item in misfits):
                yield from self._beta1_values(node, scope, instruction)
            return
        names = [*instruction.arguments, "name"]
        if doubled := [name for name in keywords if name in names[:positional]]:
            error = TypeError(f"{instruction.name}() got multiple values for argument {doubled[0]!r}")
            found = call_errors.of_call(error, called)
            assert found is not None
            yield found
            return
        for item in surplus(
            instruction, max(0, positional - len(names)), [key for key in keywords if key not in names]
        ):
            yield item
            if item.outcome == "fault":
                return
        given = dict(zip(names, node.args if not starred else (), strict=False))
        given |= {item.arg: item.value for item in node.keywords if item.arg in names}
        values = {name: self.values.of(value, scope) for name, value in given.items() if name != "name"}
        for item in misuse(instruction, values, complete=complete):
            tensor = values.get(item.operand)
            if item.code == "NKI204" and isinstance(tensor, KnownTensor) and tensor.made is not None:
                name = f"{ast.unparse(root_of(given[item.operand]))!r}"
                yield self._placed(of_allocation(item, name, self.facts.place(node)), tensor.made)
            else:
                yield item

    def _placed(self, item: Diagnostic, node: ast.Call) -> Diagnostic:
        """Return a finding about a call with its place."""
        facts = self.facts
        return placed_in(item, node, lambda part: facts.place(node) if part is None else facts.span(part))

    def _beta1_values(self, node: ast.Call, scope: NameUses, instruction: Instruction) -> Iterator[Diagnostic]:
        """Check the operators and members of enumerations that a call of Beta 1 passes; texts may stand for these."""
        order = instruction.beta1.positional if isinstance(instruction.beta1, Beta1) else ()
        given = dict(zip(order, node.args, strict=False)) | {item.arg: item.value for item in node.keywords if item.arg}
        fixed = {name: given[name] for name in fixed_names(instruction) if name in given}
        values = {name: self.values.of(value, scope) for name, value in fixed.items()}
        yield from misuse(
            instruction,
            {name: OPEN if isinstance(value, str) else value for name, value in values.items()},
            complete=False,
        )

    def _allocation(self, node: ast.Call, scope: NameUses, called: Value) -> list[Diagnostic]:
        """Check the shape, dtype, buffer and address of a new tensor."""
        signature = signature_of(called)
        found = None if signature is None else _refused(lambda: self.values.allocated(called, node, scope, signature))
        return [] if found is None else [found]

    @cached_property
    def _quoted(self) -> frozenset[str]:
        """Return the names that the module asks for or sets by text; all of its texts where it computes some."""
        calls = [call for scope in self.values.scopes for call in scope.calls if last_name(call.func) in _BY_TEXT]
        parts: list[ast.AST] = [part for call in calls for part in call.args[:2]]
        if any(not any(isinstance(part, ast.Constant) for part in call.args[:2]) for call in calls):
            parts = list(ast.walk(self.facts.tree))
        texts = (part.value for part in parts if isinstance(part, ast.Constant))
        return frozenset(text.rpartition(".")[2] for text in texts if isinstance(text, str))

    # -- doubts --------------------------------------------------------------------------------------------------------

    def _expected(self, node: ast.AST, name: str) -> bool:
        """Return whether the code expects that something is wrong here, or replaces the name."""
        last = name.rpartition(".")[2]
        if last in self.replaced or last in self._quoted:
            return True
        around = list(_around(self.facts.tree, node))
        return any(map(_expects, around, [*around[1:], node]))


_MISSING: Final = "NKI003"


def _refused(use: Callable[[], object]) -> Diagnostic | None:
    """Return the first finding of the error that a use raises."""
    try:
        use()
    except NkiError as error:
        return error.diagnostics[0]
    return None


def _no_module(path: str) -> Diagnostic | None:
    """Return the finding about a module whose name is a misspelled one; others may exist."""
    home, _, name = path.rpartition(".")
    inside = [item.removeprefix(f"{home}.") for item in MODULES if item.startswith(f"{home}.")]
    near = did_you_mean(name, inside)
    if not near or any(item.startswith(f"{name}.") for item in inside):
        return None
    limit = f"modules: {', '.join(inside)}"
    return diagnose("NKI006", f"{home} has no {name}", operand=name, limit=limit, help=near)


def _misfit(node: ast.Call, function: Callable[..., object], *, first: int = 0) -> Iterator[Diagnostic]:
    """Diagnose arguments that a function has no parameters for, or lacks; `first` are bound already."""
    signature = signature_of(function)
    if signature is None:
        return
    parameters = list(signature.parameters.values())
    kinds = {item.kind for item in parameters}
    positional = [item.name for item in parameters if item.kind in _POSITIONAL]
    named = [item.name for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY]
    optional = {item.name for item in parameters if item.default is not item.empty}
    args: list[Value] = [OPEN] * (first + len(node.args))
    keywords = {item.arg: OPEN for item in node.keywords if item.arg is not None}
    if any(isinstance(item, ast.Starred) for item in node.args):
        args, optional = args[:first], {*positional, *named}
    if len(keywords) < len(node.keywords):
        optional = {*positional, *named}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        args = args[: len(positional)]
    if inspect.Parameter.VAR_KEYWORD in kinds:
        keywords = {name: value for name, value in keywords.items() if name in (*positional, *named)}
    try:
        bind_names(f"{function.__qualname__}()", positional, named, args, keywords, optional)
    except TypeError as error:
        found = call_errors.of_call(TypeError(str(error)), function)
        if found is not None:
            yield found


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _around(tree: ast.Module, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes around one, the outermost first."""
    return takewhile(lambda part: part is not node, path_to(tree, extent(node)))


_BY_TEXT: Final = frozenset({"hasattr", "getattr", "setattr", "delattr", "patch", "object"})
_REFUSALS: Final = frozenset({"raises", "suppress", "assertRaises", "assertRaisesRegex", "warns"})
_VERSION: Final = re.compile(r"(?<!nc_)version|hasattr", re.IGNORECASE)


def _expects(outer: ast.AST, inner: ast.AST) -> bool:
    """Return whether a statement around expects that its part `inner` fails, or is not reached in some releases."""
    match outer:
        case ast.Try(body=body, handlers=handlers) | ast.TryStar(body=body, handlers=handlers):
            return bool(handlers) and inner in body
        case ast.With(items=items):
            calls = (item.context_expr for item in items)
            return any(isinstance(item, ast.Call) and last_name(item.func) in _REFUSALS for item in calls)
        case ast.If(test=test) | ast.IfExp(test=test):
            return inner is not test and _VERSION.search(ast.unparse(test)) is not None
        case _:
            return False
