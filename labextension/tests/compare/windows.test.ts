import { describe, expect, test } from 'vitest';

import type { Stretches } from '../../src/views/compare/message';
import {
  type Aligned,
  anchorsOf,
  followed,
  levelFor,
  limited,
  mapped,
  mappedBack,
  ribbonsOf,
  wholeOf,
  windowFor,
} from '../../src/views/compare/windows';

/** Stretches of equal length: `before` and `after` are how long each takes. */
function stretches(count: number, before: number, after: number): Stretches {
  const times = (length: number, plus: number): Float64Array =>
    Float64Array.from({ length: count }, (_, place) => (place + plus) * length);
  return {
    count,
    begin: { before: times(before, 0), after: times(after, 0) },
    end: { before: times(before, 1), after: times(after, 1) },
    name: place => `i = ${place}`,
  };
}

const SPANS = { before: 4000, after: 2000 };
const ANCHORS = anchorsOf(stretches(4, 1000, 500), SPANS);

function aligned(alignment: Aligned['alignment'], scaling: Aligned['scaling'] = 'same'): Aligned {
  return { anchors: ANCHORS, alignment, scaling, spans: SPANS };
}

describe('times that belong together', () => {
  test('are those of equal stretches, and evenly between them', () => {
    expect([0, 500, 1000, 3000, 4000].map(time => mapped(ANCHORS, time))).toEqual([0, 250, 500, 1500, 2000]);
    expect([0, 250, 500, 1500, 2000].map(time => mappedBack(ANCHORS, time))).toEqual([0, 500, 1000, 3000, 4000]);
  });

  test('go on at the same pace before and after the runs', () => {
    expect([mapped(ANCHORS, -40), mapped(ANCHORS, 4040)]).toEqual([-40, 2040]);
  });

  test('never go back where the later run executes a stretch earlier', () => {
    const crossed = stretches(3, 1000, 500);
    const begin = { ...crossed.begin, after: Float64Array.of(0, 900, 300) };
    const anchors = anchorsOf({ ...crossed, begin }, SPANS);
    expect([...anchors.after]).toEqual([0, 0, 900, 2000].filter((time, place, all) => all.indexOf(time) === place));
  });
});

describe('the window of the later run', () => {
  test('has the same times where both begin together', () => {
    expect(followed({ from: 1000, to: 1500 }, aligned('start'))).toEqual({ from: 1000, to: 1500 });
    expect(followed({ from: 1000, to: 2000 }, aligned('start', 'relative'))).toEqual({ from: 500, to: 1000 });
  });

  test('begins with the same iteration, at the same scale', () => {
    expect(followed({ from: 1000, to: 1500 }, aligned('iteration'))).toEqual({ from: 500, to: 1000 });
    expect(followed({ from: 1000, to: 2000 }, aligned('iteration', 'relative'))).toEqual({ from: 500, to: 1000 });
  });

  test.each(['start', 'iteration'] as const)('is where a time of it is wanted, aligned by %s', alignment => {
    for (const scaling of ['same', 'relative'] as const) {
      const by = aligned(alignment, scaling);
      const window = windowFor(1200, 0.5, { from: 0, to: 400 }, by);
      const { from, to } = followed(window, by);
      expect((1200 - from) / (to - from)).toBeCloseTo(0.5);
    }
  });

  test('stays within the runs', () => {
    const whole = wholeOf(SPANS, 'same');
    expect(whole).toEqual({ from: -80, to: 4080 });
    expect(limited({ from: -1e9, to: 1e9 }, whole)).toEqual(whole);
    expect(limited({ from: 5000, to: 9000 }, whole).to).toBe(4080);
  });
});

describe('ribbons', () => {
  const scales = { before: { from: 0, to: 4000, width: 1000 }, after: { from: 0, to: 4000, width: 1000 } };

  test('stand over equal iterations and say how much longer these take', () => {
    const found = ribbonsOf(stretches(4, 1000, 500), scales, true);
    expect(found.map(({ change }) => change)).toEqual([-500, -500, -500, -500]);
    expect([found[3].top, found[3].bottom]).toEqual([
      [750, 1000],
      [375, 500],
    ]);
  });

  test('of thousands of iterations join, and their changes still add up', () => {
    const found = ribbonsOf(stretches(4000, 1, 0.5), scales, true);
    expect(found.length).toBeLessThanOrEqual(160);
    expect(found.reduce((sum, { change }) => sum + change, 0)).toBeCloseTo(-2000);
    expect([found[0].first, found.at(-1)!.last]).toEqual([0, 3999]);
  });

  test('of lines are left out where nobody could see them', () => {
    expect(ribbonsOf(stretches(4000, 1, 0.5), scales, false)).toEqual([]);
  });

  test('are of the finest loop whose iterations can be told apart', () => {
    const levels = [stretches(4, 1000, 1000), stretches(400, 10, 10)];
    expect(levelFor(levels, { from: 0, to: 4000, width: 1000 })).toBe(0);
    expect(levelFor(levels, { from: 0, to: 100, width: 1000 })).toBe(1);
  });
});
