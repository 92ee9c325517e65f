"""Links to the pages about codes and names: on the documentation's site, else in the installed package.

The site is what the package's metadata lists as `Site` among its URLs. It has a page for each code, instruction and
name of `nki.language`; the package itself has the texts of the codes only.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache
from pathlib import Path
from typing import Final

from nki_lab import codes
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.language import namespaces

LABEL: Final = "site"
"""The label of the site's URL in the metadata; case does not count."""
_PACKAGE: Final = "nki-lab"
_ROOTS: Final = ("neuronxcc.", "nki.")


def code_page(code: str) -> str:
    """Return the place of a code's page below the site's root, without a suffix; empty for what is no code."""
    known = codes.find(code)
    return "" if known is None else f"codes/{known.code}"


def instruction_page(name: str) -> str:
    """Return the place of an instruction's page below the site's root, without a suffix; empty for other names."""
    return f"reference/isa/{name}" if name in TABLE else ""


def language_page(name: str) -> str:
    """Return the place of the page of a name of `nki.language`, without a suffix; empty for other names."""
    return f"reference/language/{name}" if name in namespaces.language_names() else ""


def code_link(code: str) -> str:
    """Return the URL of the page about a code: the site's, else that of the package's file; empty for no code."""
    known = codes.find(code)
    if known is None:
        return ""
    return _on_site(code_page(code)) or Path(codes.__file__).with_name(f"{known.slug}.md").as_uri()


def name_link(dotted: str) -> str:
    """Return the URL of the site's page about a name spelt in full; empty where it has none, or there is no site."""
    for root in _ROOTS:
        dotted = dotted.removeprefix(root)
    module, _, name = dotted.rpartition(".")
    if module == "isa":
        return _on_site(instruction_page(name))
    return _on_site(language_page(name)) if module == "language" else ""


def _on_site(place: str) -> str:
    root = site()
    return f"{root}/{place}.html" if root and place else ""


@cache
def site() -> str:
    """Return the URL of the documentation's site, without a slash at its end; empty where the metadata names none."""
    try:
        urls = importlib.metadata.metadata(_PACKAGE).get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:  # it runs from a folder
        return ""
    pairs = (str(item).partition(",") for item in urls)
    return next((url.strip().rstrip("/") for label, _, url in pairs if label.strip().lower() == LABEL), "")
