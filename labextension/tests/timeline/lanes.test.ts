import { describe, expect, test } from 'vitest';

import type { RowGiven } from '../messages';
import { dense, layoutLane } from '../../src/views/timeline/columns';
import { layoutDma, packed, tracksFor, MOST_TRACKS } from '../../src/views/timeline/dma';
import { layoutPath } from '../../src/views/timeline/path';
import { draws, jagged, QUEUE, QUEUES, runOf, TENSOR } from './runs';

describe('a lane', () => {
  const crowded = runOf(Array.from({ length: 4000 }, (_, at) => ({ start: at * 10, duration: 5, wait: 5, stall: 1 })));

  test('gives way to columns where most pixels have more than one row', () => {
    const found = layoutLane(crowded, TENSOR, { from: 0, to: 40_000, width: 800 });
    expect(found.bars).toBeNull();
    expect(found.columns?.count).toBe(4000);
    expect(found.columns?.sums.count).toBe(800);
    expect([...(found.columns?.sums.rows ?? [])].every(rows => rows === 5)).toBe(true);
  });

  test('has columns whose sums are exact', () => {
    const sums = layoutLane(crowded, TENSOR, { from: 3, to: 40_003, width: 777 }).columns?.sums;
    const total = sums?.busy.reduce((sum, part) => sum + part, 0) ?? 0;
    expect(total).toBeCloseTo(4000 * 5 - 3);
  });

  test('has bars where rows are far apart, or crowded in few pixels only', () => {
    expect(layoutLane(crowded, TENSOR, { from: 0, to: 4000, width: 800 }).columns).toBeNull();
    const burst = Array.from({ length: 3000 }, (_, at) => ({ start: at, duration: 1 }));
    const run = runOf([...burst, { start: 900_000, duration: 100_000 }]);
    const found = layoutLane(run, TENSOR, { from: 0, to: 1_000_000, width: 500 });
    expect(found.bars?.bars.map(bar => bar.count)).toEqual([3000, 1]);
  });

  test('tells its busy share of the window as far as the run lies in it', () => {
    expect(layoutLane(crowded, TENSOR, { from: 0, to: crowded.makespan, width: 800 }).busy).toBeCloseTo(0.5, 3);
    expect(layoutLane(crowded, TENSOR, { from: -9000, to: 80_000, width: 800 }).busy).toBeCloseTo(0.5, 3);
    expect(layoutLane(crowded, TENSOR, { from: 50_000, to: 80_000, width: 800 }).busy).toBe(0);
    expect(layoutLane(crowded, TENSOR, { from: 10_000, to: 20_000, width: 800 }).busy).toBeCloseTo(0.5);
  });

  test('has columns where not all its rows are loaded', () => {
    const rows = [{ start: 0, duration: 10 }];
    const run = runOf(rows, { steps: 5000 });
    const whole = { ...run.buckets(TENSOR, 0, 100, 1), rows: Uint32Array.of(5000) };
    Object.defineProperty(run, 'buckets', { value: () => whole });
    expect(layoutLane(run, TENSOR, { from: 0, to: 100, width: 1 }).bars).toBeNull();
  });

  test('is dense from more than half of its pixels on', () => {
    expect(dense(Uint32Array.of(2, 2, 1, 0))).toBe(false);
    expect(dense(Uint32Array.of(2, 2, 9, 0))).toBe(true);
  });
});

describe('DMA', () => {
  const queues = (count: number, seed: number): RowGiven[] => {
    const draw = draws(seed);
    const all = Array.from({ length: 16 }, (_, queue) => jagged(count, seed + queue, 5 + queue)).flat();
    return all.filter(() => draw() < 0.8).sort((one, other) => one.start - other.start);
  };
  const lanes = Array.from({ length: 16 }, (_, queue) => 5 + queue);

  test('transfers on one track never overlap, and every one is on a track or counted', () => {
    for (let seed = 1; seed < 12; seed++) {
      const run = runOf(queues(20, seed), { header: QUEUES });
      const steps = Uint32Array.from({ length: run.rows.count }, (_, step) => step);
      const { tracks, hidden } = packed(run, steps, 0, 2);
      expect([...tracks.flat(), ...hidden].sort((one, other) => one - other)).toEqual(Array.from(steps));
      for (const track of tracks) {
        for (let at = 1; at < track.length; at++) {
          const end = run.rows.start[track[at - 1]] + run.rows.duration[track[at - 1]];
          expect(run.rows.start[track[at]]).toBeGreaterThanOrEqual(end);
        }
      }
    }
  });

  test('has a track for each of the transfers that overlap, up to a limit, and hides no critical one', () => {
    const rows = (count: number, critical = -1): RowGiven[] =>
      Array.from({ length: count }, (_, at) => ({
        lane: 5 + at,
        start: at,
        duration: 1000,
        critical: at === critical ? 1 : 0,
      }));
    const tracks = (count: number): number => {
      const run = runOf(rows(count), { header: QUEUES });
      return tracksFor(run, run.lanes.filter(lane => lane.kind === 'dma')); // prettier-ignore
    };
    expect([1, 2, 3, 4, 16].map(tracks)).toEqual([2, 2, 3, 4, MOST_TRACKS]);
    const run = runOf(rows(8, 6), { header: QUEUES });
    const found = layoutDma(run, lanes, { from: 0, to: 2000, width: 1000 }, 3);
    expect(found.hidden).toHaveLength(5);
    expect(found.hidden).not.toContain(6);
    expect(found.tracks?.flatMap(track => Array.from(track.steps)).sort()).toEqual([0, 1, 6]);
  });

  test('is busy while any of its queues is', () => {
    const run = runOf([
      { lane: QUEUE, start: 100, duration: 200 },
      { lane: QUEUE, start: 350, duration: 100 },
    ]);
    expect(run.dmaBusy(0, 0, 1000)).toBe(300);
    expect(run.dmaBusy(0, 200, 400)).toBe(150);
    expect(layoutDma(run, [QUEUE], { from: 0, to: 1000, width: 100 }, 2).busy).toBeCloseTo(300 / run.makespan);
  });

  test('has tracks for few transfers and columns for many, with a row for each queue', () => {
    const run = runOf(queues(300, 3), { header: QUEUES });
    const far = layoutDma(run, lanes, { from: 0, to: run.makespan, width: 100 }, 3);
    expect([far.tracks, far.columns?.sums.count]).toEqual([null, 100]);
    const near = layoutDma(run, lanes, { from: 0, to: run.makespan / 100, width: 1000 }, 3);
    expect([near.tracks?.length, near.columns, near.queues.length]).toEqual([3, null, 16]);
  });

  test('is as busy in columns as the time that its rows cover', () => {
    const run = runOf(queues(300, 5), { header: QUEUES });
    const { start, duration, lane, count } = run.rows;
    const all = Array.from({ length: count }, (_, at) => at).filter(at => lane[at] >= 5);
    const window = { from: run.makespan * 0.1, to: run.makespan * 0.7, width: 100 };
    let until = window.from;
    let expected = 0;
    for (const at of all) {
      const end = Math.min(start[at] + duration[at], window.to);
      expected += Math.max(0, end - Math.max(until, start[at]));
      until = Math.max(until, end);
    }
    const found = layoutDma(run, lanes, window, 3);
    expect(found.columns).not.toBeNull();
    expect(found.busy * (window.to - window.from)).toBeCloseTo(expected, 3);
  });

  test('in columns is never more than wholly busy', () => {
    const run = runOf(queues(300, 5), { header: QUEUES });
    const { columns } = layoutDma(run, lanes, { from: 0, to: run.makespan, width: 100 }, 2);
    expect(Math.max(...(columns?.sums.busy ?? []))).toBeLessThanOrEqual(run.makespan / 100 + 1e-6);
  });
});

describe('the critical path', () => {
  test('has work in the hue of its lane and waits in the hue of what they are for', () => {
    const run = runOf([
      { lane: QUEUE, start: 0, duration: 100, critical: 1 },
      { lane: TENSOR, start: 100, duration: 50 },
      { lane: TENSOR, start: 200, duration: 100, wait: 50, setup: 20, stall: 1, setupStall: 3, after: 0, critical: 1 },
    ]);
    const pieces = layoutPath(run, { from: 0, to: 300, width: 300 });
    expect(pieces.map(piece => [piece.hue, piece.x, piece.width, piece.step])).toEqual([
      ['dma', 0, 105, 0],
      ['dma', 105, 75, 2],
      ['scalar', 180, 20, 2],
      ['tensor', 200, 104, 2],
    ]);
    expect(pieces.map(piece => run.stalls[piece.reason])).toEqual([
      undefined,
      'data from dma',
      'table load',
      undefined,
    ]);
  });

  test('joins what no pixel can tell apart, and counts it', () => {
    const rows = Array.from({ length: 20_000 }, (_, at) => ({ start: at * 10, duration: 10, critical: 1 }));
    const pieces = layoutPath(runOf(rows), { from: 0, to: 200_000, width: 400 });
    expect(pieces).toHaveLength(1);
    expect(pieces[0]).toMatchObject({ count: 20_000, x: 0, from: 0, to: 200_005 });
  });

  test('keeps hues that change every few pixels apart', () => {
    const rows = Array.from({ length: 100 }, (_, at) => ({ lane: at % 2, start: at * 20, duration: 20, critical: 1 }));
    const pieces = layoutPath(runOf(rows), { from: 0, to: 2000, width: 200 });
    expect(pieces.map(piece => piece.hue).slice(0, 3)).toEqual(['tensor', 'vector', 'tensor']);
    expect(pieces).toHaveLength(100);
  });
});
