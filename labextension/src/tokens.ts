/** The colours of the style sheets as a canvas needs them, and which theme the page has. */
import { HUES, LABEL_COLOURS, type Hue } from './_generated/schema';
import type { Palette } from './types';

const TINTS = 8;

/** JupyterLab's own themes have our neutral colours, other themes theirs. */
const OWN_THEMES = new Set(['JupyterLab Light', 'JupyterLab Dark']);

type Theme = 'light' | 'dark';

const PAGE_THEME = 'theme';
const DARK = '(prefers-color-scheme: dark)';
const FORCED = '(forced-colors: active)';

/** All tokens as they are now on `root`, an element with the class `nki-root`. */
export function palette(root: Element): Palette {
  const style = getComputedStyle(root);
  const token = (name: string): string => style.getPropertyValue(`--nki-${name}`).trim();
  const hues = (prefix: string): Record<Hue, string> =>
    Object.fromEntries(HUES.map(hue => [hue, token(prefix + hue)])) as Record<Hue, string>;
  return {
    theme: themeOf(root),
    hue: hues(''),
    onHue: hues('on-'),
    bg: token('bg'),
    sunk: token('sunk'),
    hoverGround: token('hover'),
    line: token('line'),
    line2: token('line2'),
    ink: token('ink'),
    ink2: token('ink2'),
    ink3: token('ink3'),
    faint: token('faint'),
    error: token('error'),
    errorGround: token('error-ground'),
    warn: token('warn'),
    warnGround: token('warn-ground'),
    ok: token('ok'),
    uiFont: token('ui-font') || 'sans-serif',
    codeFont: token('code-font') || 'monospace',
    values: {
      below: [token('below-1'), token('below-2')],
      above: [token('above-1'), token('above-2')],
      size: [token('size-1'), token('size-2')],
    },
    tints: Array.from({ length: TINTS }, (_, index) => token(`tint-${index + 1}`)),
  };
}

/** The page's theme: JupyterLab's, else an editor's, else the one that the page names, else what the system prefers. */
export function themeOf(root: Element): Theme {
  // Forced colours come from the system, whatever the page's theme.
  if (window.matchMedia(FORCED).matches) return window.matchMedia(DARK).matches ? 'dark' : 'light';
  const jupyter = root.closest('[data-jp-theme-light]') ?? document.querySelector('[data-jp-theme-light]');
  if (jupyter) return jupyter.getAttribute('data-jp-theme-light') === 'true' ? 'light' : 'dark';
  const editor = document.body.getAttribute('data-vscode-theme-kind');
  if (editor) return editor.includes('light') ? 'light' : 'dark';
  const page = document.documentElement.getAttribute(PAGE_THEME); // Colab
  if (page === 'light' || page === 'dark') return page;
  return window.matchMedia(DARK).matches ? 'dark' : 'light';
}

/** Put the page's theme on `root` now and whenever it changes; then call back. Returns what ends it. */
export function watchTheme(root: HTMLElement, callback: (theme: Theme) => void): () => void {
  const apply = (): void => {
    const name = document.body.getAttribute('data-jp-theme-name');
    root.dataset.nkiTheme = themeOf(root);
    root.dataset.nkiGround = name && !OWN_THEMES.has(name) ? 'jupyter' : 'own';
    callback(themeOf(root));
  };
  const observer = new MutationObserver(apply);
  const attributes = ['data-jp-theme-light', 'data-jp-theme-name', 'data-vscode-theme-kind', PAGE_THEME];
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributes: true, attributeFilter: attributes });
  }
  const media = [DARK, FORCED].map(query => window.matchMedia(query));
  for (const one of media) one.addEventListener('change', apply);
  apply();
  return () => {
    observer.disconnect();
    for (const one of media) one.removeEventListener('change', apply);
  };
}

/** Dark or white, whichever is read better on a colour written #RRGGBB. */
export function labelOn(colour: string): string {
  return LABEL_COLOURS[luminance(colour) > 0.18 ? 0 : 1];
}

/** Contrast of two colours written #RRGGBB, 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** Red, green and blue of #RRGGBB, linear, 0 to 1. */
export function linear(colour: string): [number, number, number] {
  const part = (at: number): number => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}

function luminance(colour: string): number {
  const [red, green, blue] = linear(colour);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
