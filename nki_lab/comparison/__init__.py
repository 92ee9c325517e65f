"""Two recordings side by side: which lines and instructions are the same, and where their times differ."""

from nki_lab.comparison.compared import Compared, compare

__all__ = ["Compared", "compare"]
