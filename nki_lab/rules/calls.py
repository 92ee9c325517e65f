"""NKI005 and NKI128 to NKI130: calls that are wrong where they stand, in kernel code or around it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Final

from nki_lab.diagnostic import Related
from nki_lab.isa.spec import TABLE
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses, definitions_of
from nki_lab.source.nesting import Nesting
from nki_lab.source.trees import FUNCTIONS, FunctionNode, lines_of

_MODULES: Final = ("nki", "neuronxcc.nki")
_TENSORS: Final = frozenset({
    "ndarray", "full", "zeros", "ones", "zeros_like", "empty_like", "load", "store", "load_transpose2d", "copy",
    "shared_constant", "shared_identity_matrix", "program_id", "num_programs",
})  # fmt: skip
"""Functions of nki.language that record something, or ask about the launch; the operators are values as well."""


@syntax_rule("NKI005", dialects=("current", "beta1"), on_host=True)
def check_outside(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each such call that runs when the module is loaded. What functions do depends on who calls
    them, and a fault of an import guard is its own affair. Below lines that could not be read, which may have been the
    head of a function, nothing is said.
    """
    for node in _calls(facts):
        if facts.parsed.is_torn(node.lineno):
            continue
        home, _, name = facts.imported(node.func).rpartition(".")
        package, _, part = home.rpartition(".")
        if package in _MODULES and ((part == "isa" and name in TABLE) or (part == "language" and name in _TENSORS)):
            short = "nisa" if part == "isa" else "nl"
            yield facts.report(
                "NKI005",
                node,
                f"{short}.{name} is called by the module, outside of every kernel",
                limit="instructions and tensors exist while a kernel is specialised",
                use="move it into a function decorated with nki.jit, or into one that such a function calls",
            )


def _calls(facts: SyntaxFacts) -> Iterator[ast.Call]:
    """Yield the calls that run when the module is loaded, but for those that `try` guards."""
    guarded = Nesting([node for node in facts.tree.body if isinstance(node, ast.Try)], lines_of)
    scopes = [facts.module]
    for scope in scopes:
        scopes += [inner for inner in scope.children if isinstance(inner.node, ast.ClassDef)]
        for call in scope.calls:
            if not guarded.around(call.lineno):
                yield call


@syntax_rule("NKI128")
def check_counter(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each such write in a function that kernel code hands to nl.fori_loop by its name."""
    loops = [call for call in facts.find(ast.Call) if facts.dotted(call.func) == "nki.language.fori_loop"]
    bodies = set()
    for call, scope in _in_scopes(facts, loops):
        given = [*call.args[2:3], *(item.value for item in call.keywords if item.arg == "body_fun")]
        for item in given:
            if isinstance(item, ast.Name):
                bodies |= {found.node for found in definitions_of(item.id, scope)}
    for node in facts.find(ast.FunctionDef) if bodies else ():
        if node in bodies and node.args.args:
            yield from _writes(facts, node, node.args.args[0].arg)


def _in_scopes(facts: SyntaxFacts, calls: Collection[ast.Call]) -> Iterator[tuple[ast.Call, NameUses]]:
    """Yield each of some calls with the scope that it stands in, in the order of the source."""
    if not calls:
        return
    scopes = {call: scope for scope in facts.module.subtree() for call in scope.calls}
    yield from ((call, scopes[call]) for call in calls if call in scopes)


def _writes(facts: SyntaxFacts, node: FunctionNode, counter: str) -> Findings:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = TABLE.get(facts.short_name(inner.func))
            if called is None or not called.writes_register:
                continue
            place = list(called.arguments).index(called.register_out)
            named = [item.value for item in inner.keywords if item.arg == called.register_out]
            target = next(iter([*inner.args[place : place + 1], *named]), None)
            if isinstance(target, ast.Name) and target.id == counter:
                yield facts.report(
                    "NKI128",
                    target,
                    f"{counter}, the counter that nl.fori_loop passes to its body, is written",
                    limit="the body has the counter by value: writing it does not change the loop",
                    use="write another register, made by nisa.register_alloc()",
                )


@syntax_rule("NKI129")
def check_nested(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each call, by its name, of a function of this module that `nki.jit` decorates."""
    kernels: dict[str, tuple[FunctionNode, ast.expr]] = {}
    for node in facts.tree.body:
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                if facts.dotted(name) == "nki.jit":
                    kernels[node.name] = (node, decorator)
    if not kernels:
        return
    calls = [call for call in facts.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id in kernels]
    for call, scope in _in_scopes(facts, calls):
        assert isinstance(call.func, ast.Name)
        node, decorator = kernels[call.func.id]
        if node in (found.node for found in definitions_of(call.func.id, scope)):
            yield facts.report(
                "NKI129",
                call.func,
                f"{node.name} is called by kernel code and is a kernel itself",
                limit="the compiler inlines the functions that a kernel calls; nki.jit is for what the host launches",
                use=f"drop nki.jit from {node.name}, and let the host launch nki.jit({node.name})",
                related=(Related(f"{node.name} is made a kernel here", facts.span(decorator)),),
            )


_LIBRARIES: Final = frozenset({"numpy", "torch", "jax", "ml_dtypes"})
_ACCEPTED: Final = frozenset({"finfo", "iinfo", "dtype"})
"""They give numbers and dtypes of the language."""

_CONSTANT: Final = "nki.language.shared_constant"
"""It takes an array of the host."""


@syntax_rule("NKI130")
def check_host(facts: SyntaxFacts) -> Findings:
    """Yield one finding for each such call that the module's imports make plain, but for the arrays of constants."""
    calls = [(node, facts.dotted(node.func)) for node in facts.find(ast.Call)]
    constants = {part for node, name in calls if name.endswith(_CONSTANT) for part in ast.walk(node)}
    for node, name in calls:
        if node in constants:
            continue
        if name.partition(".")[0] in _LIBRARIES and name.rpartition(".")[2] not in _ACCEPTED:
            yield facts.report(
                "NKI130",
                node.func,
                f"{facts.text(node.func)} is called in a kernel",
                limit="values in a kernel are tensors, numbers, strings and containers of them; arrays are the host's",
                use="compute it on the host and pass it as an argument, or compute with nisa instructions",
            )
