import { describe, expect, test } from 'vitest';

import { hex } from '../../src/canvas/rgb';
import { strokes } from '../../src/canvas/hatch';
import { fit, forgetWidths, widthOf } from '../../src/canvas/text';

/** Every letter is 6 wide. */
function measuring(): { font: string; measureText: (text: string) => TextMetrics; asked: number } {
  const made = {
    font: '10px sans-serif',
    asked: 0,
    measureText(text: string) {
      made.asked += 1;
      return { width: 6 * Array.from(text).length } as TextMetrics;
    },
  };
  return made;
}

describe('fit', () => {
  test('leaves what fits', () => {
    expect(fit(measuring(), 'total[2]', 48)).toBe('total[2]');
  });

  test('cuts with an ellipsis', () => {
    expect(fit(measuring(), 'total[2]', 40)).toBe('total…');
  });

  test('is nothing where fewer than three letters would be left', () => {
    expect(fit(measuring(), 'total[2]', 23)).toBe('');
    expect(fit(measuring(), 'total[2]', 24)).toBe('tot…');
  });

  test('never parts a character of two units', () => {
    expect(fit(measuring(), '🜂🜂🜂🜂🜂🜂', 30)).toBe('🜂🜂🜂🜂…');
  });

  test('of no room or no text is nothing', () => {
    expect([fit(measuring(), 'a', 0), fit(measuring(), 'a', -3), fit(measuring(), '', 50)]).toEqual(['', '', '']);
  });

  test('asks the canvas once for each text', () => {
    forgetWidths();
    const context = measuring();
    widthOf(context, 'k[3]');
    widthOf(context, 'k[3]');
    expect(context.asked).toBe(1);
    forgetWidths();
    widthOf(context, 'k[3]');
    expect(context.asked).toBe(2);
  });
});

describe('hatches', () => {
  test('of waits rise to the right, of faults fall', () => {
    const slopes = (angle: 45 | 135): number[] =>
      strokes(8, angle).map(([fromX, fromY, toX, toY]) => (toY - fromY) / (toX - fromX));
    expect(slopes(45)).toEqual([-1, -1, -1]);
    expect(slopes(135)).toEqual([1, 1, 1]);
  });

  test('meet at the edges of tiles', () => {
    const side = 9;
    // Each stroke of a tile is one of its neighbour's, moved by a tile.
    const offsets = strokes(side, 45).map(([fromX, fromY]) => (fromX + fromY) % side);
    expect(new Set(offsets)).toEqual(new Set([0]));
  });
});

test('colours in hexadecimal are read without a canvas', () => {
  expect(hex('#2B70DC')).toEqual([43, 112, 220]);
  expect(hex('#fff')).toEqual([255, 255, 255]);
  expect(hex('rebeccapurple')).toBeNull();
});
