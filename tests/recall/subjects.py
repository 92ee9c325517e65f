"""The kernels that faults are put into: more than twenty, those of the examples."""

from __future__ import annotations

from pathlib import Path

from tests.verdicts import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"


def files() -> list[Path]:
    """The examples, and kernels of the corpus with what those lack: device loops, helpers and views."""
    corpus = [
        KERNELS / f"{name}.py" for name in ("device_loops", "device_while_helper", "helpers_in_class", "transposes")
    ]
    return [*sorted(EXAMPLES.glob("*.py")), *(file for file in corpus if file.exists())]
