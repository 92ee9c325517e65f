"""Whole pages about codes and names of NKI: what `explain` prints and what the reference of the site shows.

The page of a name begins with `names.documentation`, which hovers show too. That of an instruction goes on with all
that its declaration says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from nki_lab import codes
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Cost, Instruction, Unmodelled, Use
from nki_lab.kernel_runtime import beta1
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.query.entries import bare_signature
from nki_lab.query.examples import having, program_of, use_of
from nki_lab.query.names import BETA1_ROOT, DOCUMENTED, ENGINES, documentation, instruction_of, spelled

_PRECISIONS: Final = {
    "float32": "Operands become float32, the arithmetic is float32, and each result is rounded once to dst's dtype.",
    "native": "Values are computed or moved as they are in their own dtypes, with no detour through float32.",
    "bits": "Values are bit patterns of their own width.",
}


def explain(name: str) -> str | None:
    """Return the text about a code (`NKI213`, its slug, AWS's name for it), an instruction or a name of `nki.language`.

    None for anything else.
    """
    code = codes.find(name)
    if code is not None:
        names = f" ({', '.join(code.aliases)})" if code.aliases else ""
        return f"# {code.code}: {code.title}{names}\n\n{code.outcome}, {code.severity}\n\n{code.body}"
    whole = page(name.strip())
    if whole is not None:
        return whole
    bare = name.strip().removeprefix(BETA1_ROOT)
    for prefix in ("nki.isa.", "nisa.", "nki.language.", "nl."):
        bare = bare.removeprefix(prefix)
    modules = ["nki.isa", "nki.language"]
    if name.strip().startswith(("nl.", "nki.l")):
        modules.reverse()
    texts = (page(f"{module}.{bare}") for module in modules)
    if found := next(filter(None, texts), None) or _removed(name.strip(), bare):
        return found
    if bare in ALU:
        return f"`nl.{bare}`\n\n{ALU[bare].doc}"
    return f"`nl.{bare}`\n\n{ACTIVATIONS[bare].formula}" if bare in ACTIVATIONS else None


def _removed(name: str, bare: str) -> str:
    """Return the replacement of a name of an earlier release; empty where it is none."""
    for module, removed in nki_api_names.REMOVED.items():
        short = DOCUMENTED.get(module, module)
        for old, instead in removed.items():
            if name in (f"{module}.{old}", f"{short}.{old}", old) or bare == old:
                return f"`{short}.{old}` was removed (NKI603).\n\nInstead: {instead}."
    return ""


def known_names() -> list[str]:
    """Return the names that `explain` has a text about."""
    entries = codes.all_codes()
    named = [text for item in entries for text in (item.code, item.slug, *item.aliases)]
    return [*named, *namespaces.instruction_names(), *namespaces.language_names(), *ALU, *ACTIVATIONS]


# -- instructions --------------------------------------------------------------------------------------------------


def page(dotted: str) -> str | None:
    """Return the Markdown about an instruction, spelt in full; for other names that of `documentation`."""
    text, instruction = documentation(dotted), instruction_of(dotted)
    if text is None or instruction is None:
        return text
    return "\n\n".join([text, *(f"**{title}**\n\n{body}" for title, body in sections(instruction))])


def sections(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Yield what documentation leaves out, each part with its title: numerics, cost, spellings, targets, an example."""
    yield "Numerics", "\n".join(f"- {line}" for line in _numerics(instruction))
    yield "Cost of the example", _costs(instruction)
    yield "Spellings", _spellings(instruction)
    yield "Availability", _availability(instruction)
    yield "Example", f"```python\n{program_of(instruction)}```"


def _numerics(instruction: Instruction) -> Iterator[str]:
    if isinstance(instruction.numerics, Unmodelled):
        yield f"Not modelled: {instruction.numerics.reason}."
        return
    use = use_of(instruction, having(instruction)[-1])
    if instruction.only_orders:
        yield "Writes nothing: it orders the instructions around it."
        return
    yield _PRECISIONS[instruction.precision(use)]
    if instruction.exact(use):
        yield "Results need no rounding."
    if not instruction.continuous(use):
        yield (
            "Results may jump with the least change of an input: it compares, rounds to a grid of its own or draws"
            " random numbers. `run.blame` therefore does not compare it with float64."
        )
    if instruction.accumulation is not None:
        yield f"Can add to what `{instruction.accumulation.operand}` holds."
    if instruction.merges is not None and instruction.merges(use):
        yield "Leaves some elements of its result as they were."
    if instruction.keeps_state is not None:
        yield "Can leave something in registers of the engine that later instructions read."
    if instruction.register_out:
        known = "while a kernel is specialised" if instruction.register_value else "in a run only"
        yield f"Writes a register, whose value is known {known}."


def _costs(instruction: Instruction) -> str:
    if isinstance(instruction.cost, Unmodelled):
        return f"Not modelled: {instruction.cost.reason}."
    return "\n".join(_rows(instruction, instruction.cost))


def _rows(instruction: Instruction, cost: Callable[[Use], Cost]) -> Iterator[str]:
    yield "| target | engine | interval | latency | confidence | source |\n|-|-|-|-|-|-|"
    for arch in having(instruction):
        use = use_of(instruction, arch)
        found = cost(use)
        interval, latency = _times(use, arch, found)
        place = f"{arch.target} ({arch.name})"
        yield f"| {place} | {ENGINES[use.engine]} | {interval} | {latency} | {found.confidence} | {found.source} |"


def _times(use: Use, arch: Arch, cost: Cost) -> tuple[str, str]:
    """Return how long the engine takes, and when the result can be read; of a transfer, its bytes and fixed time."""
    if use.engine == "dma":
        return f"{cost.bytes:,} bytes", f"{cost.fixed_ns:,.0f} ns and the transfer"
    ghz = arch.ghz(use.engine)
    shown = (f"{cycles:,.0f} cycles, {cycles / ghz:,.0f} ns" for cycles in (cost.interval, cost.latency))
    interval, latency = shown
    return interval, latency


def _spellings(instruction: Instruction) -> str:
    current, face = f"- current: `nisa.{instruction.signature()}`", instruction.beta1
    if isinstance(face, Unmodelled):
        return f"{current}\n- none in Beta 1: {face.reason}"
    result = f"{face.returns} = " if face.returns else ""
    signature = bare_signature(beta1.instruction_names()[instruction.name], spelled)
    return f"{current}\n- Beta 1: `{result}nisa.{instruction.name}{signature}`"


def _availability(instruction: Instruction) -> str:
    targets = ", ".join(f"{arch.target} ({arch.name})" for arch in having(instruction))
    old = ", not in Beta 1" if isinstance(instruction.beta1, Unmodelled) else ", and Beta 1"
    return f"- NKI {instruction.release} and later{old}\n- targets: {targets}"
