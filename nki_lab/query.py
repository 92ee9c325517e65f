"""What editors and the command line ask about source text: findings, hovers, explanations.

Pure functions of text. Nothing of the user's is executed or imported; kernels are evaluated within a budget.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.isa.spec import TABLE, Instruction
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.coverage import cover
from nki_lab.kernel_runtime.frontend import language
from nki_lab.kernel_runtime.frontend.doors import describe
from nki_lab.kernel_runtime.frontend.evaluator import (
    Budget,
    ModuleSource,
    Signature,
    Variable,
    evaluate,
    legacy_dialect,
    signatures,
)
from nki_lab.kernel_runtime.frontend.target import choice
from nki_lab.kernel_runtime.options import Options
from nki_lab.rules import KernelFunction, SyntaxFacts, check_syntax, syntax_facts

_DOCUMENTED: Final = {"nki.language": "nl", "nki.isa": "nisa"}
_LEGACY: Final = "neuronxcc."


def check(
    path: str | Path | None = None,
    *,
    source: str | bytes | None = None,
    function: Callable[..., Any] | str | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Arch | None = None,
    options: Options | None = None,
    budget: Budget | None = None,
) -> list[Diagnostic]:
    """The findings in a file, a source text or a function, in the order of the source; nothing of it is run.

    With `source`, `path` only names it. `function` is a function or kernel object, whose file is read, or the name of
    one in the text; then other kernels are left out. `args` and `kwargs` are what it is called with: `spec`s, arrays of
    which only the shape counts, or constants. Without them shapes come from `nki.typing` annotations and from calls in
    the text, at most four signatures a kernel. A file that cannot be read is NKI018, one that is no Python NKI101.
    """
    arch = arch_of(target if target is not None else choice.outside())
    try:
        text, file, name, line = _source_of(path, source, function)
        facts = syntax_facts(text, file, [name] if name else None)
    except NkiError as error:
        return list(error.diagnostics)
    if name:
        facts = _limited(facts, name, line)
    explicit = Signature(args=tuple(args or ()), kwargs=dict(kwargs or {})) if args or kwargs else None
    found = check_syntax(facts)
    module = ModuleSource(facts.source, file, facts.tree)
    with module.shown():
        found += _check_kernels(facts, module, arch, options, explicit, budget)
    return sorted(_once(found), key=lambda item: (item.line, item.column, item.code))


def _source_of(path: Any, source: Any, function: Any) -> tuple[str | bytes, str, str, int]:
    """Text, file name, function name and line of what is to be checked; NKI018 where it cannot be read."""
    name = function if isinstance(function, str) else ""
    if source is not None:
        return source, str(path) if path is not None else "<source>", name, 0
    if path is not None:
        try:
            return Path(path).read_bytes(), str(path), name, 0
        except (OSError, ValueError) as error:
            raise _unreadable(str(path), getattr(error, "strerror", None) or str(error)) from None
    code = getattr(_plain(function), "__code__", None)
    if code is None:
        raise _unreadable(
            str(getattr(function, "__name__", function)), "it is no function, and no path or source is given"
        )
    lines = linecache.getlines(code.co_filename, getattr(_plain(function), "__globals__", None))
    if not lines:
        raise _unreadable(code.co_filename, "its source is not at hand")
    return "".join(lines), code.co_filename, code.co_name, code.co_firstlineno


def _plain(function: Any) -> Any:
    """The function inside a kernel object or a partial."""
    for _ in range(8):
        inner = getattr(function, "function", None) or getattr(function, "func", None)
        if inner is None or inspect.isfunction(function):
            break
        function = inner
    return inspect.unwrap(function) if inspect.isfunction(function) else function


def _unreadable(file: str, reason: str) -> NkiError:
    name = file.replace("\0", "\\0")
    return NkiError((diagnose("NKI018", f"{name}: {reason}", span=Span(name, 1, 1, 1, 2), help="check the path"),))


def _limited(facts: SyntaxFacts, name: str, line: int) -> SyntaxFacts:
    """The facts of one kernel (the one at `line`, where that is given) and of what it reaches."""
    entries = [item for item in facts.functions if item.is_entry and item.node.name == name]
    at = [item for item in entries if line and _first_line(item.node) <= line <= (item.node.end_lineno or line)]
    kernel = (at or entries)[-1:]
    kept = tuple(item for item in facts.functions if kernel and item.kernel is kernel[0].node)
    return replace(facts, functions=kept, _index={})


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def _once(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Each code once at each place."""
    seen = set()
    for item in found:
        key = (item.code, item.span or item.message)
        if key not in seen:
            seen.add(key)
            yield item


# -- kernels ------------------------------------------------------------------------------------------------------


def _check_kernels(
    facts: SyntaxFacts,
    module: ModuleSource,
    arch: Arch,
    options: Options | None,
    explicit: Signature | None,
    budget: Budget | None,
) -> Iterator[Diagnostic]:
    kernels = [item for item in facts.functions if item.is_entry]
    top = {item.node.name for item in kernels if module.function(item.node.name) is item.node}
    known = dict.fromkeys(top, (explicit,)) if explicit is not None else signatures(module, sorted(top))
    entered: set[str] = set()
    unshaped: list[KernelFunction] = []
    for kernel in kernels:
        name = kernel.node.name
        if kernel.dialect == "legacy" and legacy_dialect() is None:
            yield _note(facts, kernel, "NKI122", f"{name} is a kernel of neuronxcc.nki, which is not evaluated here")
        elif name not in top or module.function(name) is not kernel.node:
            yield _note(facts, kernel, "NKI122", f"{name} is made inside another function: only its syntax is checked")
        elif not known.get(name):
            unshaped.append(kernel)
        else:
            for signature in known[name]:
                made = evaluate(
                    module, name, signature, arch=arch, options=options, budget=budget, dialect=kernel.dialect
                )
                entered |= made.entered
                covered = cover(made.program, made.tainted).diagnostics
                findings = [*made.diagnostics, *covered, *allocate(made.program).diagnostics]
                yield from (_named(facts, kernel, signature, item) for item in findings)
    for kernel in unshaped:
        if kernel.node.name not in entered and _parameters(kernel.node):
            yield _unshaped(facts, kernel)


def _named(facts: SyntaxFacts, kernel: KernelFunction, signature: Signature, item: Diagnostic) -> Diagnostic:
    """A finding of an evaluation: with a place, and with the call that gave the shapes."""
    if item.span is None:
        item = replace(item, span=signature.span or facts.name_span(kernel.node))
    if signature.span is None or item.code in ("NKI120", "NKI122"):
        return item
    where = Related(f"with the arguments of this call: {kernel.node.name}{signature}", signature.span)
    return replace(item, related=(*item.related, where))


def _note(facts: SyntaxFacts, kernel: KernelFunction, code: str, message: str) -> Diagnostic:
    return diagnose(code, message, span=facts.name_span(kernel.node), limit="the syntax rules apply in any case")


def _unshaped(facts: SyntaxFacts, kernel: KernelFunction) -> Diagnostic:
    names = ", ".join(_parameters(kernel.node))
    return diagnose(
        "NKI121",
        f"the shapes of {kernel.node.name}'s arguments ({names}) are not known here: only its syntax is checked",
        span=facts.name_span(kernel.node),
        limit="shapes come from nki.typing annotations, from calls in this file, and from args=",
        help=f"annotate the parameters, for example {names.split(', ', maxsplit=1)[0]}: nt.tensor[128, 512]",
    )


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


# -- hover and explain ----------------------------------------------------------------------------------------------


def hover(source: str, line: int, column: int, file: str = "", *, target: str | Arch | None = None) -> str | None:
    """What stands at a 1-based line and character column, as Markdown; None where there is nothing to say.

    Instructions and functions are shown with their declaration, dtypes with their format, variables of a kernel with
    what they stand for under the first signature that is known.
    """
    try:
        facts = syntax_facts(source, file or "<source>")
    except NkiError:
        return None
    node, call = _node_at(facts, line, column)
    if isinstance(node, ast.keyword):
        return _argument(facts, call, node.arg or "")
    if isinstance(node, ast.Attribute | ast.Name):
        documented = _documentation(facts.dotted(node))
        if documented is not None:
            return documented
    if isinstance(node, ast.Name | ast.arg):
        arch = arch_of(target if target is not None else choice.outside())
        variable = _variable(facts, node, arch)
        return None if variable is None else _shown(variable)
    return None


def _node_at(facts: SyntaxFacts, line: int, column: int) -> tuple[ast.AST | None, ast.Call | None]:
    """The innermost name, attribute, parameter or keyword at a place, and the call around a keyword."""
    best: ast.AST | None = None
    around: ast.Call | None = None
    smallest = 1 << 62
    for node in ast.walk(facts.tree):
        calls = node.keywords if isinstance(node, ast.Call) else []
        for keyword in calls:
            start = facts.character(keyword.lineno, keyword.col_offset) + 1
            if keyword.arg and keyword.lineno == line and start <= column < start + len(keyword.arg):
                assert isinstance(node, ast.Call)
                return keyword, node
        if isinstance(node, ast.Name | ast.Attribute | ast.arg):
            span = facts.span(node)
            size = (span.end_line - span.line) * 10_000 + span.end_column - span.column
            inside = (span.line, span.column) <= (line, column) < (span.end_line, span.end_column)
            if isinstance(node, ast.arg):
                inside = span.line == line and span.column <= column < span.column + len(node.arg)
            if inside and size < smallest:
                best, smallest = node, size
    return best, around


def _argument(facts: SyntaxFacts, call: ast.Call | None, name: str) -> str | None:
    """The documentation of an instruction's argument."""
    instruction = None if call is None else _instruction(facts.dotted(call.func))
    operand = None if instruction is None else instruction.operands.get(name)
    if operand is None:
        return None
    place = f" [{', '.join(operand.dims)}] in {' or '.join(operand.spaces)}" if operand.is_tensor else ""
    kinds = f"\n\ndtypes: {', '.join(item.name for item in operand.dtypes)}" if operand.dtypes else ""
    return f"**{name}**{place}\n\n{operand.doc}{kinds}"


def _instruction(dotted: str) -> Instruction | None:
    module, _, name = dotted.removeprefix(_LEGACY).rpartition(".")
    return TABLE.get(name) if module == "nki.isa" else None


def _documentation(dotted: str) -> str | None:
    """The Markdown of a name of `nki.language` or `nki.isa`, spelt in full; None for other names."""
    instruction = _instruction(dotted)
    if instruction is not None:
        return f"```python\nnisa.{instruction.signature()}\n```\n\n{_marked_up(describe(instruction))}"
    module, _, name = dotted.removeprefix(_LEGACY).rpartition(".")
    if module not in _DOCUMENTED and not module.startswith("nki.isa."):
        return None
    if module == "nki.language" and name in DTYPES:
        return _dtype(DTYPES[name])
    if module.startswith("nki.isa."):
        kind = language.instruction_names().get(module.rpartition(".")[2])
        member = getattr(kind, "__members__", {}).get(name)
        return None if member is None else f"`nisa.{type(member).__name__}.{name}`\n\n{inspect.getdoc(type(member))}"
    names = language.names() if module == "nki.language" else language.instruction_names()
    value = names.get(name)
    text = inspect.getdoc(value) if value is not None and (callable(value) or hasattr(value, "nki_op")) else None
    return None if not text else f"```python\n{_heading(f'{_DOCUMENTED[module]}.{name}', value)}\n```\n\n{text}"


def _heading(name: str, value: Any) -> str:
    """A function's signature, as far as it says one."""
    if not inspect.isfunction(value):
        return name
    signature = inspect.signature(value)
    bare = [item.replace(annotation=item.empty) for item in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"


def _marked_up(text: str) -> str:
    """A declaration's plain text as Markdown: its indented lists keep their lines."""
    return "\n".join(f"- {line.strip()}" if line.startswith("    ") else line for line in text.split("\n"))


def _dtype(kind: DType) -> str:
    bits = f", {kind.exponent_bits} exponent and {kind.mantissa_bits} fraction bits" if kind.exponent_bits else ""
    since = f", NeuronCore-v{kind.since} and later" if kind.since > 2 else ""
    span = f"{kind.lowest:g} to {kind.max_finite:g}"
    return f"`nl.{kind.name}`\n\n{kind.nbytes} bytes an element, {kind.kind}{bits}; values {span}{since}."


def _variable(facts: SyntaxFacts, node: ast.Name | ast.arg, arch: Arch) -> Variable | None:
    """What a name stands for where it was last bound above the place, in the same function."""
    around = [
        item for item in facts.functions
        if _first_line(item.node) <= node.lineno <= (item.node.end_lineno or node.lineno)
    ]  # fmt: skip
    if not around:
        return None
    inner, name = around[-1], node.id if isinstance(node, ast.Name) else node.arg
    types = _types(facts.source, facts.file, inner.kernel.name, arch.target)
    places = [
        place for place, known in types.items()
        if known.name == name and inner.node.lineno <= place[0] <= (inner.node.end_lineno or place[0])
    ]  # fmt: skip
    before = [place for place in places if place <= (node.lineno, node.col_offset)]
    return types[max(before)] if before else types[min(places)] if places else None


@lru_cache(maxsize=16)
def _types(source: str, file: str, kernel: str, target: str) -> Mapping[tuple[int, int], Variable]:
    facts = syntax_facts(source, file)
    module = ModuleSource(facts.source, file, facts.tree)
    known = signatures(module, [kernel]).get(kernel)
    dialect = next((item.dialect for item in facts.functions if item.node.name == kernel), "current")
    return evaluate(module, kernel, known[0], arch=target, dialect=dialect).types if known else {}


def _shown(variable: Variable) -> str:
    text = f"`{variable.name}`: {variable.text}"
    return f"{text}, {variable.partition_bytes} bytes per partition" if variable.partition_bytes else text


def explain(name: str) -> str | None:
    """The text about a code (`NKI213`, its slug, AWS's name for it), an instruction or a name of `nki.language`.

    None for anything else.
    """
    found = codes.find(name)
    if found is not None:
        names = f" ({', '.join(found.aliases)})" if found.aliases else ""
        return f"# {found.code} {found.title}{names}\n\n{found.outcome}, {found.severity}\n\n{found.body}"
    bare = name.strip()
    for prefix in ("nki.isa.", "nisa.", "nki.language.", "nl."):
        bare = bare.removeprefix(prefix)
    for module in (
        ("nki.language", "nki.isa") if name.strip().startswith(("nl.", "nki.l")) else ("nki.isa", "nki.language")
    ):
        text = _documentation(f"{module}.{bare}")
        if text is not None:
            return text
    if bare in ALU:
        return f"`nl.{bare}`\n\n{ALU[bare].doc}"
    return f"`nl.{bare}`\n\n{ACTIVATIONS[bare].formula}" if bare in ACTIVATIONS else None
