import { describe, expect, it } from 'vitest';

import { ABOUT_MIME, MIME } from '../../src/_generated/schema';
import type { Panel } from '../../src/lab/jupyter';
import { lastLatency } from '../../src/lab/status';

const about = (makespan: number): object => ({
  kernel: 'add',
  target: 'trn2',
  makespan,
  instructions: 4,
  failed: false,
  times: 1,
});

/** A notebook of cells with one output each. */
function notebook(...outputs: object[]): Panel {
  const cells = outputs.map(data => ({ outputs: { length: 1, get: () => ({ data }) } }));
  return { context: { model: { cells } } } as unknown as Panel;
}

describe('the latency in the status bar', () => {
  it('is that of the last run of a cell with several', () => {
    const earlier = { message: 'first' };
    const text = 'add · trn2 · 5.56 µs\nadd on trn2: 46.07 µs, 37.2 to 55.6, 4 instructions';
    const data = {
      [MIME]: { message: 'second', earlier: [earlier] },
      [ABOUT_MIME]: [about(5_562_382), about(46_069_797)],
      'text/plain': text,
    };
    expect(lastLatency(notebook(data))).toBe('46.07 µs');
  });

  it('is read from the text of outputs that tell nothing else', () => {
    expect(lastLatency(notebook({ [MIME]: {}, 'text/plain': 'add on trn2: 5.56 µs, 4 instructions' }))).toBe('5.56 µs');
    expect(lastLatency(notebook({ 'text/plain': 'it took 3 s' }))).toBe('');
  });
});
