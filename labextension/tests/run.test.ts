// @vitest-environment node
import { describe, expect, test } from 'vitest';

import { createRun } from '../src/run';
import { unitsOf } from '../src/run/sites';
import { partName } from '../src/run/words';
import type { Buffer } from '../src/types';
import { decode } from '../src/wire';
import { message, rowTables, runMessage } from './messages';
import type { RowGiven, RunGiven } from './messages';

const runOf = (given: RunGiven): ReturnType<typeof createRun> => createRun(decode(runMessage(given)));

const ROWS: readonly RowGiven[] = [
  { lane: 2, start: 0, duration: 100, accesses: [[0, 1]], critical: 1 }, // prettier-ignore
  { lane: 0, start: 120, duration: 50, wait: 120, setup: 20, stall: 1, setupStall: 3, after: 0, critical: 1, accesses: [[1, 1], [0, 0]], edges: [[0, 0]], site: 0, iteration: 1 }, // prettier-ignore
  { lane: 2, start: 120, duration: 10, wait: 20, stall: 2, after: 0, accesses: [[0, 1]], edges: [[1, 1]] },
  { lane: 0, start: 200, duration: 100, after: 1, critical: 1, iteration: 2, site: 0 },
];

describe('rows', () => {
  test('come in the form that views read', () => {
    const { rows } = runOf({ rows: ROWS });
    expect([...rows.start]).toEqual([0, 120, 120, 200]);
    expect([...rows.ready]).toEqual([105, 175, 135, 305]);
    expect([...rows.after]).toEqual([-1, 0, 0, 1]);
    expect([...rows.access]).toEqual([0, 1, 3, 4, 4]);
    expect([...rows.pace]).toEqual([1, 1, 1, 1]);
    expect(rows.lane).toBeInstanceOf(Uint16Array);
  });

  test('have an instruction, a place, loops and operands', () => {
    const run = runOf({ rows: ROWS });
    expect(run.op(1)).toEqual({ name: 'nc_matmul', detail: 'fp32', workUnit: '' });
    expect(run.iterations(1)).toEqual([
      { loop: 'i', value: 1 },
      { loop: 'j', value: 3 },
    ]);
    expect(run.iterations(0)).toEqual([]);
    expect(run.accesses(1)).toEqual([
      { view: 1, role: 'write' },
      { view: 0, role: 'read' },
    ]);
    expect(run.siteOf(0)).toBeNull();
    expect([...run.stepsAtLine(0, 1)]).toEqual([1, 3]);
    expect([...run.stepsAtLine(0, 2)]).toEqual([]);
  });

  test('have columns in UTF-16 units', () => {
    // é takes two bytes and one unit, the sign in quotes four bytes and two units.
    expect(runOf({ rows: ROWS }).siteOf(1)).toEqual({
      source: 0, line: 1, column: 10, endLine: 1, endColumn: 19, function: 'kernel',
    }); // prettier-ignore
  });

  test('that are not loaded are refused', () => {
    const run = runOf({ rows: ROWS, first: 10, steps: 20 });
    expect([run.has(9), run.has(10), run.has(13), run.has(14)]).toEqual([false, true, true, false]);
    expect(() => run.op(9)).toThrow(RangeError);
  });
});

describe('order', () => {
  test('a time has a last step, on a lane and at all', () => {
    const run = runOf({ rows: ROWS });
    expect([-1, 0, 119, 120, 500].map(time => run.stepAt(time))).toEqual([-1, 0, 0, 2, 3]);
    expect([0, 119, 120, 250].map(time => run.laneAt(0, time))).toEqual([-1, -1, 1, 3]);
    expect(run.laneAt(1, 500)).toBe(-1);
    expect([...run.laneSteps(2)]).toEqual([0, 2]);
    expect([...run.criticalPath]).toEqual([0, 1, 3]);
  });

  test('of two equal starts on a lane the one that takes no time comes first', () => {
    const run = runOf({
      rows: [{ start: 0, duration: 5 }, { start: 5, duration: 7 }, { start: 5, duration: 0 }, { start: 12, duration: 1 }],
    }); // prettier-ignore
    expect([...run.laneSteps(0)]).toEqual([0, 2, 1, 3]);
    expect([...run.buckets(0, 0, 20, 2).busy]).toEqual([10, 3]);
  });
});

describe('buckets', () => {
  test('are exact sums', () => {
    const found = runOf({ rows: ROWS }).buckets(0, 0, 400, 4);
    expect([...found.busy]).toEqual([0, 50, 100, 0]);
    expect([...found.waiting]).toEqual([100, 20, 0, 0]);
    expect([...found.cause]).toEqual([1, 3, 0, 0]);
    expect([...found.rows]).toEqual([0, 1, 1, 0]);
    expect([...found.critical]).toEqual([0, 1, 1, 0]);
    expect([found.width, found.from, found.count]).toEqual([100, 0, 4]);
  });

  test('cut rows at their edges', () => {
    const found = runOf({ rows: ROWS }).buckets(0, 130, 230, 2);
    expect([...found.busy]).toEqual([40, 30]);
    expect([...found.rows]).toEqual([0, 1]);
  });

  test('agree with adding up row by row, whatever their edges', () => {
    let seed = 1;
    const draw = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
    const rows: RowGiven[] = [];
    let free = 0;
    for (let i = 0; i < 300; i++) {
      const wait = draw(3) === 0 ? 0 : draw(40);
      const setup = Math.min(wait, draw(10));
      const start = free + wait;
      const duration = draw(5) === 0 ? 0 : draw(60);
      rows.push({ start, duration, wait, setup, stall: 1 + draw(4), setupStall: 3, critical: draw(2) });
      free = start + Math.max(duration, 1);
    }
    const run = runOf({ rows });
    for (let trial = 0; trial < 40; trial++) {
      const from = draw(free) - 50;
      const to = from + 1 + draw(free);
      const count = 1 + draw(30);
      const found = run.buckets(0, from, to, count);
      for (let bucket = 0; bucket < count; bucket++) {
        const low = from + ((to - from) * bucket) / count;
        const high = from + ((to - from) * (bucket + 1)) / count;
        const inside = (begin: number, end: number): number => Math.max(0, Math.min(end, high) - Math.max(begin, low));
        const waits = [0, 0, 0, 0, 0];
        let busy = 0;
        for (const row of rows) {
          busy += inside(row.start, row.start + row.duration);
          waits[row.stall!] += inside(row.start - row.wait!, row.start - row.setup!);
          waits[3] += inside(row.start - row.setup!, row.start);
        }
        const starts = rows.filter(row => row.start >= low && row.start < high);
        const touched = rows.filter(row => row.critical === 1 && row.start < high && (row.start + row.duration > low || row.start >= low)); // prettier-ignore
        expect(found.busy[bucket]).toBeCloseTo(busy, 6);
        expect(found.waiting[bucket]).toBeCloseTo(
          waits.reduce((a, b) => a + b),
          6,
        );
        expect(waits[found.cause[bucket]]).toBeCloseTo(Math.max(...waits), 6);
        expect(found.rows[bucket]).toBe(starts.length);
        expect(found.critical[bucket]).toBe(touched.length > 0 ? 1 : 0);
      }
    }
  });

  test('of a lane without rows are empty', () => {
    expect([...runOf({ rows: ROWS }).buckets(1, 0, 100, 2).busy]).toEqual([0, 0]);
  });
});

describe('dependencies', () => {
  test('go both ways, the binding one first, also where two rows only share a lane', () => {
    const run = runOf({ rows: ROWS });
    expect(run.predecessors(1)).toEqual([{ step: 0, kind: 'flow', binding: true }]);
    expect(run.predecessors(2)).toEqual([
      { step: 0, kind: 'lane', binding: true },
      { step: 1, kind: 'anti', binding: false },
    ]);
    expect(run.successors(0)).toEqual([
      { step: 1, kind: 'flow', binding: true },
      { step: 2, kind: 'lane', binding: true },
    ]);
    expect(run.successors(1)).toEqual([
      { step: 3, kind: 'lane', binding: true },
      { step: 2, kind: 'anti', binding: false },
    ]);
    expect(run.successors(3)).toEqual([]);
    // Asked often, all of them are turned round once; the answers stay the same.
    const early = [0, 1, 2, 3].map(step => run.successors(step));
    for (let i = 0; i < 20; i++) run.successors(0);
    expect([0, 1, 2, 3].map(step => run.successors(step))).toEqual(early);
  });
});

describe('words', () => {
  test('lanes have hues and labels', () => {
    const { lanes } = runOf({});
    expect(lanes.map(lane => [lane.label, lane.hue, lane.kind])).toEqual([
      ['Tensor', 'tensor', 'engine'],
      ['Vector', 'vector', 'engine'],
      ['DMA q0', 'dma', 'dma'],
    ]);
  });

  test('a row is called by the tile that it writes', () => {
    const run = runOf({ rows: ROWS });
    expect([0, 1, 3].map(step => run.label(step))).toEqual(['k', 'out[0, 0]', '']);
  });

  test('a wait is for the tile that both rows touch', () => {
    expect(runOf({ rows: ROWS }).awaited(1)).toBe('k');
    expect(runOf({ rows: ROWS }).awaited(3)).toBe('');
  });

  test('a stall has the hue of what is waited for', () => {
    const run = runOf({ rows: ROWS });
    expect(run.stallHue(1, 1)).toBe('dma');
    expect(run.stallHue(1, 3)).toBe('scalar');
    expect(run.stallHue(2, 2)).toBe('dma'); // the row that it waits for is on that lane
    expect(run.stallHue(0, 2)).toBe('sync');
    expect(run.stallHue(3, 4)).toBe('sync');
  });

  test.each([
    [0, [[128, 1024], [512, 1]], 'out[0, 0]'],
    [128 * 1024 + 512, [[128, 1024], [512, 1]], 'out[1, 1]'],
    [100 * 1024, [[128, 1024], [1024, 1]], 'out[100:228]'],
    [0, [[256, 1024], [1024, 1]], 'out'],
    [3 * 1024, [[1024, 1]], 'out[3]'],
    [0, [[262144, 1]], 'out'],
  ] as const)('a part of a tensor in HBM is called by its block: from %i, %j', (offset, dims, name) => {
    const buffer = { name: 'out', space: 'hbm', dtype: 'float32', shape: [256, 1024] } as unknown as Buffer;
    expect(partName({ buffer: 0, dtype: 'float32', dims: [...dims], offset, indirect: 0, index: -1 }, buffer)).toBe(name);
  }); // prettier-ignore

  test('a column counts what a string counts', () => {
    expect([0, 2, 3, 7, 8, 12].map(bytes => unitsOf('éa🜂b', bytes))).toEqual([0, 1, 2, 4, 5, 9]);
  });
});

describe('buffers', () => {
  test('have names, shapes and lifetimes', () => {
    const run = runOf({
      buffers: [
        [3, 0, 0, 0, 0, 128, 0, 2048, -1],
        [3, 0, 0, 0, 0, 128, 2048, 2048, -1],
        [0, 1, 0, -1, 0, 128, 0, 2048, -1],
      ],
      lifetimes: [
        [0, 0, 200, 0, 3, 105, 2],
        [1, 50, 300, 1, 3, -1, -1],
      ],
    });
    // The last as in messages of earlier versions, which leave unnamed ones without a text.
    expect(run.buffers.map(buffer => buffer.name)).toEqual(['k', 'k', 'tile 3']);
    expect(run.buffers[0].lifetime).toEqual({
      start: 0, end: 200, firstStep: 0, lastStep: 3, written: 105, writer: 2,
    }); // prettier-ignore
    expect(run.buffers[1].lifetime!.written).toBe(50);
    expect(run.buffers[2].lifetime).toBeNull();
    expect([run.buffers[0].shape, run.buffers[0].dtype, run.buffers[2].space]).toEqual([[128, 512], 'float32', 'psum']);
    const living = (from: number, to: number): number[] => run.living('sbuf', 0, from, to).map(buffer => buffer.id);
    expect([living(0, 10), living(0, 50), living(250, 260), living(301, 400)]).toEqual([[0], [0, 1], [1], []]);
  });

  test('many lifetimes are found as if one looked at each', () => {
    const count = 500;
    const start = (i: number): number => i * 3;
    const end = (i: number): number => i * 3 + ((i * 7919) % 400);
    const run = runOf({
      buffers: Array.from({ length: count }, () => [3, 0, 0, 0, 0, 128, 0, 64, -1] as const),
      lifetimes: Array.from({ length: count }, (_, i) => [i, start(i), end(i), 0, 0, 0, 0] as const),
    });
    for (let from = 0; from < 1800; from += 37) {
      const wanted = Array.from({ length: count }, (_, i) => i).filter(i => start(i) <= from + 20 && end(i) >= from);
      expect(run.living('sbuf', 0, from, from + 20).map(buffer => buffer.id)).toEqual(wanted);
    }
  });
});

describe('memory in use', () => {
  const usage = Array.from({ length: 400 }, (_, i) => [i * 10, (i * 7919) % 1000, i] as const);

  test('is each change where these are few', () => {
    expect([...runOf({ usage }).usage('psum', 0, 25, 55, 100)]).toEqual([25, 2, 30, 3, 40, 4, 50, 5]);
    expect([...runOf({}).usage('sbuf', 0, 0, 10, 4)]).toEqual([0, 0]);
  });

  test('is that of each core', () => {
    const lanes = [0, 1].map(core => ({ name: 'vector', kind: 'engine', core }));
    const columns = { time: [0, 50, 20, 30], core: [0, 0, 1, 1], sbuf: [8, 0, 16, 64], psum: [0, 0, 2, 0] };
    const buffers = {
      name: [3, 3, 3], space: [0, 0, 3], kind: [0, 0, 0], pattern: [0, 0, 0], partition: [0, 0, -1],
      partitions: [128, 128, 1], byte: [0, 0, -1], partition_bytes: [64, 64, 64], site: [-1, -1, -1], core: [0, 1, 0],
    }; // prettier-ignore
    const lifetimes = [0, 1, 2].map(buffer => [buffer, 0, 50, 0, 1, 10, buffer] as const);
    const run = runOf({ header: { lanes }, lifetimes, tables: { usage: columns, buffers } });
    expect(run.cores).toEqual([0, 1]);
    expect([0, 1].map(core => [...run.usage('sbuf', core, 0, 100, 9)])).toEqual([
      [0, 8, 50, 0],
      [0, 0, 20, 16, 30, 64],
    ]);
    expect([...run.usage('sbuf', 7, 3, 100, 9)]).toEqual([3, 0]);
    expect(run.peak('sbuf')).toEqual({ bytes: 64, core: 1, time: 30 });
    expect([run.peak('sbuf', 0), run.peak('psum', 0)]).toEqual([
      { bytes: 8, core: 0, time: 0 },
      { bytes: 0, core: 0, time: 0 },
    ]);
    expect([0, 1, 2].map(core => run.living('sbuf', core, 0, 9).map(buffer => buffer.id))).toEqual([[0], [1], []]);
    expect(run.buffers.map(buffer => buffer.core)).toEqual([0, 1, 0]);
  });

  test('is unknown of several cores in a message of 0.1, where buffers are on the core that writes them', () => {
    const lanes = [0, 1].map(core => ({ name: 'vector', kind: 'engine', core }));
    const lifetimes = [[0, 0, 50, 0, 1, 10, 1] as const];
    const run = runOf({ header: { lanes }, lifetimes, usage });
    expect([[...run.usage('sbuf', 0, 0, 99, 9)], run.peak('sbuf')]).toEqual([[], null]);
    expect([run.cores, run.buffers[0].core, runOf({ usage }).peak('sbuf')?.bytes]).toEqual([[0, 1], 1, 999]);
  });

  test('is the largest of each stretch where they are many', () => {
    const found = runOf({ usage }).usage('sbuf', 0, 5, 3995, 10);
    const value = (time: number): number => {
      const passed = found.findIndex((_, i) => i % 2 === 0 && found[i] > time);
      return found[(passed < 0 ? found.length : passed) - 1];
    };
    for (let bucket = 0; bucket < 10; bucket++) {
      const low = 5 + 399 * bucket;
      const inForce = usage.filter(([time], i) => time < low + 399 && (usage[i + 1]?.[0] ?? Infinity) > low);
      expect(value(low + 1)).toBe(Math.max(...inForce.map(([, sbuf]) => sbuf)));
    }
  });
});

describe('messages that follow', () => {
  test('add rows at the end', () => {
    const run = runOf({ rows: ROWS.slice(0, 2), steps: 4 });
    run.predecessors(1);
    const early = run.rows;
    run.add(decode(message({ header: { first: 2, count: 2 }, tables: rowTables(ROWS.slice(2), 2) })));
    const whole = runOf({ rows: ROWS });
    expect(run.rows).toEqual(whole.rows);
    expect(early.count).toBe(2);
    expect(run.successors(0)).toEqual(whole.successors(0));
    expect(run.buckets(0, 0, 400, 4)).toEqual(whole.buckets(0, 0, 400, 4));
    expect([...run.stepsAtLine(0, 1)]).toEqual([1, 3]);
  });

  test('put others in their place', () => {
    const run = runOf({ rows: ROWS, steps: 100 });
    const later = ROWS.map(row => ({ ...row, start: row.start + 5000, after: undefined, edges: [] }));
    run.add(decode(message({ header: { first: 50, count: 4 }, tables: rowTables(later, 50) })));
    expect([run.has(0), run.has(50), run.has(53), run.has(54)]).toEqual([false, true, true, false]);
    expect([...run.laneSteps(0)]).toEqual([51, 53]);
    expect([...run.criticalPath]).toEqual([50, 51, 53]);
  });
});
