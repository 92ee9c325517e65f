import { flowCurve, hasFlow, hbmBytes, makingTime } from '../../src/views/timeline/flows';
import { describe, expect, test } from 'vitest';

import type { State } from '../../src/types';
import { spotFor } from '../../src/views/timeline/card';
import { layoutArrows, MOST_ARROWS, neighbours } from '../../src/views/timeline/arrows';
import { barTop, type Figure, layoutFigure, placeOf, snapped } from '../../src/views/timeline/figure';
import { obstacles, placeFor, route } from '../../src/views/timeline/routes';
import { hitAt, nearest } from '../../src/views/timeline/hit';
import { rangeOf, stepOf } from '../../src/views/timeline/pointer';
import { layoutStrips, SIZES, type Strip } from '../../src/views/timeline/strips';
import type { Run } from '../../src/types';
import type { RowGiven } from '../messages';
import { QUEUE, QUEUES, runOf, TENSOR, VECTOR } from './runs';

type Look = Pick<State, 'layout' | 'showCritical' | 'folded'>;
const look = (layout: State['layout'] = 'wide', showCritical = true, ...folded: readonly string[]): Look => ({
  layout,
  showCritical,
  folded: new Set(folded),
});
const figureOf = (run: Run, from = 0, to = run.makespan, width = 1000): Figure =>
  layoutFigure(run, layoutStrips(run, look()), { from, to, width });

const ROWS: readonly RowGiven[] = [
  { lane: QUEUE, start: 0, duration: 300, critical: 1 },
  { lane: TENSOR, start: 320, duration: 200, wait: 320, setup: 20, stall: 1, setupStall: 3, after: 0, critical: 1, edges: [[0, 0]] }, // prettier-ignore
  { lane: VECTOR, start: 540, duration: 2, wait: 540, stall: 1, after: 1, critical: 1, edges: [[1, 0]] },
  { lane: TENSOR, start: 600, duration: 400, edges: [[1, 2]] },
];

describe('strips', () => {
  const names = (strips: readonly Strip[]): string[] =>
    strips.map(strip => (strip.kind === 'lane' ? strip.lane.label : strip.kind));

  test('lie below each other without gaps, in the heights of the visual language', () => {
    const { strips, height } = layoutStrips(runOf(ROWS), look());
    let top = 0;
    for (const strip of strips) {
      expect(strip.top).toBe(top);
      top += strip.height;
    }
    expect(top).toBe(height);
    expect(strips.map(strip => strip.height).slice(0, 4)).toEqual([22, 16, 24, 24]);
    expect(names(strips)).toEqual(['axis', 'path', 'Tensor', 'Vector', 'dma']);
  });

  test('have Sync only where it ran, and no queues that did not', () => {
    const idle = runOf([{ lane: 0, start: 0, duration: 5 }], { header: QUEUES });
    expect(names(layoutStrips(idle, look()).strips)).toEqual(['axis', 'path', 'Tensor', 'Vector', 'Scalar', 'GpSimd']);
    const busy = runOf([4, 5, 6, 7].map(lane => ({ lane, start: 0, duration: 5 })), { header: QUEUES }); // prettier-ignore
    const { strips } = layoutStrips(busy, look());
    expect(names(strips).slice(-2)).toEqual(['Sync', 'dma']);
    const [sync, dma] = strips.slice(-2);
    expect([sync.height, dma.height]).toEqual([SIZES.sync, 3 * (SIZES.track + 2) + 4 + 3 * SIZES.pitch + 4]);
  });

  test('are higher where the page is widest, and without the critical path if it is off', () => {
    const { strips } = layoutStrips(runOf(ROWS), look('widest', false));
    expect(strips.map(strip => strip.kind)).toEqual(['axis', 'lane', 'lane', 'dma', 'counter']);
    expect(strips[1]).toMatchObject({ height: 32, bar: 19 });
  });

  test('name the core where there are several', () => {
    const lanes = [0, 1].map(core => ({ name: 'tensor', kind: 'engine', core }));
    const run = runOf([0, 1].map(lane => ({ lane, start: 0, duration: 5 })), { header: { lanes } }); // prettier-ignore
    expect(layoutStrips(run, look()).strips.map(strip => strip.kind)).toEqual(['axis', 'path', 'core', 'lane', 'core', 'lane']); // prettier-ignore
  });
});

describe('a row', () => {
  test('is placed at its true width on its lane or track', () => {
    const figure = figureOf(runOf(ROWS));
    const [, , tensor, vector, dma] = figure.strips;
    expect(placeOf(figure, 1)).toEqual({ x: 320, width: 200, y: barTop(tensor as never), height: 16 });
    expect(placeOf(figure, 2)).toEqual({ x: 540, width: 2, y: barTop(vector as never), height: 16 });
    expect(placeOf(figure, 0)).toEqual({ x: 0, width: 300, y: dma.top + 3, height: SIZES.track });
  });

  test('that is not loaded has no place', () => {
    expect(placeOf(figureOf(runOf(ROWS)), 99)).toBeNull();
  });

  test('of a transfer that no track has room for is in the row of its queue', () => {
    const rows = [5, 6, 7, 8, 9, 10].map(lane => ({ lane, start: lane, duration: 100 }));
    const figure = figureOf(runOf(rows, { header: QUEUES }));
    const dma = figure.strips.find(strip => strip.kind === 'dma');
    expect(placeOf(figure, 4)).toMatchObject({ y: dma?.tracks[4], height: SIZES.track });
    expect(placeOf(figure, 5)).toMatchObject({ y: (dma?.queues ?? 0) + 5 * SIZES.pitch, height: SIZES.queue });
  });
});

describe('the pointer', () => {
  const figure = figureOf(runOf(ROWS));
  const at = (step: number): number => placeOf(figure, step)?.y ?? 0;

  test('hits bars, waits, the path and empty lanes', () => {
    expect(hitAt(figure, 400, at(1) + 3)).toMatchObject({ kind: 'bar', lane: TENSOR, bar: { step: 1 } });
    expect(hitAt(figure, 100, at(1) + 3)).toMatchObject({ kind: 'wait', wait: { step: 1, stall: 1 } });
    expect(hitAt(figure, 310, at(1) + 3)).toMatchObject({ kind: 'wait', wait: { step: 1, stall: 3 } });
    expect(hitAt(figure, 560, at(1) + 3)).toMatchObject({ kind: 'lane', lane: TENSOR });
    expect(hitAt(figure, 400, 30)).toMatchObject({ kind: 'path', step: 1 });
    expect(hitAt(figure, 400, 5)).toMatchObject({ kind: 'other', strip: { kind: 'axis' } });
    expect(hitAt(figure, 150, at(0) + 2)).toMatchObject({ kind: 'bar', bar: { step: 0 } });
    expect([hitAt(figure, -1, 60).kind, hitAt(figure, 60, 9999).kind]).toEqual(['none', 'none']);
  });

  test('hits a bar of 2 px within 6 px, and the nearer of two', () => {
    expect(hitAt(figure, 538.5, at(2) + 3)).toMatchObject({ kind: 'bar', bar: { step: 2 } });
    expect(hitAt(figure, 543.9, at(2) + 3)).toMatchObject({ kind: 'bar', bar: { step: 2 } });
    expect(hitAt(figure, 545, at(2) + 3).kind).not.toBe('bar');
    const pieces = [0, 4, 20].map(x => ({ x, width: 1 }));
    expect([nearest(pieces, 2.2), nearest(pieces, 2.8), nearest(pieces, 12)]).toEqual([pieces[0], pieces[1], null]);
  });

  test('selects the row that was hit, and of a column the longest', () => {
    expect(stepOf(figure, hitAt(figure, 100, at(1) + 3))).toBe(1);
    const rows = Array.from({ length: 4000 }, (_, step) => ({ start: step * 10, duration: step === 1234 ? 9 : 5 }));
    const crowded = figureOf(runOf(rows), 0, 40_000, 800);
    const hit = hitAt(crowded, 246.5, 45);
    expect(hit).toMatchObject({ kind: 'column', column: 246 });
    expect(stepOf(crowded, hit)).toBe(1234);
  });

  test('doubly clicked zooms to the bar, or the whole of a wait', () => {
    expect(rangeOf(figure, hitAt(figure, 400, at(1) + 3))).toEqual({ from: 320, to: 520 });
    expect(rangeOf(figure, hitAt(figure, 100, at(1) + 3))).toEqual({ from: 0, to: 320 });
    expect(rangeOf(figure, hitAt(figure, 560, at(1) + 3))).toBeNull();
  });
});

describe('the cursor', () => {
  const run = runOf(ROWS);
  const layout = layoutStrips(run, look());

  test('snaps to the nearest begin or end of any lane within reach', () => {
    expect(snapped(run, layout, 318, 6)).toBe(320);
    expect(snapped(run, layout, 303, 6)).toBe(300);
    expect(snapped(run, layout, 541.4, 6)).toBe(542);
  });

  test('stays where no edge is near', () => {
    expect(snapped(run, layout, 400, 6)).toBe(400);
  });
});

describe('arrows', () => {
  test('lead from the end of what was waited for to the begin of what waited', () => {
    const figure = figureOf(runOf(ROWS));
    const { drawn, more } = layoutArrows(figure, 1);
    expect(more).toBe(0);
    expect(drawn.map(arrow => [arrow.step, arrow.from.x, arrow.to.x, arrow.flow])).toEqual([
      [0, 300, 320, true],
      [2, 520, 540, true],
      [3, 520, 600, false],
    ]);
    expect(drawn[0].binding).toBe(true);
  });

  test('are twelve at most, the binding ones first, and the rest is counted', () => {
    const many = Array.from({ length: 40 }, (_, at) => ({ lane: QUEUE, start: at * 10, duration: 10 }));
    const edges = many.map((_, at) => [at, 0] as const);
    const run = runOf([...many, { lane: TENSOR, start: 400, duration: 10, after: 25, edges }]);
    const { drawn, more } = layoutArrows(figureOf(run), 40);
    expect([drawn.length, more]).toEqual([MOST_ARROWS, neighbours(run, 40).length - MOST_ARROWS]);
    expect(drawn[0]).toMatchObject({ step: 25, binding: true });
  });

  test('to rows outside the window run to its edge with their time', () => {
    const figure = figureOf(runOf(ROWS), 310, 590);
    const { drawn } = layoutArrows(figure, 1);
    expect(drawn.find(arrow => arrow.step === 0)).toMatchObject({ from: { x: 0 }, beyond: 300 });
    expect(drawn.find(arrow => arrow.step === 3)).toMatchObject({ to: { x: 1000 }, beyond: 600 });
    expect(drawn.find(arrow => arrow.step === 3)?.text).toContain('at 1 ns');
  });

  test('run along the lines between lanes and cross no bar where there is a way', () => {
    const between = (at: number): RowGiven[] => [
      { lane: VECTOR, start: at, duration: 40 },
      { lane: VECTOR, start: at + 60, duration: 40 },
    ];
    const rows = [
      { lane: TENSOR, start: 0, duration: 100 },
      ...[100, 200, 300, 400, 500, 600, 700].flatMap(between),
      { lane: QUEUE, start: 820, duration: 100, edges: [[0, 0]], after: 0 } as RowGiven,
    ];
    const run = runOf(rows);
    const figure = figureOf(run);
    const last = rows.length - 1;
    const [arrow] = layoutArrows(figure, last).drawn;
    const way = route(figure, arrow);
    for (let at = 1; at < way.length; at++) {
      const [one, two] = [way[at - 1], way[at]];
      expect(one.x === two.x || one.y === two.y).toBe(true);
      const box = { x: Math.min(one.x, two.x), y: Math.min(one.y, two.y) + 0.5 };
      const size = { width: Math.abs(one.x - two.x) + 0.1, height: Math.max(0, Math.abs(one.y - two.y) - 1) };
      expect(obstacles(figure, { ...box, ...size })).toBe(0);
    }
    const [tensor, dma] = [0, last].map(step => placeOf(figure, step)!);
    expect([way[0].y, way.at(-1)?.y]).toEqual([tensor.y + tensor.height, dma.y]);
    const size = { width: 80, height: 16 };
    const place = placeFor(figure, way, size, []);
    if (place !== null) expect(obstacles(figure, place)).toBe(0);
  });

  test('have no words where every place is taken', () => {
    const full = [TENSOR, VECTOR, QUEUE].map(lane => ({ lane, start: 0, duration: 1000 }));
    const figure = figureOf(runOf(full));
    const way = [
      { x: 10, y: 40 },
      { x: 10, y: 62 },
      { x: 900, y: 62 },
      { x: 900, y: 64 },
    ];
    expect(placeFor(figure, way, { width: 60, height: 16 }, [])).toBeNull();
  });
});

describe('a card', () => {
  const card = { width: 300, height: 150 };
  const room = { width: 1000, height: 400 };

  test('stands below what it is of', () => {
    expect(spotFor(card, { x: 100, y: 50, width: 500, height: 16 }, room)).toEqual({ x: 150, y: 76 });
  });

  test('stands beside it where there is no room below, and to its left where there is none to the right', () => {
    expect(spotFor(card, { x: 100, y: 300, width: 200, height: 13 }, room)).toEqual({ x: 310, y: 246 });
    expect(spotFor(card, { x: 800, y: 300, width: 100, height: 13 }, room)).toEqual({ x: 490, y: 246 });
  });

  test('never leaves the room', () => {
    expect(spotFor({ width: 900, height: 800 }, { x: 990, y: 390, width: 9, height: 9 }, room)).toEqual({
      x: 80,
      y: 4,
    });
  });
});

describe('flows', () => {
  const rows: RowGiven[] = [
    { lane: QUEUE, start: 100, duration: 100, accesses: [[2, 1]] },
    { lane: QUEUE, start: 300, duration: 0 },
  ];

  test('are not there where nothing of them was recorded', () => {
    const run = runOf(ROWS);
    expect([hasFlow(run, 'descriptors', 0), makingTime(run, 0, 0, 1000), hbmBytes(runOf(rows), 0, 1e6)]).toEqual([
      false, 0, 0,
    ]); // prettier-ignore
  });

  test('have exact sums in every bucket', () => {
    const curve = flowCurve(runOf(rows), 'hbm', -1, { from: 0, to: 400, width: 8 });
    expect(curve.points).toHaveLength(8);
    expect(Math.min(...curve.points)).toBeGreaterThanOrEqual(0);
  });
});
