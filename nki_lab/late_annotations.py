"""Annotations and signatures of users' functions and classes.

Since Python 3.14 annotations are evaluated when they are asked for, and may have names that are imported for type
checkers only: who asks in the plain way gets the NameError of such a name. Here all annotations of that function or
class are given as texts, as with `from __future__ import annotations`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    import annotationlib

    def annotations_of(owner: Callable[..., Any] | type) -> dict[str, Any]:
        """Return the annotations of a function, or those of a class itself."""
        try:
            return inspect.get_annotations(owner)
        except Exception:  # noqa: BLE001 - an annotation is any expression
            return annotationlib.get_annotations(owner, format=annotationlib.Format.STRING)

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a callable; raises TypeError or ValueError where it has none."""
        try:
            return inspect.signature(function)
        except Exception:  # noqa: BLE001 - an annotation is any expression
            return inspect.signature(function, annotation_format=annotationlib.Format.STRING)

else:

    def annotations_of(owner: Callable[..., Any] | type) -> dict[str, Any]:
        """Return the annotations of a function, or those of a class itself."""
        return inspect.get_annotations(owner)

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a callable; raises TypeError or ValueError where it has none."""
        return inspect.signature(function)
