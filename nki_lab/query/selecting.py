"""Which codes are wanted: by number, by the beginning of numbers, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic
from nki_lab.source.noqa import ALWAYS_REPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Findings are kept that begin with one of `select` (all, where it is empty) and with none of `ignore`.

    What keeps a file from being checked is left out by `ignore` only.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def of(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings that are kept."""
        return [item for item in found if self.keeps(item.code)]

    def keeps(self, code: str) -> bool:
        """Whether findings of a code are kept."""
        wanted = not self.select or code.startswith(self.select) or code in ALWAYS_REPORTED
        return wanted and not (self.ignore and code.startswith(self.ignore))


def selectors(names: Iterable[str]) -> tuple[str, ...]:
    """The codes and beginnings of codes that `names` mean: `NKI213`, `NKI2`, `moving-limit`, an alias, `ALL`.

    Raises ValueError for a name that no code has.
    """
    return tuple(_selector(name) for name in names)


def _selector(name: str) -> str:
    wanted = name.strip().upper()
    if wanted == "ALL":
        return "NKI"
    known = codes.find(name)
    if known is not None:
        return known.code
    if wanted and any(item.code.startswith(wanted) for item in codes.all_codes()):
        return wanted
    raise ValueError(name)


def split(texts: Sequence[str]) -> list[str]:
    """The names in texts such as `NKI1,NKI213`."""
    return [name for text in texts for part in text.split(",") if (name := part.strip())]
