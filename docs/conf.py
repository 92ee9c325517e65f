"""How Sphinx makes the site of the pages that `scripts/pages` writes: `make docs`."""

import nki_lab

project = "nki_lab"
version = release = nki_lab.__version__
copyright = "the authors of nki_lab"  # noqa: A001 - Sphinx reads this name
language = "en"

extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build"]
# A part that a page of another folder may join: a pattern that matches nothing yet is no fault.
suppress_warnings = ["toc.empty_glob"]
# `nki-lab` commands and NKI itself link to pages with these; everything else is written out.
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
copybutton_prompt_text = "$ "
copybutton_selector = "div:not(.output) > div.highlight > pre"

html_theme = "furo"
html_title = "nki_lab"
html_static_path = ["_static"]
html_css_files = ["colours.css", "site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_favicon = "_static/icon.svg"
# The grounds, lines and inks of the views, in colours.css; links are the brighter or darker blue that text needs.
_COLOURS = {
    "color-background-primary": "var(--nki-bg)",
    "color-background-secondary": "var(--nki-sunk)",
    "color-background-hover": "var(--nki-hover)",
    "color-background-border": "var(--nki-line)",
    "color-foreground-primary": "var(--nki-ink)",
    "color-foreground-secondary": "var(--nki-ink2)",
    "color-foreground-muted": "var(--nki-ink3)",
    "color-foreground-border": "var(--nki-line2)",
    "color-code-background": "var(--nki-sunk)",
    "color-brand-primary": "var(--nki-ink)",
}
_FONTS = {
    "font-stack": 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
    "font-stack--monospace": '"JetBrains Mono", "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace',
}
html_theme_options = {
    "light_css_variables": _COLOURS | _FONTS | {"color-brand-content": "#1f5cba", "color-brand-visited": "#1f5cba"},
    "dark_css_variables": _COLOURS | {"color-brand-content": "#8fbcff", "color-brand-visited": "#8fbcff"},
}
