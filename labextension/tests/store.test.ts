import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createStore, whole } from '../src/store';
import type { Changes, Run, State } from '../src/types';

const STARTS = [0, 100_000, 250_000, 900_000];

/** A run of four steps, 50 ns each, of 1 µs. */
function run(fault = -1): Run {
  const start = Float64Array.from(STARTS);
  return {
    steps: 4,
    makespan: 1_000_000,
    fault,
    summary: {},
    rows: { first: 0, count: 4, start, duration: Float64Array.from(STARTS, () => 50_000) },
    has: (step: number) => step >= 0 && step < 4,
    siteOf: (step: number) => ({ source: 0, line: step + 10, column: 0, endLine: 0, endColumn: 0, function: 'f' }),
    stepAt: (time: number) => start.findLastIndex(begin => begin <= time),
  } as unknown as Run;
}

describe('the store', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('tells of all changes of a frame at once', () => {
    const store = createStore(run());
    const heard: [State, Changes][] = [];
    store.listen((state, changes) => heard.push([state, changes]));
    store.set({ time: 5 });
    store.set({ time: 7, playing: true });
    store.set({ tile: -1 });
    expect(store.state.time).toBe(7);
    vi.advanceTimersByTime(50);
    expect(heard).toHaveLength(1);
    expect([...(heard[0]?.[1] ?? [])].sort()).toEqual(['playing', 'time']);
    vi.advanceTimersByTime(50);
    expect(heard).toHaveLength(1);
  });

  it('lets one selection drive step, time and line', () => {
    const store = createStore(run());
    store.select(2);
    expect(store.state).toMatchObject({ selected: 2, step: 2, time: 250_000, line: { source: 0, line: 12 } });
  });

  it('moves the window as little as shows the step', () => {
    const store = createStore(run());
    store.set({ window: { from: 0, to: 200_000 } });
    store.select(1);
    expect(store.state.window).toEqual({ from: 0, to: 200_000 });
    store.select(3);
    const { from, to } = store.state.window;
    expect(to - from).toBeCloseTo(200_000);
    expect(from).toBeLessThan(900_000);
    expect(to).toBeGreaterThan(950_000);
  });

  it('goes to a step when its row comes', () => {
    const missing = { ...run(), has: () => false };
    const store = createStore(missing);
    store.set({ window: { from: 0, to: 200_000 } });
    store.goToStep(3);
    expect(store.state).toMatchObject({ step: 3, time: 0 });
    store.adopt(run(), true);
    expect(store.state).toMatchObject({ step: 3, time: 900_000, line: { source: 0, line: 13 } });
    expect(store.state.window.to).toBeGreaterThan(900_000);
    store.set({ window: { from: 0, to: 200_000 } });
    store.adopt(run(), true);
    expect(store.state.window.to).toBe(200_000);
  });

  it('moves the cursor without selecting', () => {
    const store = createStore(run());
    store.goTo(260_000);
    expect(store.state).toMatchObject({ selected: -1, step: 2, time: 260_000 });
    store.goTo(-5);
    expect(store.state).toMatchObject({ step: 0, time: 0 });
  });

  it('keeps windows within the run and its edges', () => {
    const store = createStore(run());
    store.set({ window: { from: -9e9, to: 9e9 } });
    expect(store.state.window).toEqual({ from: -20_000, to: 1_020_000 });
    store.set({ window: { from: 500_000, to: 500_001 } });
    expect(store.state.window.to - store.state.window.from).toBeGreaterThanOrEqual(1000);
  });

  it('eases to a window, and stops when something else is set', () => {
    const store = createStore(run());
    store.show({ from: 400_000, to: 600_000 }, true);
    vi.advanceTimersByTime(40);
    const { from } = store.state.window;
    expect(from).toBeGreaterThan(0);
    expect(from).toBeLessThan(400_000);
    store.set({ window: whole(run()) });
    vi.advanceTimersByTime(500);
    expect(store.state.window).toEqual(whole(run()));
    store.show({ from: 400_000, to: 600_000 }, true);
    vi.advanceTimersByTime(500);
    expect(store.state.window).toEqual({ from: 400_000, to: 600_000 });
  });

  it('begins a failed run at its fault', () => {
    expect(createStore(run(3)).state).toMatchObject({ step: 3, selected: 3, time: 900_000 });
  });

  it('keeps the state when more of the same run comes', () => {
    const store = createStore(run());
    store.select(2);
    store.adopt(run(), true);
    expect(store.state.selected).toBe(2);
    store.adopt(run(), false);
    expect(store.state.selected).toBe(-1);
  });

  it('is silent once it is disposed', () => {
    const store = createStore(run());
    const listener = vi.fn();
    store.listen(listener);
    store.set({ time: 5 });
    store.dispose();
    vi.advanceTimersByTime(100);
    expect(listener).not.toHaveBeenCalled();
  });
});
