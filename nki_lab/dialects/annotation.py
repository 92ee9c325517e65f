"""`nki.typing`: what kernels write behind the colon of a parameter or a tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.late_annotations import annotations_of
from nki_lab.session.arguments import bound


class TensorAnnotation:
    """A tensor of known shape: `nt.tensor[128, 512]`, or with its dtype `nt.tensor[(128, 512), nl.float32]`.

    `shape` is None where the annotation leaves it open, and so is each dimension that is no number. `dtype` is None or
    what was written. `mutable` marks the annotation with which Beta 1 allows a kernel to write an argument.
    """

    __slots__ = ("dtype", "mutable", "shape")

    def __init__(self, key: Any, *, mutable: bool = False) -> None:
        items = key if isinstance(key, tuple) else (key,)
        self.dtype = None
        if items and isinstance(items[0], (tuple, list)):
            self.dtype = items[1] if len(items) > 1 else None
            items = tuple(items[0])
        self.shape = tuple(item if isinstance(item, int) else None for item in items)
        self.mutable = mutable

    def __repr__(self) -> str:
        sizes = ", ".join("..." if size is None else str(size) for size in self.shape)
        return f"nt.{'mutable_tensor' if self.mutable else 'tensor'}[{sizes}]"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of `shape` is one of these."""
        if len(shape) != len(self.shape):
            return False
        return all(size in (None, given) for size, given in zip(self.shape, shape, strict=True))

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError(f"{self!r} is an annotation")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class _TensorType(type):
    """The class of the bare annotations: subscripted they give a TensorAnnotation, in isinstance they mean tensors."""

    mutable = False

    def __getitem__(cls, key: Any) -> Any:
        if key is mutable:  # which gives no shape
            return mutable_tensor
        return TensorAnnotation(key, mutable=cls.mutable)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, NkiTensor)


class mutable:
    """The older spelling of `nt.mutable_tensor`: `nt.tensor[nt.mutable]`."""


class tensor(metaclass=_TensorType):
    """Annotation of a tensor: `nt.tensor`, or with its shape `nt.tensor[128, 512]`."""


class mutable_tensor(tensor):
    """Annotation of a tensor argument that the kernel may write."""

    mutable = True


def _meant(item: Any, function: Callable[..., Any]) -> Any:
    """An annotation; one that `from __future__ import annotations` keeps as text is evaluated like a type hint."""
    if not isinstance(item, str) or "tensor[" not in item:
        return item
    try:
        return eval(item, getattr(function, "__globals__", {}))
    except Exception:  # noqa: BLE001 - names that exist for type checkers only
        return None


def check_shapes(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Compare the arguments with the shapes that the parameters declare; NKI203 for the first that differs."""
    meant = {name: _meant(item, function) for name, item in annotations_of(function).items()}
    wanted = {name: item for name, item in meant.items() if isinstance(item, TensorAnnotation)}
    if not wanted:
        return
    for name, value in bound(function, args, kwargs).arguments.items():
        shape = getattr(value, "shape", None)
        if name not in wanted or shape is None or wanted[name].fits(tuple(shape)):
            continue
        raise coded_error(
            "NKI203",
            f"argument {name} is {tuple(shape)}, its annotation says {wanted[name]!r}",
            operand=name,
            limit="an annotated argument has the declared shape",
            help=f"pass an array of that shape, or change the annotation of {name}",
        )
