"""The colours of figures, those of the views: in the light theme, the dark one, or whichever the page has."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from bokeh.models import CategoricalColorMapper, CustomJS, Model
from bokeh.plotting import figure

from nki_lab.diagnostic import coded_error
from nki_lab.export.colours import COLOURS

Theme = Literal["auto", "light", "dark"]

_FOLLOW: Final = """
// The page's theme: JupyterLab's, else an editor's, else the one that the page names, else what the system prefers.
const body = document.body, dark = window.matchMedia('(prefers-color-scheme: dark)');
const isDark = () => {
  const jupyter = document.querySelector('[data-jp-theme-light]');
  if (jupyter !== null) return jupyter.getAttribute('data-jp-theme-light') !== 'true';
  const editor = body.getAttribute('data-vscode-theme-kind');
  if (editor) return !editor.includes('light');
  const page = document.documentElement.getAttribute('theme');
  return page === 'dark' || (page !== 'light' && dark.matches);
};
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
let isShown = false;
const paint = () => {
  const wanted = isDark();
  if (wanted === isShown) return;
  isShown = wanted;
  models.forEach((model, at) => {
    const [from, to] = wanted ? [light[at], night[at]] : [night[at], light[at]];
    const name = names[at];
    // A colour that the user has changed since stays.
    const now = model[name];
    if (now !== null && typeof now === 'object' && 'value' in now) {
      if (same(now.value, from)) model[name] = {...now, value: to};
    } else if (same(now, from)) model[name] = to;
  });
};
if (!models[0].tags.includes('nki-follows')) {
  models[0].tags.push('nki-follows');
  const attributeFilter = ['data-jp-theme-light', 'data-vscode-theme-kind'];
  new MutationObserver(paint).observe(body, {attributes: true, attributeFilter});
  dark.addEventListener('change', paint);
}
paint();
"""


class Paint:
    """The colours of one figure. What `colour` is given to are properties of bokeh models, by name of the colour."""

    def __init__(self, theme: Theme) -> None:
        if theme not in get_args(Theme):
            raise coded_error(
                "NKI012",
                f"theme is {theme!r}",
                operand="theme",
                limit=f"one of {', '.join(get_args(Theme))}",
            )
        self._theme = theme
        self._places: list[tuple[Model, str, Any, Any]] = []

    def now(self, name: str) -> str:
        """Return a colour in the theme that the figure begins with."""
        return COLOURS[name].dark if self._theme == "dark" else COLOURS[name].light

    def colour(self, model: Model, **properties: str) -> None:
        """Set properties of a model to colours, which change with the theme of the page."""
        for name, colour in properties.items():
            self._set(model, name, COLOURS[colour].light, COLOURS[colour].dark)

    def mapped(self, names: list[str]) -> CategoricalColorMapper:
        """Return a map of names of colours, as a column has them, to these colours."""
        unique = list(dict.fromkeys(names))
        mapper = CategoricalColorMapper(factors=unique, palette=[COLOURS[name].light for name in unique])
        self._set(mapper, "palette", list(mapper.palette), [COLOURS[name].dark for name in unique])
        return mapper

    def _set(self, model: Model, name: str, light: Any, dark: Any) -> None:
        setattr(model, name, dark if self._theme == "dark" else light)
        self._places.append((model, name, light, dark))

    def follow(self, made: figure) -> None:
        """Let the figure take the theme of the page that shows it, and change with it."""
        if self._theme != "auto":
            return
        models, names, light, dark = (list(part) for part in zip(*self._places, strict=True))
        script = CustomJS(
            args={"figure": made, "models": models, "names": names, "light": light, "night": dark}, code=_FOLLOW
        )
        made.js_on_change("inner_width", script)  # set once the figure is laid out in a page
