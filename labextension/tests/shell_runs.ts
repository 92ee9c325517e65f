/** A run for the tests of the shell: two loops, two lines, three lanes, one finding. */
import type { LoadedRun } from '../src/run';
import type { RowGiven, RunGiven } from './messages';
import { NAMES } from './messages';
import { runOf } from './timeline/runs';

export const SOURCE = [
  'def kernel(k):',
  '    for i in range(2):',
  '        load(k[i])',
  '        matmul(k[i])',
  '',
].join('\n');

/** Iterations: 0 is i=0, 1 is i=1; 2 is i=1 with j=7. Sites: 0 is line 3, 1 is line 4. Names as in NAMES. */
const ROWS: readonly RowGiven[] = [
  { lane: 2, start: 0, duration: 100_000, site: 0, iteration: 0, accesses: [[0, 1]] },
  { lane: 0, start: 120_000, duration: 200_000, wait: 120_000, stall: 1, after: 0, site: 1, iteration: 0, critical: 1, accesses: [[1, 1], [0, 0]], edges: [[0, 0]] },
  { lane: 2, start: 150_000, duration: 100_000, site: 0, iteration: 1, accesses: [[0, 1]] },
  { lane: 0, start: 400_000, duration: 200_000, wait: 80_000, setup: 20_000, setupStall: 3, stall: 1, after: 2, site: 1, iteration: 2, critical: 1, accesses: [[1, 1], [0, 0]], edges: [[2, 0], [1, 2]] },
  { lane: 1, start: 700_000, duration: 300_000, site: 1, iteration: -1 },
]; // prettier-ignore

export const FINDING = {
  code: 'NKI705', outcome: 'advice', severity: 'warning', message: 'k[i] arrives <b>late</b>', file: 'kernel.py',
  line: 4, column: 8, end_line: 4, end_column: 14, help: 'use 3 slots',
}; // prettier-ignore

export function shellRun(given: RunGiven = {}): LoadedRun {
  return runOf(given.rows ?? ROWS, {
    usage: [[0, 4608, 0]],
    ...given,
    header: {
      names: [...NAMES],
      sources: [{ path: 'kernel.py', text: SOURCE }],
      findings: [FINDING],
      makespan: 1_000_000,
      path: { work: { dma: 480_000, tensor: 400_000 }, waits: { launch: 120_000 } },
      bottlenecks: [
        { parts: [{ text: 'DMA', hue: 'dma' }, { text: ' is on the critical path ' }, { share: 0.48 }, { text: ' of the time.' }] },
        { parts: [{ text: 'Tensor', hue: 'tensor' }, { text: ' waits for ' }, { text: 'data from DMA', waiting: 1 }, { text: '.' }] },
        { parts: [{ text: 'Line 4', source: 0, line: 4 }, { text: ' costs most: ' }, { share: 0.6 }, { text: '.' }] },
      ], // prettier-ignore
      lines: [
        { source: 0, line: 4, critical: 600_000, busy: 400_000, rows: 2, lane: 0 },
        { source: 0, line: 3, critical: 200_000, busy: 200_000, rows: 2, lane: 2 },
      ],
      summary: {
        mfu: 0.072,
        dma_bytes: 4_330_619,
        confidence: { documented: 0.58, measured: 0.33, inferred: 0.09, guess: 0 },
      },
      ...given.header,
    },
    tables: {
      iterations: { parent: [-1, -1, 1], loop: [4, 4, 5], value: [0, 1, 7], site: [-1, -1, -1] },
      sites: { source: [0, 0], line: [3, 4], column: [8, 8], end_line: [3, 4], end_column: [18, 20], function: [6, 6] },
      ...given.tables,
    },
  });
}
