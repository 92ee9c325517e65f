"""The coverage of NKI's published interface, item by item: `nki-lab doctor --coverage`.

What is declared and what a cost is worth is asked of the declarations. That an item is computed and compared with a
reference, and that each limit of the inventory is broken or shown by a test, is evidence of the tests; `coverage.json`
brings it along, and a test keeps it fresh.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.dialects import current
from nki_lab.dialects.kernel import Kernel
from nki_lab.isa.spec import TABLE, Instruction
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES
from nki_lab.query.examples import having, use_of

KINDS: Final = ("coded", "shown", "reason")
"""Kinds of evidence for a limit: refused with a code, shown to hold, or nothing to break, for a written reason."""


def evidence() -> dict[str, Any]:
    """Return the evidence of the tests: `release`, and `items` with `name`, `kind`, `compared` and `limits`."""
    found: dict[str, Any] = json.loads(resources.files("nki_lab.cli").joinpath("coverage.json").read_text("utf-8"))
    return found


def functions() -> dict[str, list[str]]:
    """Return the published functions of the modules that kernels import them from."""
    found: dict[str, list[str]] = {"nki.language": [], "nki.isa": [], "nki.collectives": []}
    for entry in evidence()["items"]:
        module, _, name = entry["name"].rpartition(".")
        if entry["kind"] == "function" and module in found:
            found[module].append(name)
    return found


def coverage() -> dict[str, Any]:
    """Every item of the inventory with what is known about it, and the totals; plain data.

    `own` are instructions that are declared here and that NKI does not have, with the confidence of their costs.
    """
    known = evidence()
    items = [_item(entry) for entry in known["items"]]
    published = functions()["nki.isa"]
    own = [
        {"name": f"nki.isa.{name}", "cost": confidences(instruction)}
        for name, instruction in TABLE.items()
        if name not in published
    ]
    return {"release": known["release"], "totals": _totals(items), "items": items, "own": own}


def _item(entry: Mapping[str, Any]) -> dict[str, Any]:
    name: str = entry["name"]
    instruction = TABLE.get(name.removeprefix("nki.isa."))
    return {
        "name": name,
        "kind": entry["kind"],
        "declared": is_declared(name),
        "compared": entry["compared"],
        "limits": entry["limits"],
        "cost": {} if instruction is None else confidences(instruction),
    }


def _totals(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    items = list(items)
    limits = Counter(limit["kind"] for item in items for limit in item["limits"])
    costs = Counter(trust for item in items for trust in item["cost"].values())
    return {
        "items": len(items),
        "declared": sum(item["declared"] for item in items),
        "compared": sum(item["declared"] and item["compared"] for item in items),
        "limits": {"all": sum(limits.values())} | {kind: limits[kind] for kind in KINDS},
        "codes": len({code for item in items for limit in item["limits"] for code in limit.get("codes", ())}),
        "costs": {trust: costs[trust] for trust in CONFIDENCES},
        "guessed_costs": sum("guess" in item["cost"].values() for item in items),
    }


def is_declared(name: str) -> bool:
    """Whether the current dialect has the item, and not only a stand-in that refuses to be called."""
    parts = name.split(".")
    modules = current.modules()
    if name in modules:
        return True
    cut = next((n for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in modules), 0)
    made: Any = modules.get(".".join(parts[:cut]))
    for part in parts[cut:]:
        if made is modules["nki.language"] and part == "_TileSize":
            made = vars(made)["tile_size"]
        elif made is modules["nki"] and part == "Kernel":
            made = Kernel
        else:
            made = getattr(made, part, None)
        if made is None:
            return False
    return not getattr(made, "is_stand_in", False)


# -- costs -------------------------------------------------------------------------------------------------------------


def confidences(instruction: Instruction) -> dict[str, str]:
    """Return the confidence of the cost of the instruction's example, by the generations that have it."""
    assert callable(instruction.cost)
    return {arch.name: instruction.cost(use_of(instruction, arch)).confidence for arch in having(instruction)}


# -- texts -------------------------------------------------------------------------------------------------------------


def as_text(found: Mapping[str, Any]) -> str:
    """A line for each item, what is missing, and the totals."""
    items, totals = found["items"], found["totals"]
    width = max(len(item["name"]) for item in items)
    lines = [f"{'item':<{width}}  declared  compared  limits: {' '.join(KINDS)}  cost", ""]
    lines += [_line(item, width) for item in items]
    limits, costs = totals["limits"], totals["costs"]
    trusts = ", ".join(f"{trust} {costs[trust]}" for trust in CONFIDENCES)
    lines += [
        "",
        f"NKI {found['release']}: {totals['items']} items, {totals['declared']} declared,",
        f"  {totals['compared']} of them computed and compared with a reference",
        f"limits and behaviours stated: {limits['all']}, of which {limits['coded']} are refused or reported with one",
        f"  of {totals['codes']} codes, {limits['shown']} shown to hold, and {limits['reason']} nothing to break",
        f"costs by generation: {trusts}; instructions with a guessed cost: {totals['guessed_costs']}",
    ]
    missing = ", ".join(item["name"] for item in items if not item["declared"])
    own = ", ".join(item["name"] for item in found["own"])
    lines += [f"not modelled: {missing}"] * bool(missing)
    lines += [f"declared and not part of NKI {found['release']}: {own}"] * bool(own)
    return "\n".join(lines)


def _line(item: Mapping[str, Any], width: int) -> str:
    counts = Counter(limit["kind"] for limit in item["limits"])
    limits = " ".join(f"{counts[kind] or '-':>5}" for kind in KINDS)
    trust = next((trust for trust in reversed(CONFIDENCES) if trust in item["cost"].values()), "")
    marks = f"{'yes' if item['declared'] else 'no':<8}  {'yes' if item['compared'] else 'no':<8}"
    return f"{item['name']:<{width}}  {marks}      {limits}   {trust}".rstrip()
