"""`nki.collectives`: everything it exports, by name."""

from __future__ import annotations

from typing import Any

from nki_lab.kernel_runtime.frontend import collectives, counted
from nki_lab.kernel_runtime.frontend.replicas import ReplicaGroup

_FUNCTIONS = {item.__name__: item for item in (*collectives.FUNCTIONS, *counted.FUNCTIONS)}
for _function in _FUNCTIONS.values():
    _function.__module__ = "nki.collectives"


def collective_names() -> dict[str, Any]:
    """Everything `import nki.collectives` gives, by name."""
    return _FUNCTIONS | {"ReplicaGroup": ReplicaGroup}
