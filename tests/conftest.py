"""Both dialects are importable in every test module, at its top."""

from __future__ import annotations

import nki_lab

nki_lab.activate()
