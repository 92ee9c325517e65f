import { describe, expect, test } from 'vitest';

import type { Tile } from '../../src/views/memory/occupancy';
import { phaseAt, writtenAt } from '../../src/views/memory/occupancy';
import { occupied, scattered, tileOf } from './tiles';

const ids = (tiles: readonly Tile[]): number[] => tiles.map(tile => tile.buffer.id).sort((a, b) => a - b);

describe('a tile', () => {
  test('is written, live and dead in turn', () => {
    const tile = tileOf(occupied([{ start: 100, written: 200, end: 500 }]), 0);
    expect([100, 199, 200, 499, 500].map(time => phaseAt(tile, time))).toEqual([
      'writing',
      'writing',
      'live',
      'live',
      'dead',
    ]);
    expect([100, 150, 200, 900].map(time => writtenAt(tile, time))).toEqual([0, 0.5, 1, 1]);
  });

  test('is there until its bytes are taken, dead or not', () => {
    const sbuf = occupied([
      { byte: 0, start: 0, end: 100 },
      { byte: 512, start: 300, end: 400 },
      { byte: 4096, start: 0, end: 100 },
    ]);
    expect(tileOf(sbuf, 0)).toMatchObject({ gone: 300, next: 1 });
    expect(tileOf(sbuf, 2)).toMatchObject({ gone: Infinity, next: -1 });
    expect(ids(sbuf.at(299))).toEqual([0, 2]);
    expect(ids(sbuf.at(300))).toEqual([1, 2]);
  });

  test('keeps its bytes where others take only other partitions', () => {
    const sbuf = occupied([
      { top: 0, partitions: 64, start: 0, end: 100 },
      { top: 64, partitions: 64, start: 200, end: 300 },
    ]);
    expect(tileOf(sbuf, 0).gone).toBe(Infinity);
  });

  test('that is overwritten while it lives stays to its end and says by whom', () => {
    const sbuf = occupied([
      { start: 0, end: 500 },
      { start: 200, end: 600 },
    ]);
    expect(tileOf(sbuf, 0)).toMatchObject({ gone: 500, next: 1 });
    expect(ids(sbuf.at(300))).toEqual([0, 1]);
  });
});

describe('tiles without an address', () => {
  test('are shown beyond the memory, the lowest free place first, and only while they live', () => {
    const sbuf = occupied([
      { byte: 0, bytes: 1000, start: 0, end: 900 },
      { byte: -1, bytes: 100, start: 10, end: 50 },
      { byte: -1, bytes: 100, start: 20, end: 90 },
      { byte: -1, bytes: 100, start: 60, end: 90 },
    ]);
    expect([1, 2, 3].map(id => tileOf(sbuf, id).low - 196608)).toEqual([0, 100, 0]);
    expect(tileOf(sbuf, 1)).toMatchObject({ placed: false, gone: 50 });
    expect(sbuf.highWater).toEqual({ bytes: 1000, time: 0 });
    expect(sbuf.reach).toBe(196608 + 200);
    expect(sbuf.homeless.length).toBe(3);
  });

  test('are not drawn where no tile has one', () => {
    const sbuf = occupied([{ byte: -1, start: 0, end: 10 }]);
    expect(sbuf.tiles).toEqual([]);
    expect(sbuf.homeless.length).toBe(1);
  });
});

describe('the index', () => {
  test('finds the tiles of any time and range that a search of all finds', () => {
    for (let seed = 1; seed < 30; seed++) {
      const sbuf = occupied(scattered(seed < 5 ? seed : 900, seed));
      for (const [from, to] of [
        [0, 0],
        [500, 500],
        [990, 1300],
        [200, 320],
        [-10, 5000],
        [3000, 4000],
      ] as const) {
        // prettier-ignore
        const expected = sbuf.tiles.filter(tile => tile.start <= to && tile.gone > from);
        expect(ids(sbuf.between(from, to))).toEqual(ids(expected));
        expect(ids(sbuf.at(from))).toEqual(ids(sbuf.between(from, from)));
      }
    }
  });

  test('lets no two tiles with addresses have one byte once the earlier has ended', () => {
    for (let seed = 1; seed < 10; seed++) {
      const { tiles } = occupied(scattered(300, seed));
      for (const old of tiles) {
        const taken = tiles.find(
          tile =>
            tile.placed && old.placed && tile !== old && tile.start >= old.end && tile.start < old.gone &&
            tile.low < old.high && old.low < tile.high && tile.top < old.bottom && old.top < tile.bottom &&
            (tile.start > old.start || tile.buffer.id > old.buffer.id),
        ); // prettier-ignore
        expect(taken).toBeUndefined();
      }
    }
  });

  test('of 5,000 tiles answers in much less than a frame', () => {
    const sbuf = occupied(scattered(5000, 3));
    const begin = performance.now();
    for (let time = 0; time < 1000; time++) sbuf.at(time);
    expect((performance.now() - begin) / 1000).toBeLessThan(4);
  });
});
