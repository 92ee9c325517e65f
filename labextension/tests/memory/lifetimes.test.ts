import { describe, expect, test } from 'vitest';

import type { Chart, ChartInput } from '../../src/views/memory/lifetimes';
import { layoutLifetimes } from '../../src/views/memory/lifetimes';
import { finished } from '../../src/views/memory/layer';
import { MEASURE, occupied, scattered } from './tiles';
import type { TileGiven } from './tiles';

const AREA = { x: 0, y: 0, width: 1000, height: 192 };

function chart(tiles: readonly TileGiven[], more: Partial<ChartInput> = {}): Chart {
  const sbuf = occupied(tiles);
  const window = more.window ?? { from: 0, to: 1000 };
  const made = layoutLifetimes({
    tiles: sbuf.between(window.from, window.to),
    window,
    partitions: undefined,
    bytes: { from: 0, to: 192 * 1024 },
    area: AREA,
    measure: MEASURE,
    deadWords: time => `dead ${time}`,
    makespan: 1000,
    clobbered: true,
    start: buffer => sbuf.of(buffer)?.start ?? Infinity,
    ...more,
  });
  return finished(made);
}

describe('lifetimes', () => {
  test('have addresses down and the three parts of a life to the right', () => {
    const { bars } = chart([{ byte: 32 * 1024, bytes: 32 * 1024, start: 100, written: 200, end: 600 }]);
    expect(bars).toMatchObject([{ x: 100, written: 200, end: 600, width: 900, y: 32, height: 31 }]);
    expect(bars[0]).toMatchObject({ label: 'k', labelled: 'live', deadLabel: 'dead 400' });
  });

  test('are of one class of partitions', () => {
    const low = { top: 0, partitions: 32, start: 0, end: 500 };
    const tiles = [low, { ...low, top: 32, byte: 9999 }];
    const found = chart(tiles, { partitions: { from: 32, to: 64 } });
    expect(found.bars.map(bar => bar.tile.buffer.id)).toEqual([1]);
  });

  test('that are too narrow join at their address, with their count', () => {
    const tiles = Array.from({ length: 40 }, (_, at) => ({ bytes: 32 * 1024, start: at, written: at, end: at + 1 }));
    const { bars, blocks } = chart(tiles);
    expect(bars.length).toBe(1); // the last one stays, dead, to the end of the run
    expect(blocks).toMatchObject([{ x: 0, width: 39, count: 39, busy: 1, label: '39' }]);
  });

  test('lose no tile, whatever their sizes', () => {
    for (let seed = 1; seed < 20; seed++) {
      const tiles = scattered(200, seed);
      const { bars, blocks } = chart(tiles, {
        bytes: { from: 0, to: 8 * 1024 },
        window: { from: 0, to: 1e5 },
        makespan: 1e5,
      });
      const placed = tiles.filter(tile => tile.byte !== -1).length;
      const drawn = bars.length + blocks.reduce((sum, block) => sum + block.count, 0);
      expect(drawn).toBe(placed);
    }
  });

  test('mark memory that is given away before the last read, if a finding says so', () => {
    const tiles = [
      { start: 0, end: 500 },
      { start: 400, end: 900 },
    ];
    expect(chart(tiles).early).toMatchObject([{ x: 400, by: 100 }]);
    expect(chart(tiles, { clobbered: false }).early).toEqual([]);
  });
});
