/** A page without pixels: canvases remember what was written and drawn on them. */
import { vi } from 'vitest';

import type { Palette } from '../../src/types';

export interface Sheet {
  readonly canvas: HTMLCanvasElement;
  /** Methods called since it was blank, in order; a test may empty it. */
  readonly calls: string[];
  readonly texts: string[];
}

/** Canvases of `width` pixels. Returns what was drawn, oldest canvas first. */
export function fakeScreen(width: number): readonly Sheet[] {
  const sheets: Sheet[] = [];
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockImplementation(function (this: HTMLCanvasElement) {
    const sheet: Sheet = { canvas: this, calls: [], texts: [] };
    sheets.push(sheet);
    return context(sheet) as never;
  });
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(width);
  vi.stubGlobal('Path2D', FakePath);
  vi.stubGlobal('DOMMatrix', FakeMatrix);
  return sheets;
}

class FakePath {
  readonly rect = nothing;
  readonly moveTo = nothing;
  readonly lineTo = nothing;
  readonly closePath = nothing;
}

class FakeMatrix {
  scale(): this {
    return this;
  }
}

function nothing(): void {
  // Nothing is drawn.
}

/** Colours that differ from each other. */
export function fakePalette(): Palette {
  const names = ['tensor', 'vector', 'scalar', 'gpsimd', 'sync', 'dma', 'cc'] as const;
  const hues = Object.fromEntries(names.map((name, at) => [name, `#0000${at}0`])) as Palette['hue'];
  const neutral = ['bg', 'sunk', 'hoverGround', 'line', 'line2', 'ink', 'ink2', 'ink3', 'faint'];
  const words = ['error', 'errorGround', 'warn', 'warnGround', 'ok'];
  const others = Object.fromEntries([...neutral, ...words].map((name, at) => [name, `#00${10 + at}00`]));
  const tints = Array.from({ length: 8 }, (_, at) => `#${10 + at}0000`);
  const values = {
    below: ['#0000aa', '#0000ff'],
    above: ['#aa0000', '#ff0000'],
    size: ['#00aa00', '#00ff00'],
  };
  const fonts = { uiFont: 'sans-serif', codeFont: 'monospace' };
  return { theme: 'light', hue: hues, onHue: hues, tints, values, ...fonts, ...others } as unknown as Palette;
}

function context(sheet: Sheet): object {
  const answers: Record<string, (...given: never[]) => unknown> = {
    measureText: (text: string) => ({ width: 6 * text.length }),
    createPattern: () => ({ setTransform: () => undefined }),
    createImageData: (width: number, height: number) => ({ data: new Uint8ClampedArray(4 * width * height) }),
    fillText: (text: string) => sheet.texts.push(text),
    reset: () => {
      sheet.calls.length = 0;
      sheet.texts.length = 0;
    },
  };
  const values: Record<string, unknown> = { canvas: sheet.canvas, font: '' };
  return new Proxy(values, {
    get: (_, name: string) =>
      name in values
        ? values[name]
        : (...given: never[]) => {
            if (name !== 'reset') sheet.calls.push(name);
            return answers[name]?.(...given);
          },
    set: (_, name: string, value) => {
      values[name] = value;
      return true;
    },
  });
}
