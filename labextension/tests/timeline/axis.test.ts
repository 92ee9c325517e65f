import { expect, test } from 'vitest';

import type { DrawContext } from '../../src/views/timeline/draw_context';
import type { Figure } from '../../src/views/timeline/figure';
import { clearTicks, timeOnAxis } from '../../src/views/timeline/paint';
import { fakePalette } from './screen';

/** The parts of an axis from 0 to 10 µs, 1000 pixels wide, that are cleared for a plate. */
function cleared(plate: readonly [number, number]): readonly (readonly [number, number])[] {
  const found: (readonly [number, number])[] = [];
  const context = {
    font: '',
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillRect: (x: number, _y: number, width: number) => found.push([x, x + width]),
  };
  const drawing = { context, palette: fakePalette(), ratio: 1 } as unknown as DrawContext;
  clearTicks(drawing, { scale: { from: 0, to: 10_000_000, width: 1000 } } as Figure, plate);
  return found;
}

test('a plate on the axis covers numbers as a whole, or not at all', () => {
  expect(cleared([150, 198])).toEqual([[196, 204]]);
  expect(cleared([202, 260])).toEqual([[196, 204]]);
  expect(cleared([205, 295])).toEqual([]);
  expect(cleared([198, 302]).length).toBe(2);
});

test('the first number is cleared where it stands', () => {
  expect(cleared([1, 40])).toEqual([[0, 8]]);
});

test('a time on the axis is as fine as its numbers', () => {
  const window = (from: number, to: number): { from: number; to: number; width: number } => ({ from, to, width: 1000 });
  expect(timeOnAxis(26_024_700, window(0, 30_000_000))).toBe('26.02 µs');
  expect(timeOnAxis(26_024_700, window(26_015_000, 26_035_000))).toBe('26.025 µs');
  expect(timeOnAxis(140_250, window(140_000, 141_000))).toBe('140.3 ns');
  expect(timeOnAxis(788_000, window(0, 30_000_000))).toBe('788 ns');
});
