"""Both dialects are importable in every test module, at its top; drawn tests have one of two depths.

Profiles of tests are not kept on disk. Both depths draw the same values every time and have no deadlines; new draws are `make fuzz`.
"""

from __future__ import annotations

import os

from hypothesis import settings

import nki_lab

os.environ["NKI_LAB_CACHE"] = "off"
nki_lab.activate()
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=100)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=30)
