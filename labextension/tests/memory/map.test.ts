import { describe, expect, test } from 'vitest';

import { classesOf, classRange } from '../../src/views/memory/classes';
import { foldDead } from '../../src/views/memory/folds';
import { placeLabel, shorten } from '../../src/views/memory/labels';
import type { Box, MapInput } from '../../src/views/memory/map';
import {
  boxAt,
  byteTicks,
  fullest,
  fullRange,
  gapsOf,
  layoutMap,
  partitionTicks,
  usedRange,
} from '../../src/views/memory/map';
import { limited, partOf, zoomTo } from '../../src/views/memory/ranges';
import { MEASURE, occupied, scattered } from './tiles';
import type { TileGiven } from './tiles';

const AREA = { x: 50, y: 20, width: 1000, height: 256 };
const KIB = 1024;

function boxes(tiles: readonly TileGiven[], time: number, more: Partial<MapInput> = {}): readonly Box[] {
  return layoutMap({
    tiles: occupied(tiles).at(time),
    time,
    shown: { bytes: { from: 0, to: 100 * KIB }, rows: { from: 0, to: 128 } },
    area: AREA,
    share: () => 0.25,
    measure: MEASURE,
    second: () => '',
    ...more,
  });
}

describe('the map', () => {
  test('has bytes to the right and partitions down', () => {
    const [box] = boxes([{ byte: 10 * KIB, bytes: 20 * KIB, top: 32, partitions: 64, start: 0, end: 9 }], 1);
    expect(box).toMatchObject({ x: 150, y: 84, width: 199, height: 128, phase: 'live', share: 1 });
  });

  test('shows no tile narrower or lower than two pixels', () => {
    const [box] = boxes([{ bytes: 4, partitions: 1, start: 0, end: 9 }], 1);
    expect(box).toMatchObject({ width: 2, height: 2 });
  });

  test('says how much of a tile is written, and calls it live when all is', () => {
    const tiles = [{ start: 0, written: 10, end: 90 }];
    expect(boxes(tiles, 5)[0]).toMatchObject({ phase: 'writing', share: 0.25 });
    expect(boxes(tiles, 5, { share: () => 1 })[0].phase).toBe('live');
  });

  test('lets dead neighbours share an edge, and parts live ones', () => {
    const tiles = [0, 1].map(place => ({ byte: place * 10 * KIB, bytes: 10 * KIB, start: 0, end: 50 }));
    const edges = (time: number): number[] => {
      const [first, second] = boxes(tiles, time);
      return [first.x + first.width, second.x];
    };
    expect(edges(60)).toEqual([151, 150]);
    expect(edges(10)).toEqual([149, 150]);
  });

  test('keeps every box within the area for tiles of any place', () => {
    for (let seed = 1; seed < 20; seed++) {
      for (const box of boxes(scattered(200, seed), 500, {
        shown: { bytes: { from: 0, to: 4 * KIB }, rows: { from: 0, to: 128 } },
      })) {
        expect(box.x).toBeGreaterThanOrEqual(AREA.x);
        expect(box.y).toBeGreaterThanOrEqual(AREA.y);
        expect(box.x + box.width).toBeLessThanOrEqual(AREA.x + AREA.width + 2);
        expect(box.y + box.height).toBeLessThanOrEqual(AREA.y + AREA.height + 2);
      }
    }
  });

  test('finds the smallest box at a point, and narrow ones from six pixels away', () => {
    const found = boxes(
      [
        { byte: 0, bytes: 40 * KIB, start: 0, end: 9 },
        { byte: 60 * KIB, bytes: 4, start: 0, end: 9 },
      ],
      1,
    );
    expect(boxAt(found, 100, 100)?.tile.buffer.id).toBe(0);
    expect(boxAt(found, 646, 100)?.tile.buffer.id).toBe(1);
    expect(boxAt(found, 640, 100)).toBeUndefined();
    expect(boxAt(found, 452, 100)).toBeUndefined();
  });
});

describe('labels', () => {
  const room = (width: number, height: number): { width: number; height: number } => ({ width, height });

  test('stand upright, with a second line where there is room', () => {
    expect(placeLabel('rhs[6]', '16 KiB', room(50, 60), MEASURE)).toEqual({
      text: 'rhs[6]',
      second: '16 KiB',
      turned: false,
    });
    expect(placeLabel('rhs[6]', '16 KiB', room(50, 20), MEASURE)?.second).toBe('');
  });

  test('are turned in narrow boxes, and left out of small ones', () => {
    expect(placeLabel('rhs[6]', 'x', room(14, 60), MEASURE)).toEqual({ text: 'rhs[6]', second: '', turned: true });
    expect(placeLabel('rhs[6]', 'x', room(10, 60), MEASURE)).toBeNull();
    expect(placeLabel('', 'x', room(100, 60), MEASURE)).toBeNull();
  });

  test('that are cut keep the index', () => {
    expect(shorten('weights[3]', 48, MEASURE)).toBe('weig…[3]');
    expect(shorten('weights', 36, MEASURE)).toBe('weigh…');
    expect(shorten('total[2, 1]', 42, MEASURE)).toBe('…[2, 1]');
    expect(shorten('w[12345678]', 36, MEASURE)).toBe('');
  });
});

describe('dead tiles', () => {
  const dead = (count: number, bytes: number): readonly TileGiven[] =>
    Array.from({ length: count }, (_, at) => ({ byte: at * bytes, bytes, start: 0, end: 10 }));

  test('that are narrow and beside each other fold into one outline with their number', () => {
    const { boxes: kept, folds } = foldDead(boxes(dead(40, KIB), 50), new Set(), MEASURE);
    expect(kept).toEqual([]);
    expect(folds.length).toBe(1);
    expect(folds[0]).toMatchObject({ x: 50, name: 'k', label: { text: '40 × k', second: 'dead' } });
    expect(folds[0].boxes.length).toBe(40);
  });

  test('stand on their own where they are wide, chosen, or parted by what is alive', () => {
    expect(foldDead(boxes(dead(3, 10 * KIB), 50), new Set(), MEASURE).folds).toEqual([]);
    expect(foldDead(boxes(dead(3, KIB), 50), new Set([1]), MEASURE).boxes.map(box => box.tile.buffer.id)).toContain(1);
    const live = { byte: 2 * KIB, bytes: KIB, start: 0, end: 90 };
    const mixed = [...dead(2, KIB), live, ...[3, 4].map(at => ({ byte: at * KIB, bytes: KIB, start: 0, end: 10 }))];
    const { boxes: kept, folds } = foldDead(boxes(mixed, 50), new Set(), MEASURE);
    expect(folds.map(fold => fold.boxes.length)).toEqual([2, 2]);
    expect(kept.map(box => box.phase)).toEqual(['live']);
  });

  test('have their number where nothing alive lies on them', () => {
    const sliver = { byte: 50 * 256, bytes: 256, start: 0, end: 90 };
    const around = dead(128, 256).filter((_, at) => at !== 50);
    const laid = boxes([...around, sliver], 50);
    const [fold] = foldDead(laid, new Set(), MEASURE).folds;
    const alive = laid.find(box => box.phase === 'live');
    expect(fold).toMatchObject({ x: 50, label: { text: '127 × k' } });
    expect(fold.clear).toMatchObject({ x: (alive?.x ?? 0) + (alive?.width ?? 0), y: fold.y, height: fold.height });
    expect(fold.clear.x + fold.clear.width).toBe(fold.x + fold.width);
  });

  test('are all there, folded or not, for tiles of any place', () => {
    for (let seed = 1; seed < 20; seed++) {
      const laid = boxes(scattered(300, seed), 500);
      const { boxes: kept, folds } = foldDead(laid, new Set(), MEASURE);
      const ids = [...kept, ...folds.flatMap(fold => fold.boxes)].map(box => box.tile.buffer.id).sort((a, b) => a - b);
      expect(ids).toEqual(laid.map(box => box.tile.buffer.id).sort((a, b) => a - b));
      expect(folds.every(fold => fold.boxes.every(box => box.phase === 'dead'))).toBe(true);
    }
  });
});

describe('a zoomed map', () => {
  const zoomed = { bytes: { from: 10 * KIB, to: 20 * KIB }, rows: { from: 32, to: 64 } };

  test('shows what lies in its ranges only, cut at its edges', () => {
    const tiles = [0, 5, 15, 30].map(at => ({ byte: at * KIB, bytes: 10 * KIB, start: 0, end: 90 }));
    const found = boxes(tiles, 1, { shown: zoomed });
    expect(found.map(box => [box.tile.buffer.id, box.x, box.height])).toEqual([
      [1, 50, 256],
      [2, 550, 256],
    ]);
  });

  test('never shows less than its least, nor what is not there', () => {
    expect(limited({ from: 5, to: 6 }, 1000, 16)).toEqual({ from: 0, to: 16 });
    expect(limited({ from: 990, to: 1100 }, 1000, 16)).toEqual({ from: 890, to: 1000 });
    expect(limited(null, 1000, 16)).toEqual({ from: 0, to: 1000 });
    expect(zoomTo({ from: -3, to: 1001 }, 1000)).toBeNull();
    expect(partOf({ from: 100, to: 200 }, 0.75, 0.25)).toEqual({ from: 125, to: 175 });
  });

  test('names its own partitions and bytes', () => {
    expect(partitionTicks(zoomed.rows, 200)).toEqual([32, 48, 63]);
    expect(byteTicks(zoomed.bytes, 200).values.every(value => value >= 10 * KIB && value <= 20 * KIB)).toBe(true);
  });
});

describe('free bytes', () => {
  test('are those that no tile takes in any partition, dead ones included', () => {
    const sbuf = occupied([
      { byte: 0, bytes: 100, start: 0, end: 10 },
      { byte: 150, bytes: 50, top: 64, partitions: 32, start: 0, end: 90 },
      { byte: 160, bytes: 20, top: 0, partitions: 32, start: 0, end: 90 },
    ]);
    const gaps = gapsOf(sbuf.at(50), 1000);
    expect(gaps).toEqual({ spans: [[100, 150], [200, 1000]], total: 850, largest: 800 }); // prettier-ignore
  });

  test('are what is left of the capacity, for tiles of any place', () => {
    for (let seed = 1; seed < 20; seed++) {
      const tiles = occupied(scattered(120, seed)).at(400);
      const taken = new Uint8Array(4096);
      for (const tile of tiles) taken.fill(1, tile.low, tile.high);
      expect(gapsOf(tiles, 4096).total).toBe(taken.filter(byte => byte === 0).length);
    }
  });

  test('count against the fullest partition', () => {
    const tiles = occupied([
      { top: 0, partitions: 64, byte: 0, bytes: 100, start: 0, end: 90 },
      { top: 32, partitions: 64, byte: 200, bytes: 50, start: 0, end: 90 },
      { top: 96, partitions: 32, byte: 400, bytes: 120, start: 0, end: 10 },
    ]).at(50);
    expect([fullest(tiles, 50, false), fullest(tiles, 50, true)]).toEqual([150, 120]);
  });
});

describe('axes', () => {
  test('end at a round number of bytes, at most the capacity', () => {
    expect(usedRange(8.5 * KIB, 192 * KIB)).toBe(10 * KIB);
    expect(usedRange(190 * KIB, 192 * KIB)).toBe(192 * KIB);
    expect(usedRange(0, 192 * KIB)).toBe(64);
    expect(usedRange(204 * KIB, 192 * KIB)).toBe(fullRange(204 * KIB, 192 * KIB));
    expect(fullRange(8 * KIB, 192 * KIB)).toBe(192 * KIB);
    expect(fullRange(204 * KIB, 192 * KIB)).toBeGreaterThan(204 * KIB);
  });

  test('have ticks in one unit that do not touch', () => {
    const ticks = byteTicks({ from: 0, to: 192 * KIB }, 400);
    expect([ticks.unit, ...ticks.values.map(value => ticks.label(value))]).toEqual([
      'KiB',
      '0',
      '32',
      '64',
      '96',
      '128',
      '160',
      '192',
    ]);
    expect(byteTicks({ from: 0, to: 80 }, 400).unit).toBe('B');
    expect(partitionTicks({ from: 0, to: 128 }, 200)).toEqual([0, 32, 64, 96, 127]);
    expect(partitionTicks({ from: 0, to: 128 }, 60)).toEqual([0, 64, 127]);
  });
});

describe('classes', () => {
  const tile = (top: number, partitions: number): TileGiven => ({ top, partitions, start: 0, end: 9 });

  test('are stretches that every tile takes wholly or not at all', () => {
    const sbuf = occupied([tile(0, 128), tile(0, 32), tile(32, 32)]);
    const classes = classesOf(sbuf.tiles, 128);
    expect(classes.map(classRange)).toEqual(['partitions 0–31', 'partitions 32–63', 'partitions 64–127']);
  });

  test('leave out what no tile takes, and one partition is called so', () => {
    expect(classesOf(occupied([tile(0, 64)]).tiles, 128).length).toBe(1);
    const [first] = classesOf(occupied([tile(0, 1), tile(0, 128)]).tiles, 128);
    expect(classRange(first)).toBe('partition 0');
  });

  test('are the quadrants where there would be too many', () => {
    const tiles = Array.from({ length: 20 }, (_, at) => tile(0, 3 * at + 60));
    const classes = classesOf(occupied(tiles).tiles, 128);
    expect(classes.map(one => one.from)).toEqual([0, 32, 64, 96]);
  });
});
