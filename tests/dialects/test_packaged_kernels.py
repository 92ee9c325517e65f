"""`neuronxcc.nki.kernels`: kernels whose source AWS publishes as `nki_samples.reference`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError

SOURCE = """
from neuronxcc import nki
import neuronxcc.nki.language as nl

@nki.jit
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2)
    return out
"""


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "nki_samples" / "reference"
    folder.mkdir(parents=True)
    for place in (folder.parent, folder):
        (place / "__init__.py").write_text("")
    (folder / "attention.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("nki_samples")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return folder


def test_they_are_those_of_the_samples_on_the_path(samples: Path) -> None:
    from neuronxcc.nki.kernels.attention import twice  # type: ignore[import-not-found]

    np.testing.assert_array_equal(twice(np.ones((4, 4), np.float32)), np.full((4, 4), 2, np.float32))
    with pytest.raises(NkiError, match=r"NKI010 neuronxcc\.nki\.kernels\.attention\.flash_fwd"):
        from neuronxcc.nki.kernels.attention import flash_fwd  # noqa: F401
    for name in [name for name in sys.modules if name.startswith("nki_samples")]:
        del sys.modules[name]


def test_without_samples_the_error_says_where_their_source_is() -> None:
    with pytest.raises(ImportError, match=r"NKI010 (.|\n)*github\.com/aws-neuron/nki-samples"):
        from neuronxcc.nki.kernels.vision import resize_nearest_fixed_dma_kernel  # noqa: F401


def test_what_the_samples_themselves_lack_is_no_missing_kernel(samples: Path) -> None:
    (samples / "vision.py").write_text("import a_package_that_nobody_has\n")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        importlib.import_module("neuronxcc.nki.kernels.vision").resize_nearest_fixed_dma_kernel
    for name in [name for name in sys.modules if name.startswith("nki_samples")]:
        del sys.modules[name]
