import { describe, expect, test } from 'vitest';

import { ticks, unitOf } from '../../src/canvas/scale';

describe('ticks', () => {
  test('stand at round times in one unit', () => {
    const made = ticks(24.6e6, 41.2e6, 980);
    expect(made.unit).toBe('µs');
    expect(made.values.map(made.label)).toEqual(['26', '28', '30', '32', '34', '36', '38', '40']);
  });

  test('have as many decimals as neighbours need to differ', () => {
    const made = ticks(1_000_000, 1_000_600, 900);
    expect(made.values.slice(0, 3).map(made.label)).toEqual(['1.0000', '1.0001', '1.0002']);
  });

  test('of parts of a nanosecond are in nanoseconds', () => {
    const made = ticks(0, 900, 900);
    expect([made.unit, made.label(100)]).toEqual(['ns', '0.1']);
  });

  test('part thousands and have a true minus', () => {
    const made = ticks(-2e12, 4000e12, 300);
    expect(made.unit).toBe('s');
    expect(made.label(-1e12)).toBe('−1');
    expect(made.label(2e15)).toBe('2\u2009000');
  });

  test('lie within the window and never closer than their labels are wide', () => {
    for (let power = 0; power < 14; power++) {
      for (const part of [0.37, 1, 2.9, 7.1]) {
        const span = part * 10 ** power;
        const { values } = ticks(span, 3 * span, 1000);
        expect(values.every(value => value >= span - 1e-6 && value <= 3 * span * (1 + 1e-9))).toBe(true);
        for (let at = 1; at < values.length; at++) {
          expect(((values[at] - values[at - 1]) / (2 * span)) * 1000).toBeGreaterThanOrEqual(83.9);
        }
      }
    }
  });

  test('of no window are none', () => {
    expect([ticks(5, 5, 100), ticks(0, 10, 0), ticks(NaN, 1, 100)].map(made => made.values)).toEqual([[], [], []]);
  });

  test('an axis has one unit at every size', () => {
    expect([999, 1e3, 1e6, 1e9, 1e12, -2e9].map(unitOf)).toEqual(['ps', 'ns', 'µs', 'ms', 's', 'ms']);
  });
});
