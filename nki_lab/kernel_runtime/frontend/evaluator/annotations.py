"""Annotations of local variables: shapes that Python never looks at, and that the Beta 1 compiler compared."""

from __future__ import annotations

import ast

from nki_lab.diagnostic import diagnose
from nki_lab.kernel_runtime.frontend.evaluator.compiler import Expression, compile_expression
from nki_lab.kernel_runtime.frontend.evaluator.interpreter import Frame
from nki_lab.kernel_runtime.frontend.evaluator.scopes import Scope
from nki_lab.kernel_runtime.frontend.evaluator.values import Annotation, Value
from nki_lab.kernel_runtime.tensor import NkiTensor


def declared_shape(annotation: ast.expr, scope: Scope) -> Expression | None:
    """Return the function that evaluates `nt.tensor[...]`; None for annotations of other types."""
    base = annotation.value if isinstance(annotation, ast.Subscript) else None
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return compile_expression(annotation, scope) if name == "tensor" else None


def compare_shape(frame: Frame, node: ast.AnnAssign, tensor: NkiTensor, declared: Value) -> None:
    """Report a tensor of another shape than the annotation has; sizes that are no numbers are not compared."""
    shape = tuple(declared.shape) if isinstance(declared, Annotation) else ()
    if not shape or any(type(size) is not int for size in shape):
        return
    if shape != tuple(tensor._shape):
        name = ast.unparse(node.target)
        frame.interpreter.record(
            diagnose(
                "NKI123",
                f"{name} is annotated with the shape {shape} and bound to a tensor of shape {tuple(tensor._shape)}",
                limit="the annotation of a local tensor is its shape",
                help="correct the annotation or the expression",
            ),
            node.annotation,
            frame,
        )
