"""The critical paths of two compared runs, by what they do: work of each kind of lane, and waits by reason."""

from __future__ import annotations

from nki_lab.comparison.compared import Compared
from nki_lab.kernel_runtime.vocabulary import KINDS, NO_KIND, STALLS, reason
from nki_lab.plots.columns.frame import Frame, of_records

_NAMES = ("part", "name", "label", "kind", "before_ns", "after_ns", "change_ns")
_TEXTS = ("part", "name", "label", "kind")


def differences(found: Compared) -> Frame:
    """Return a row for each kind of work and each reason to wait, the largest changes first; times in nanoseconds.

    The changes add up to that of the latency.
    """
    kinds = {stall.name: stall.kind or NO_KIND for stall in STALLS}
    given = [("works", item.name, KINDS.get(item.name, item.name), item.name, item) for item in found.work]
    given += [
        ("waits", item.name, f"waits for {reason(item.name)}", kinds.get(item.name, NO_KIND), item.critical)
        for item in found.stalls
    ]
    records = [
        (part, name, label, kind, (amount.before or 0) / 1000, (amount.after or 0) / 1000, (amount.change or 0) / 1000)
        for part, name, label, kind, amount in given
        if amount.before or amount.after
    ]
    return of_records(_NAMES, sorted(records, key=lambda record: (-abs(record[-1]), record[2])), texts=_TEXTS)
