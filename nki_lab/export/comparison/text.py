"""A comparison as a page of text."""

from __future__ import annotations

from nki_lab.comparison.compared import Compared
from nki_lab.export import text
from nki_lab.export.comparison.sentence import headline, notes, side_name
from nki_lab.export.comparison.tables import legend, tables


def report(found: Compared) -> str:
    """Return the comparison: the sentence, what else there is to know, and the tables."""
    shown = tables(found)
    head = [headline(found), *notes(found), f"before  {side_name(found.before)}", f"after   {side_name(found.after)}"]
    blocks = [text.table(table.header, table.rows, left=table.left) for table in shown]
    return "\n\n".join(["\n".join(head), *blocks, *legend(shown)]) + "\n"
