import { afterEach, describe, expect, it } from 'vitest';

import css from '../src/_generated/colours.css';
import { HUES } from '../src/_generated/schema';
import { contrast, labelOn, linear, palette, watchTheme } from '../src/tokens';

type Colour = [number, number, number];

/** Machado, Oliveira, Fernandes 2009: full severity, on linear RGB. */
const DEFICIENCIES: Record<string, readonly (readonly number[])[]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

/** The tokens of a rule of the style sheet. */
function tokens(selector: string): Record<string, string> {
  const rule = css.split(`${selector} {`)[1]?.split('}')[0] ?? '';
  return Object.fromEntries(
    [...rule.matchAll(/--nki-([\w-]+): (#[0-9A-Fa-f]{6});/g)].map(found => [found[1], found[2]]),
  );
}

const THEMES = { light: tokens('.nki-root'), dark: tokens(".nki-root[data-nki-theme='dark']") };

function value(theme: Record<string, string>, name: string): string {
  const found = theme[name];
  if (!found) throw new Error(`no token ${name}`);
  return found;
}

function seen(colour: string, deficiency: readonly (readonly number[])[]): Colour {
  const [red, green, blue] = linear(colour);
  return deficiency.map(([a = 0, b = 0, c = 0]) => Math.min(1, Math.max(0, a * red + b * green + c * blue))) as Colour;
}

function oklab([red, green, blue]: Colour): Colour {
  const l = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const m = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const s = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function distance(one: string, other: string, deficiency: readonly (readonly number[])[]): number {
  const [a, b] = [oklab(seen(one, deficiency)), oklab(seen(other, deficiency))];
  return 100 * Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

describe.each(Object.entries(THEMES))('the %s theme', (name, theme) => {
  it('has all tokens of the other', () => {
    expect(Object.keys(theme).sort()).toEqual(Object.keys(THEMES[name === 'light' ? 'dark' : 'light']).sort());
  });

  it.each(HUES)('shows %s on its grounds, and a label on it', hue => {
    expect(contrast(value(theme, hue), value(theme, 'bg'))).toBeGreaterThanOrEqual(3);
    expect(contrast(value(theme, hue), value(theme, 'sunk'))).toBeGreaterThanOrEqual(3);
    expect(contrast(value(theme, hue), value(theme, `on-${hue}`))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(['ink', 'ink2', 'ink3', 'error', 'warn', 'ok'])('lets %s be read as text', ink => {
    expect(contrast(value(theme, ink), value(theme, 'bg'))).toBeGreaterThanOrEqual(4.5);
    expect(contrast(value(theme, ink), value(theme, 'sunk'))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(['error', 'warn', 'ok'])('lets %s be read on its own ground', severity => {
    expect(contrast(value(theme, severity), value(theme, `${severity}-ground`))).toBeGreaterThanOrEqual(4.5);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('shows tint %i on its ground, and a dark label on it', tint => {
    const colour = value(theme, `tint-${String(tint)}`);
    expect(contrast(colour, value(theme, 'bg'))).toBeGreaterThanOrEqual(3);
    expect(contrast(colour, labelOn(colour))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(Object.entries(DEFICIENCIES))('keeps engines apart with %s', (_, matrix) => {
    const pairs = HUES.flatMap((one, index) => HUES.slice(index + 1).map(other => [one, other] as const));
    const distances = pairs.map(([one, other]) => distance(value(theme, one), value(theme, other), matrix));
    expect(Math.min(...distances)).toBeGreaterThanOrEqual(5.5);
  });

  it.each(['deuteranopia', 'protanopia'])(
    'keeps Scalar and DMA, both brownish then, apart by lightness with %s',
    kind => {
      const [scalar, dma] = ['scalar', 'dma'].map(hue => value(theme, hue)) as [string, string];
      const matrix = DEFICIENCIES[kind] ?? [];
      expect(distance(scalar, dma, matrix)).toBeGreaterThanOrEqual(18);
      expect(oklab(seen(scalar, matrix))[0] - oklab(seen(dma, matrix))[0]).toBeGreaterThanOrEqual(0.18);
    },
  );

  it.each(['normal', 'deuteranopia', 'protanopia'])('keeps errors from looking like DMA with %s', kind => {
    expect(distance(value(theme, 'error'), value(theme, 'dma'), DEFICIENCIES[kind] ?? [])).toBeGreaterThanOrEqual(8);
  });
});

describe('labelOn', () => {
  it.each(HUES)('agrees with the token on %s', hue => {
    for (const theme of Object.values(THEMES)) {
      const label = labelOn(value(theme, hue));
      expect(contrast(value(theme, hue), label)).toBeGreaterThanOrEqual(4.5);
    }
  });
});

describe('the theme of the page', () => {
  afterEach(() => {
    document.body.removeAttribute('data-jp-theme-light');
    document.body.removeAttribute('data-jp-theme-name');
    document.body.replaceChildren();
  });

  it('follows JupyterLab while it is watched', async () => {
    const root = document.createElement('div');
    document.body.append(root);
    document.body.setAttribute('data-jp-theme-light', 'true');
    const heard: string[] = [];
    const stop = watchTheme(root, theme => heard.push(theme));
    expect(root.dataset.nkiTheme).toBe('light');
    document.body.setAttribute('data-jp-theme-light', 'false');
    await new Promise(resolve => setTimeout(resolve, 10));
    expect(root.dataset.nkiTheme).toBe('dark');
    stop();
    document.body.setAttribute('data-jp-theme-light', 'true');
    await new Promise(resolve => setTimeout(resolve, 10));
    expect(heard).toEqual(['light', 'dark']);
  });

  it('takes the neutral colours of a foreign theme', () => {
    const root = document.createElement('div');
    document.body.append(root);
    document.body.setAttribute('data-jp-theme-name', 'Solarized');
    const stop = watchTheme(root, () => undefined);
    expect(root.dataset.nkiGround).toBe('jupyter');
    stop();
  });

  it('is resolved into a palette', () => {
    const style = document.createElement('style');
    style.textContent = css;
    const root = document.createElement('div');
    root.className = 'nki-root';
    document.body.append(style, root);
    const found = palette(root);
    expect(found.hue.tensor).toBe('#2b70dc');
    expect(found.onHue.scalar).toBe('#14161a');
    expect(found.tints).toHaveLength(8);
  });
});
