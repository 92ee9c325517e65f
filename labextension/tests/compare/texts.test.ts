import { describe, expect, test } from 'vitest';
import { change, signedPercent } from '../../src/views/compare/texts';

describe('changes', () => {
  const of = (before: number, after: number, unit = 'ps') => ({
    name: 'latency',
    label: 'Latency',
    unit,
    before,
    after,
  });

  test('that have no digit which is written are none', () => {
    expect(change(of(9_486_183, 9_486_000))).toBe('0');
    expect(change(of(9_486_183, 9_485_000))).toBe('−1 ns');
    expect([change(of(0.5, 0.5001, 'share')), change(of(0.2, 0.384, 'share'))]).toEqual(['0', '+18.4']);
  });

  test('in percent have the digits of the sentence above them, and no sign where they are hardly any', () => {
    expect([-0.02, 0.14, 7.28].map(signedPercent)).toEqual(['−2.0 %', '+14 %', '+728 %']);
    expect([0, -0.0001].map(signedPercent)).toEqual(['0 %', '< 0.1 %']);
  });
});
