/** The details of an instruction: each operand is the access, not the tile. */
import { describe, expect, it } from 'vitest';
import { ORIGIN_LABELS } from '../src/_generated/schema';
import { createStore } from '../src/store';
import type { Context, Palette } from '../src/types';
import { createDetails } from '../src/views/details';
import { instructionRow } from '../src/views/instruction_row';
import type { BufferGiven } from './messages';
import { runOf } from './timeline/runs';

const NAMES = ['', 'op', 'x', 'float32', 'strange', 'ids'];

/** Details of an instruction that reads views of a tile of 128 × 512 float32 from partition 0, byte 0x1000 on. */
function details(
  views: readonly {
    dims: readonly (readonly [number, number])[];
    offset?: number;
    indirect?: number;
    dtype?: number;
  }[],
  tile: BufferGiven = [2, 0, 0, 0, 0, 128, 0x1000, 2048, -1],
): string[] {
  const patterns: { dtype: number; dims: readonly (readonly [number, number])[] }[] = [
    { dtype: 3, dims: [[128, 512], [512, 1]] }, // prettier-ignore
    ...views.map(view => ({ dtype: view.dtype ?? 3, dims: view.dims })),
  ];
  const first = patterns.map((_, i) => patterns.slice(0, i).reduce((sum, { dims }) => sum + dims.length, 0));
  const all = patterns.flatMap(({ dims }) => dims);
  const run = runOf([{ start: 0, duration: 10, accesses: views.map((_, view) => [view, 0] as const) }], {
    header: { names: NAMES },
    buffers: [tile],
    tables: {
      views: {
        buffer: views.map(() => 0),
        pattern: views.map((_, i) => i + 1),
        offset: views.map(view => view.offset ?? 0),
        indirect: views.map(view => view.indirect ?? 0),
      },
      patterns: { dtype: patterns.map(one => one.dtype), dim: first, rank: patterns.map(one => one.dims.length) },
      dims: { size: all.map(([size]) => size), step: all.map(([, step]) => step) },
    },
  });
  const store = createStore(run);
  store.select(0);
  const context: Context = { run, store, palette: () => ({}) as Palette, speak: () => undefined };
  const { element } = createDetails(context);
  return [...element.querySelectorAll('.nki-operands li')].map(item =>
    [item.querySelector('.nki-operand .nki-code'), item.querySelector('.nki-where-in')]
      .map(part => part?.textContent)
      .join(' | '),
  );
}

describe('the place of an operand', () => {
  it.each([
    ['the whole tile', [[128, 512], [512, 1]], 0, 'x | SBUF 0x1000–0x17FF, partitions 0–127'],
    ['half of its partitions', [[64, 512], [512, 1]], 0, 'x[0:64, :] | SBUF 0x1000–0x17FF, partitions 0–63'],
    ['the other half', [[64, 512], [512, 1]], 64 * 512, 'x[64:128, :] | SBUF 0x1000–0x17FF, partitions 64–127'],
    ['columns', [[128, 512], [64, 1]], 128, 'x[:, 128:192] | SBUF 0x1200–0x12FF, partitions 0–127'],
    ['one element', [[1, 512], [1, 1]], 513, 'x[1, 1] | SBUF 0x1004–0x1007, partition 1'],
    ['every other column', [[128, 512], [4, 2]], 0, 'x[:, 0:7:2] | SBUF within 0x1000–0x101B, partitions 0–127'],
    ['backwards', [[128, 512], [4, -1]], 7, 'x[:, 7:3:-1] | SBUF 0x1010–0x101F, partitions 0–127'],
    ['a broadcast', [[128, 512], [8, 0], [2, 1]], 0, 'x[:, 0:2] | SBUF 0x1000–0x1007, partitions 0–127'],
    ['nothing', [[0, 512], [4, 1]], 0, 'x | SBUF'],
  ] as const)('is that of the access: %s', (_, dims, offset, text) => {
    expect(details([{ dims, offset }])).toEqual([text]);
  }); // prettier-ignore

  it('begins at the partition of its tile', () => {
    const dims = [[16, 512], [512, 1]] as const; // prettier-ignore
    const found = details([{ dims, offset: 8 * 512 }], [2, 0, 0, 0, 32, 32, 0, 2048, -1]);
    expect(found).toEqual(['x[8:24, :] | SBUF 0x0–0x7FF, partitions 40–55']);
  });

  it('says no address where there is none, of a dtype that nobody knows neither', () => {
    const dims = [[64, 512], [512, 1]] as const; // prettier-ignore
    expect(details([{ dims }], [2, 0, 0, 0, -1, 128, -1, 2048, -1])).toEqual(['x[0:64, :] | SBUF']);
    expect(details([{ dims, dtype: 4 }])).toEqual(['x | SBUF']);
  });

  it('is a range within which run-time indices choose', () => {
    const dims = [[128, 512], [512, 1]] as const; // prettier-ignore
    expect(details([{ dims, indirect: 1 }])[0]).toBe('x[register] | SBUF within 0x1000–0x17FF, partitions 0–127');
  });
});

describe('what the compiler model did', () => {
  const changed = (place: number): { details: string[]; row: HTMLElement } => {
    const rows = [
      { start: 0, duration: 10 },
      { start: 10, duration: 10 },
      { start: 20, duration: 0 },
      { start: 20, duration: 10 },
    ];
    const run = runOf(rows, { tables: { changes: { place: [1, 2, 3], origin: [1, 2, 3], stands_for: [12, 0, 0] } } });
    const store = createStore(run);
    store.select(place);
    const context: Context = { run, store, palette: () => ({}) as Palette, speak: () => undefined };
    const { element } = createDetails(context);
    return {
      details: [...element.querySelectorAll('dl > div')].map(item => item.textContent ?? ''),
      row: instructionRow(context, place, place, 10, 'row'),
    };
  };

  it('is said of each row that it changed, and of no other', () => {
    const said = [0, 1, 2, 3].map(place => changed(place).details.filter(text => text.startsWith('Compiler')));
    expect(said).toEqual([
      [],
      [`Compiler${ORIGIN_LABELS.moved}, stands for 12 instructions`],
      [`Compiler${ORIGIN_LABELS['left out']}`],
      [`Compiler${ORIGIN_LABELS.inserted}`],
    ]);
  });

  it('takes rows that are not executed out of the light, without a time', () => {
    expect([0, 1, 2, 3].map(place => changed(place).row.classList.contains('nki-row-out'))).toEqual([
      false,
      false,
      true,
      false,
    ]);
    expect(changed(2).row.querySelector('.nki-c-runs')?.textContent).toBe('–');
  });

  it('follows the rows of a range', () => {
    const run = runOf([{ start: 0, duration: 10 }], { first: 300, steps: 301, tables: { changes: { place: [0], origin: [2], stands_for: [0] } } }); // prettier-ignore
    expect(run.change(300)).toEqual({ origin: 'left out', standsFor: 0 });
    expect(() => run.change(0)).toThrow(RangeError);
  });
});
