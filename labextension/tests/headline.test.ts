import { describe, expect, it } from 'vitest';

import { headline, said } from '../src/headline';
import type { Run } from '../src/types';
import * as words from '../src/words';
import { shellRun } from './shell_runs';

const text = (run: Run): string =>
  headline(run)
    .map(parts => parts.map(part => said(run, part).text).join(''))
    .join(' ');

describe('the headline', () => {
  it('is the first sentences of the message, with the tile that a step waits for', () => {
    expect(text(shellRun())).toBe('DMA is on the critical path 48\u00a0% of the time. Tensor waits for k.');
  });

  it('keeps the words of the message where the step is not loaded', () => {
    const parts = [{ text: 'Tensor waits for ' }, { text: 'data from DMA', waiting: 70 }, { text: '.' }];
    expect(text(shellRun({ header: { bottlenecks: [{ parts }] } }))).toBe('Tensor waits for data from DMA.');
  });

  it('is empty in a message of an earlier version', () => {
    expect(text(shellRun({ header: { bottlenecks: undefined } }))).toBe('');
  });

  it('shows a tile as code', () => {
    const run = shellRun();
    const part = headline(run)
      .flat()
      .find(part => part.waiting !== undefined);
    expect(part).toMatchObject({ waiting: 1 });
    expect(said(run, part!)).toEqual({ text: 'k', code: true });
  });
});

describe('the words', () => {
  const run = shellRun();

  it('are those that a screen reader says', () => {
    expect(words.spoken(run, 1)).toBe('nc_matmul, Tensor, 200 ns at 120 ns, waited 120 ns for k from DMA, critical');
    expect(words.spoken(run, 4)).toBe('nc_matmul, Vector, 300 ns at 700 ns');
    expect(words.spoken(run, 50)).toBe('Step 51, not loaded');
  });

  it('write the interval in the unit of the time, with where it is from', () => {
    const of = (makespan: number, interval: unknown, more = {}): Run =>
      shellRun({
        header: { makespan, summary: { makespan_interval_ns: interval, confidence: { guess: 1 }, ...more } },
      });
    const run = of(140_000_000, [118_200, 170_900], {
      makespan_interval_basis: '56 published times',
      makespan_interval_notes: ['no time is of this target'],
    });
    expect(words.within(run)).toBe(', 118 to 171');
    expect(words.isUnsure(run)).toBe(false);
    expect(words.intervalText(run)).toBe('80 % interval: 56 published times; wider, as no time is of this target');
    expect(words.within(of(900_000, [700, 1_204.4]))).toBe(', 700 to 1\u202f204');
    expect(words.within(of(1_000_000, [950, 1_100]))).toBe(', 0.95 to 1.1');
    for (const wrong of [undefined, null, 7, [], [1], ['1', '2'], [1, Number.NaN], [1, 2, 3]]) {
      expect(words.within(of(900_000, wrong))).toBe('');
      expect(words.intervalText(of(900_000, wrong))).toBe('');
    }
  });

  it('write confidence and call a guess "about"', () => {
    expect(words.confidenceText(run)).toBe('58 % documented · 33 measured · 9.0 inferred');
    expect(words.isUnsure(run)).toBe(false);
    expect(words.isUnsure(shellRun({ header: { summary: { confidence: { guess: 0.3 } } } }))).toBe(true);
  });

  it.each([
    ['data from gpsimd', 'data from GpSimd', 'gpsimd'],
    ['queue interval', 'the interval between two DMA transfers', 'dma'],
    ['something new', 'something new', 'sync'],
  ])('of %s are %s in the hue of %s', (name, text, hue) => {
    expect(words.reason(name)).toBe(text);
    expect(words.reasonHue(name)).toBe(hue);
  });
});
