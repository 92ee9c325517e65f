"""The result of `run.compare(other)`."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nki_lab.comparison import Compared, compare
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.export.comparison import data, sentence, text
from nki_lab.extras import extra

if TYPE_CHECKING:
    import pyarrow as pa

    from nki_lab.kernel_runtime.recording import Recording
    from nki_lab.widgets.comparison import ComparisonView

TableName = Literal["lines", "engines", "stalls", "memory", "edits", "instructions"]


class RunComparison:
    """The changes from one run to another one: latency, engines, lines of source, reasons to wait, memory.

    Lines are paired through the difference of the sources, instructions by line, iteration, operands and order.
    `str(comparison)` is a page of text, a notebook draws both runs; `view()` is a widget. `sentence` names what became
    slower or faster, `figures` has all numbers as objects, in picoseconds and bytes, `as_dict()` as plain data, in
    nanoseconds.
    """

    def __init__(self, before: Recording, after: Recording) -> None:
        self._before = before
        self._after = after

    @cached_property
    def figures(self) -> Compared:
        """The comparison as objects: sides, amounts, lines, edits, and pairs of instructions."""
        return compare(self._before, self._after)

    @property
    def sentence(self) -> str:
        """How much slower or faster the second run is, and which lines account for it; the amounts add up."""
        return sentence.headline(self.figures)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further sentences: the edit, other targets, and how far the runs can be compared."""
        return tuple(sentence.notes(self.figures))

    @property
    def slowdown(self) -> float:
        """The change of the latency as a part of the first run's: 0.12 where the second one takes 12 % longer.

        Infinite where the first run takes no time and the second one does.
        """
        change, quotient = self.figures.latency.change, self.figures.latency.quotient
        return quotient if quotient is not None else float("inf") if change else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON can say it; times in nanoseconds."""
        return data.as_data(self.figures)

    def to_frame(self, table: TableName = "lines") -> pa.Table:
        """Return a table as a pyarrow table: lines, engines, stalls, memory, edits or instructions.

        `to_frame().to_pandas()` makes a pandas one of it. Times are nanoseconds. NKI022 where the package pyarrow is
        missing; `pip install nki-lab[save]` brings it.
        """
        if table not in data.TABLES:
            raise coded_error(
                "NKI012",
                f"a comparison has no table {table!r}",
                operand="table",
                limit=f"tables: {', '.join(data.TABLES)}",
            )
        with extra("save", "tables of a comparison need", operand="to_frame"):
            import pyarrow

        return pyarrow.table(data.columns(self.figures, table, self._before, self._after))

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison as one HTML file that needs no network: both timelines, what differs, the sentence."""
        from nki_lab.export.comparison import html

        html.write(self.figures, self._before, self._after, path)
        return Path(path)

    def html(self) -> str:
        """Return the page that `to_html` writes."""
        from nki_lab.export.comparison import html

        return html.page(self.figures, self._before, self._after)

    def view(self) -> ComparisonView:
        """Return the widget that draws both runs, one over the other, with what belongs together between them.

        NKI022 where the notebook packages are missing; the extra `nki-lab[widgets]` brings them.
        """
        from nki_lab import widgets

        return widgets.compare(self._message, self._before, self._after)

    @cached_property
    def _message(self) -> bytes:
        from nki_lab.export.comparison.message import Sides, encode

        return encode(self.figures, Sides(self._before, self._after))

    def report(self) -> str:
        """Return the comparison as a page of text."""
        return text.report(self.figures)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"<comparison: {self.sentence}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """Return the text, the tables, and what the view draws: the runs themselves where they are small enough to be
        kept in a notebook, else the widget, fed by the kernel.
        """
        from nki_lab import widgets
        from nki_lab.dialects.environment import notebook_bytes
        from nki_lab.export.comparison import html

        outputs: dict[str, object] = {"text/plain": self.report(), "text/html": html.fragment(self.figures)}
        kept = widgets.pinned_comparison(self._message, self._before, self._after, notebook_bytes())
        if kept is not None:
            return {**outputs, widgets.COMPARISON_MIME: kept}
        try:
            return {**outputs, **widgets.data(self.view())}
        except NkiError:  # the packages are missing
            return outputs
