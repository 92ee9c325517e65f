import { describe, expect, test } from 'vitest';

import type { BankState } from '../../src/views/memory/uses';
import { createUsage, grouped, readersOf } from '../../src/views/memory/uses';
import { layoutBanks } from '../../src/views/memory/banks';
import type { Banks } from '../../src/views/memory/banks';
import { occupancyOf } from '../../src/views/memory/occupancy';
import { stateWords } from '../../src/views/memory/psum';
import type { RowGiven } from '../messages';
import { MEASURE, occupied, runWith, tileOf } from './tiles';

const [READ, WRITE, ADD] = [0, 1, 2];
/** Rows of 10 ps, each 100 ps after the one before; results are visible 5 ps after their end. */
const rowsOf = (...roles: readonly (readonly number[])[]): RowGiven[] =>
  roles.map((mine, step) => ({ start: 100 * step, duration: 10, accesses: mine.map(role => [0, role] as const) }));

function statesOf(rows: readonly RowGiven[], ...times: readonly number[]): BankState[] {
  const run = runWith([{ space: 'psum', start: 0, written: 100, end: 500 }], rows);
  const tile = tileOf(occupancyOf(run, 'psum', 0), 0);
  const usage = createUsage(run);
  return times.map(time => usage.state(tile, time));
}

describe('a bank', () => {
  test('is filled by its writes, closed, and drained by the last read', () => {
    const rows = rowsOf([ADD], [ADD], [ADD], [READ]);
    expect(statesOf(rows, 0, 14, 15, 215, 309, 310)).toEqual([
      { kind: 'filling', done: 0, of: 3, adds: true },
      { kind: 'filling', done: 0, of: 3, adds: true },
      { kind: 'filling', done: 1, of: 3, adds: true },
      { kind: 'closed' },
      { kind: 'closed' },
      { kind: 'drained', since: 310 },
    ]);
  });

  test('begins another group where a write follows a read', () => {
    const rows = rowsOf([WRITE], [READ], [WRITE], [ADD], [READ]);
    expect(statesOf(rows, 150, 215, 315).map(stateWords)).toEqual(['drained at 0 ns', 'k 1 of 2', 'group closed']);
  });

  test('says what it can where its uses are not loaded', () => {
    expect(statesOf([], 50, 200, 600).map(state => state.kind)).toEqual(['filling', 'closed', 'drained']);
  });

  test('counts parts that are written as writes', () => {
    expect(statesOf(rowsOf([WRITE], [WRITE]), 50).map(stateWords)).toEqual(['write 1 of 2']);
    expect(statesOf(rowsOf([WRITE]), 5).map(stateWords)).toEqual(['being written']);
  });
});

describe('uses', () => {
  test('of one instruction: the read comes before the write', () => {
    const rows = rowsOf([WRITE], [WRITE, READ], [READ]);
    const run = runWith([{ start: 0, end: 500 }], rows);
    const groups = grouped(run, run.uses(0));
    expect(groups.map(group => [Array.from(group.starts), group.drained])).toEqual([
      [[0], 110],
      [[100], 210],
    ]);
    expect(grouped(run, run.uses(0), 1).length).toBe(1);
    expect(readersOf(run.uses(0))).toEqual([1, 2]);
  });

  test('tell the written share, writes that are under way in part', () => {
    const run = runWith([{ start: 0, written: 215, end: 500 }], rowsOf([WRITE], [WRITE], [READ]));
    const tile = tileOf(occupancyOf(run, 'sbuf', 0), 0);
    const usage = createUsage(run);
    expect(usage.written(tile, 15)).toBe(0.5);
    expect(usage.written(tile, 100 + 7.5)).toBe(0.75);
    expect(usage.written(tile, 215)).toBe(1);
  });
});

describe('the strip of banks', () => {
  const layout = (tiles: Parameters<typeof occupied>[0], state: BankState = { kind: 'closed' }): Banks =>
    layoutBanks({
      tiles: occupied(tiles, 'psum').tiles,
      count: 8,
      bankBytes: 2048,
      partitions: 128,
      area: { x: 0, y: 0, width: 870, height: 64 },
      gap: 10,
      state: () => state,
      words: stateWords,
      measure: MEASURE,
    });
  const psum = { space: 'psum', start: 0, end: 9 } as const;

  test('has each tile in place within its bank', () => {
    const { banks, pieces, used } = layout([{ ...psum, byte: 3072, bytes: 1024, partitions: 64 }]);
    expect(pieces).toMatchObject([{ x: 160, y: 0, width: 50, height: 32 }]);
    expect(banks.map(bank => bank.free)).toEqual([true, false, true, true, true, true, true, true]);
    expect(used).toBe(1);
  });

  test('parts tiles of several banks', () => {
    const { pieces } = layout([{ ...psum, byte: 2048, bytes: 4096 }]);
    expect(pieces.map(piece => [piece.x, piece.width])).toEqual([[110, 100], [220, 100]]); // prettier-ignore
  });

  test('counts drained banks apart', () => {
    const { used, drained, pieces } = layout([{ ...psum, bytes: 2048 }], { kind: 'drained', since: 1 });
    expect([used, drained, pieces[0].share]).toEqual([0, 1, 1]);
  });
});
