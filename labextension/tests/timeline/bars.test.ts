import { describe, expect, test } from 'vitest';

import type { Run } from '../../src/types';
import { type Bar, JOINING_GAP, layoutBars, OWN_BAR, touching } from '../../src/views/timeline/bars';
import { type Scale, spanOf, xOf } from '../../src/views/timeline/zoom';
import { jagged, runOf, TENSOR } from './runs';

const bars = (run: Run, scale: Scale): readonly Bar[] => layoutBars(run, TENSOR, run.laneSteps(TENSOR), scale).bars;

/** The rule as it is written: one row after the other. */
function byTheRule(run: Run, scale: Scale): { first: number; count: number; critical: boolean }[] {
  const { start, duration, critical } = run.rows;
  const out: { first: number; count: number; critical: boolean; end: number; small: boolean }[] = [];
  for (let at = 0; at < run.rows.count; at++) {
    if (start[at] + duration[at] <= scale.from || start[at] > scale.to) continue;
    const small = duration[at] < spanOf(scale, OWN_BAR);
    const open = out.at(-1);
    if (small && open?.small && start[at] - open.end < spanOf(scale, JOINING_GAP)) {
      open.count += 1;
      open.critical ||= critical[at] === 1;
      open.end = start[at] + duration[at];
    } else out.push({ first: at, count: 1, critical: critical[at] === 1, end: start[at] + duration[at], small });
  }
  return out.map(({ first, count, critical }) => ({ first, count, critical }));
}

describe('bars', () => {
  test('of 3.2 px and more stand alone', () => {
    const run = runOf([
      { start: 0, duration: 32 },
      { start: 32, duration: 32 },
      { start: 64, duration: 936 },
    ]);
    const made = bars(run, { from: 0, to: 1000, width: 100 });
    expect(made.map(bar => [bar.x, bar.width, bar.count])).toEqual([
      [0, 3.2, 1],
      [3.2, 3.2, 1],
      [6.4, expect.closeTo(93.6), 1],
    ]);
  });

  test('that are narrower join into a block with their count and busy share', () => {
    const run = runOf([
      { start: 0, duration: 20 },
      { start: 30, duration: 20, critical: 1 },
      { start: 60, duration: 20 },
      { start: 200, duration: 20 },
    ]);
    const [block, alone] = bars(run, { from: 0, to: 1000, width: 100 });
    expect(block).toMatchObject({ x: 0, width: 8, step: 0, last: 2, count: 3, critical: true });
    expect(block.busy).toBeCloseTo(60 / 80);
    expect(alone).toMatchObject({ count: 1, busy: 1, critical: false });
  });

  test('are those of the rule for rows of any sizes', () => {
    for (let seed = 1; seed < 40; seed++) {
      const run = runOf(jagged(300, seed));
      for (const [from, to, width] of [
        [0, 1, 700],
        [0.2, 0.7, 400],
        [0.5, 0.52, 900],
        [-0.02, 1.02, 60],
      ]) {
        const scale = { from: from * run.makespan, to: to * run.makespan, width };
        const made = bars(run, scale).map(bar => ({ first: bar.step, count: bar.count, critical: bar.critical }));
        expect(made).toEqual(byTheRule(run, scale));
      }
    }
  });

  test('never overlap and never leave the window by more than their corners', () => {
    const run = runOf(jagged(2000, 7));
    const scale = { from: run.makespan * 0.3, to: run.makespan * 0.31, width: 500 };
    let end = -8;
    for (const bar of bars(run, scale)) {
      expect(bar.x).toBeGreaterThanOrEqual(end - 1e-6);
      end = bar.x + bar.width;
      expect(end).toBeLessThanOrEqual(508 + 1e-6);
    }
  });

  test('stay few however many rows there are', () => {
    const rows = Array.from({ length: 50_000 }, (_, at) => ({ start: at * 10, duration: 9 }));
    const made = bars(runOf(rows), { from: 0, to: 500_000, width: 800 });
    expect(made).toHaveLength(1);
    expect(made[0].count).toBe(50_000);
    expect(made[0].busy).toBeCloseTo(0.9, 3);
  });
});

describe('waits', () => {
  const rows = [
    { start: 0, duration: 100 },
    { start: 500, duration: 100, wait: 400, setup: 100, stall: 1, setupStall: 3 },
    { start: 900, duration: 100, wait: 5, stall: 1 },
    { start: 2000, duration: 100, wait: 900, stall: 1 },
  ];
  const waits = (scale: Scale): readonly (readonly [number, number, number, number])[] => {
    const run = runOf(rows);
    return layoutBars(run, TENSOR, run.laneSteps(TENSOR), scale).waits.map(wait => [
      wait.step, wait.stall, Math.round(wait.x), Math.round(wait.width),
    ]); // prettier-ignore
  };

  test("have the lane's own preparation apart, at their end", () => {
    expect(waits({ from: 0, to: 1000, width: 100 }).slice(0, 2)).toEqual([
      [1, 1, 10, 30],
      [1, 3, 40, 10],
    ]);
  });

  test('below the joining gap are not drawn', () => {
    expect(waits({ from: 0, to: 1000, width: 100 }).some(([step]) => step === 2)).toBe(false);
  });

  test('of a row after the window are drawn within it', () => {
    expect(waits({ from: 1000, to: 1500, width: 100 })).toEqual([[3, 1, 20, 80]]);
  });
});

test('rows that touch a window are those that run in it', () => {
  const run = runOf([
    { start: 0, duration: 100 },
    { start: 100, duration: 100 },
    { start: 300, duration: 100 },
  ]);
  const places = (from: number, to: number): readonly number[] => touching(run, run.laneSteps(TENSOR), from, to);
  expect(places(150, 250)).toEqual([1, 2]);
  expect(places(210, 290)).toEqual([2, 2]);
  expect(places(100, 300)).toEqual([1, 3]);
  expect(places(5000, 6000)).toEqual([3, 3]);
});

test('a time is where it is drawn', () => {
  expect(xOf({ from: 100, to: 300, width: 50 }, 200)).toBe(25);
});
