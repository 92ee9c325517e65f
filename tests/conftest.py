"""Both dialects are importable in every test module, at its top; drawn tests have one of two depths.

Both depths draw the same values every time and have no deadlines; new draws are `make fuzz`.
"""

from __future__ import annotations

from hypothesis import settings

import nki_lab

nki_lab.activate()
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=100)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=30)
