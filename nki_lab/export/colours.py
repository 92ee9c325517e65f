"""The colours of the views. Hue says which engine works, or which one is waited for.

Pages read them from style sheet variables, `--nki-tensor` for "tensor", which `scripts/views_schema.py` writes into
`labextension/src/_generated/colours.css`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

LABELS: Final = ("#101216", "#ffffff")
"""The colours of text on a colour: dark, or white where that is read better."""


class Colour(NamedTuple):
    """A colour in the light and in the dark theme. `jupyter` is the variable that gives it in a theme of JupyterLab
    that is neither of JupyterLab's own ones."""

    light: str
    dark: str
    jupyter: str = ""


COLOURS: Final = MappingProxyType(
    {
        # Kinds of lanes, and labels on them.
        "tensor": Colour("#2b70dc", "#6aa6ff"),
        "vector": Colour("#07805f", "#36d3ae"),
        "scalar": Colour("#bd8408", "#f3c356"),
        "gpsimd": Colour("#8a2a9e", "#b155dd"),
        "sync": Colour("#838d9a", "#7c8592"),
        "dma": Colour("#963005", "#d8581f"),
        "cc": Colour("#2b2f6b", "#e9e6ff"),
        "on-tensor": Colour("#ffffff", "#101216"),
        "on-vector": Colour("#ffffff", "#101216"),
        "on-scalar": Colour("#14161a", "#101216"),
        "on-gpsimd": Colour("#ffffff", "#101216"),
        "on-sync": Colour("#14161a", "#101216"),
        "on-dma": Colour("#ffffff", "#101216"),
        "on-cc": Colour("#ffffff", "#101216"),
        # Grounds, lines and text.
        "bg": Colour("#ffffff", "#16181c", "--jp-layout-color0"),
        "sunk": Colour("#f6f7f9", "#1d2025", "--jp-layout-color1"),
        "hover": Colour("#eef0f3", "#262a31", "--jp-layout-color2"),
        "line": Colour("#e3e6ea", "#2a2e35", "--jp-border-color2"),
        "line2": Colour("#cfd4da", "#3c424c", "--jp-border-color1"),
        "ink": Colour("#14161a", "#f1f3f5", "--jp-ui-font-color0"),
        "ink2": Colour("#4a515b", "#b9c0ca", "--jp-ui-font-color1"),
        "ink3": Colour("#67707d", "#8f98a5", "--jp-ui-font-color2"),
        "faint": Colour("#9aa2ad", "#66707d"),
        # Severities, each with its ground.
        "error": Colour("#ce1a63", "#ff7a9c"),
        "error-ground": Colour("#fff0f5", "#3a1825"),
        "warn": Colour("#9a6700", "#e3b341"),
        "warn-ground": Colour("#fff6dd", "#332a12"),
        "ok": Colour("#18794a", "#4cc38a"),
        "ok-ground": Colour("#e6f6ec", "#12301f"),
        # Values: from the ground to a middle and a strong end; below zero, above it, and of errors.
        "below-1": Colour("#5b93ea", "#2f6fd6"),
        "below-2": Colour("#0c3f94", "#9cc3ff"),
        "above-1": Colour("#e39a63", "#cf6829"),
        "above-2": Colour("#8f3405", "#ffbd8a"),
        "size-1": Colour("#56a384", "#22916f"),
        "size-2": Colour("#06301f", "#d3ffef"),
        # Colour by op, line or tensor. Labels on them are dark in both themes.
        "tint-1": Colour("#dd5a85", "#f58bac"),
        "tint-2": Colour("#cd6c28", "#e8986a"),
        "tint-3": Colour("#9e8700", "#c3ac4c"),
        "tint-4": Colour("#4a9b3b", "#83be78"),
        "tint-5": Colour("#009e8c", "#4cc1b1"),
        "tint-6": Colour("#0096c6", "#52bbe4"),
        "tint-7": Colour("#6983e1", "#95abfa"),
        "tint-8": Colour("#aa6cce", "#ca98e8"),
    }
)
"""By the names of their variables."""
