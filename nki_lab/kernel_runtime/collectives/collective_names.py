"""`nki.collectives`: everything it exports, by name."""

from __future__ import annotations

from typing import Any

from nki_lab.kernel_runtime.collectives import fixed_length_collectives, variable_length_collectives
from nki_lab.kernel_runtime.collectives.replica_groups import ReplicaGroup

_FUNCTIONS = {
    item.__name__: item for item in fixed_length_collectives.FUNCTIONS + variable_length_collectives.FUNCTIONS
}
for _function in _FUNCTIONS.values():
    _function.__module__ = "nki.collectives"


def collective_names() -> dict[str, Any]:
    """Everything `import nki.collectives` gives, by name."""
    return _FUNCTIONS | {"ReplicaGroup": ReplicaGroup}
