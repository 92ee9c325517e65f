import { describe, expect, test } from 'vitest';

import type { Buffer, Run } from '../../src/types';
import { layoutLifetimes } from '../../src/views/memory/lifetimes';
import { occupancyOf } from '../../src/views/memory/occupancy';
import { MEASURE } from './tiles';

const KIB = 1024;

/** A run that does nothing but use memory: tile `at` is made at `at` and lives for a hundred picoseconds. */
function runOfTiles(count: number, place: (at: number) => Partial<Buffer>): Run {
  const buffers = Array.from({ length: count }, (_, id) => ({
    id,
    name: `k[${id}]`,
    space: 'sbuf',
    partition: 0,
    partitions: 128,
    byte: (id % 96) * 2 * KIB,
    partitionBytes: 2 * KIB,
    core: 0,
    lifetime: { start: id, written: id, end: id + 100, firstStep: 0, lastStep: 0, writer: 0 },
    ...place(id),
  }));
  const capacity = { sbuf: 192 * KIB, psum: 16 * KIB, psumBank: 2 * KIB, partitions: 128 };
  return { buffers, capacity, lanes: [{ core: 0 }], makespan: count + 100 } as unknown as Run;
}

describe('a million tiles', () => {
  test('are indexed in seconds, and those of a time found in less than a millisecond', () => {
    const begun = performance.now();
    const sbuf = occupancyOf(
      runOfTiles(1_000_000, () => ({})),
      'sbuf',
      0,
    );
    expect(performance.now() - begun).toBeLessThan(20_000);
    const asked = performance.now();
    let most = 0;
    for (let at = 0; at < 1000; at++) most = Math.max(most, sbuf.at(at * 997).length);
    expect(most).toBeLessThan(200);
    expect((performance.now() - asked) / 1000).toBeLessThan(5);
  }, 60_000);

  test('are laid out with breaks in which the page can do something else', () => {
    const count = 200_000;
    const sbuf = occupancyOf(
      runOfTiles(count, () => ({})),
      'sbuf',
      0,
    );
    const work = layoutLifetimes({
      tiles: sbuf.between(0, count),
      window: { from: 0, to: count },
      partitions: undefined,
      bytes: { from: 0, to: 192 * KIB },
      area: { x: 0, y: 0, width: 400, height: 100 },
      measure: MEASURE,
      deadWords: () => '',
      makespan: count,
      clobbered: false,
      start: () => 0,
    });
    let breaks = 0;
    let made = work.next();
    for (; made.done !== true; made = work.next()) breaks++;
    expect(breaks).toBeGreaterThan(90);
    const { bars, blocks } = made.value;
    expect(bars.length + blocks.length).toBeLessThan(20_000);
    expect(bars.length + blocks.reduce((sum, block) => sum + block.count, 0)).toBe(count);
  }, 30_000);

  test('at random places of single partitions do not hang', () => {
    const place = (at: number): Partial<Buffer> => ({
      partition: (at * 7919) % 128,
      partitions: 1,
      byte: 64 * ((at * 104_729) % 3000),
      partitionBytes: 64,
    });
    const begun = performance.now();
    const sbuf = occupancyOf(runOfTiles(100_000, place), 'sbuf', 0);
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(sbuf.at(50_000).length).toBeGreaterThan(100);
  }, 30_000);
});
