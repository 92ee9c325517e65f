import { describe, expect, it } from 'vitest';

import { headline } from '../src/headline';
import type { Run } from '../src/types';
import * as words from '../src/words';
import { shellRun } from './shell_runs';

const said = (run: Run): string =>
  headline(run)
    .map(parts => parts.map(part => part.text).join(''))
    .join(' ');

describe('the headline', () => {
  it('names the largest part of the critical path, and who waits for it', () => {
    expect(said(shellRun())).toBe('DMA is on the critical path 48\u00a0% of the time. Tensor waits for k.');
  });

  it('names the wait where that is larger, and the line that costs most', () => {
    const path = { work: { tensor: 400_000 }, waits: { 'dma trigger': 600_000 } };
    expect(said(shellRun({ header: { path } }))).toBe(
      'The critical path waits 60\u00a0% of the time for DMA descriptors to be made. Line 4 costs most: 60\u00a0%.',
    );
  });

  it('has something to say of nothing', () => {
    expect(said(shellRun({ rows: [], header: { makespan: 0, lines: [] } }))).toBe('No instruction was recorded.');
  });

  it('links to the step that waits', () => {
    const link = headline(shellRun())
      .flat()
      .find(part => part.code);
    expect(link).toMatchObject({ text: 'k', step: 1 });
  });
});

describe('the words', () => {
  const run = shellRun();

  it('are those that a screen reader says', () => {
    expect(words.spoken(run, 1)).toBe('nc_matmul, Tensor, 200 ns at 120 ns, waited 120 ns for k from DMA, critical');
    expect(words.spoken(run, 4)).toBe('nc_matmul, Vector, 300 ns at 700 ns');
    expect(words.spoken(run, 50)).toBe('Step 51, not loaded');
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
