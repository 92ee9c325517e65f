// @vitest-environment node
import { describe, expect, test, vi } from 'vitest';

import { RANGE } from '../src/_generated/schema';
import { Feed, missing } from '../src/feed';
import { MessageParts } from '../src/message_parts';
import { createRun } from '../src/run';
import type { Host, State, Store } from '../src/types';
import type { Visualizer } from '../src/visualizer';
import { decode } from '../src/wire';
import { message, rowTables, runMessage } from './messages';
import type { RowGiven } from './messages';

const ROWS: readonly RowGiven[] = [0, 1, 2, 3].map(i => ({ start: i * 100, duration: 50 }));

/** A visualizer that notes what it is told; `listeners` are those of its store. */
function stub(): Visualizer & { told: string[]; change(state: Partial<State>): void; listeners: number } {
  let listeners: ((state: State, changes: ReadonlySet<keyof State>) => void)[] = [];
  const state = { step: 0, window: { from: 0, to: 1000 } } as State;
  const store = {
    state,
    listen(listener: (typeof listeners)[number]) {
      listeners.push(listener);
      return () => (listeners = listeners.filter(item => item !== listener));
    },
  } as unknown as Store;
  const made = {
    told: [] as string[],
    store: null as Store | null,
    setRun(run: { rows: { first: number; count: number } }): void {
      made.store = store;
      made.told.push(`run ${run.rows.first}+${run.rows.count}`);
    },
    setProgress: (read: number, total: number): void => void made.told.push(`read ${read} of ${total}`),
    setError: (title: string, text: string): void => void made.told.push(`${title}: ${text}`),
    setNotice: (): void => undefined,
    place: (): null => null,
    setRunning: (): void => undefined,
    setGrowing: (): void => undefined,
    setDoneUntil: (): void => undefined,
    dispose: (): void => undefined,
    change(given: Partial<State>): void {
      Object.assign(state, given);
      for (const listener of listeners) listener(state, new Set(Object.keys(given) as (keyof State)[]));
    },
    get listeners() {
      return listeners.length;
    },
  };
  return made;
}

const rowsMessage = (first: number, rows: readonly RowGiven[]): ArrayBuffer =>
  message({ header: { first, count: rows.length, from: 0, until: 0 }, tables: rowTables(rows, first) });

describe('a feed', () => {
  test('shows the lanes of a large run before its rows, and asks for no rows until it is whole', () => {
    const requestSteps = vi.fn<Host['requestSteps']>();
    const feed = new Feed({ requestSteps });
    const visualizer = stub();
    feed.attach(visualizer);
    feed.accept(runMessage({ rows: [], header: { steps: 10 * RANGE, coarse: true } }));
    visualizer.change({ step: 7 });
    expect(visualizer.told).toEqual(['run 0+0']);
    expect(requestSteps).not.toHaveBeenCalled();
    feed.accept(runMessage({ rows: [], header: { steps: 10 * RANGE } }));
    visualizer.change({ step: 8 });
    expect(visualizer.told).toEqual(['run 0+0', 'run 0+0']);
    expect(requestSteps).toHaveBeenCalledOnce();
  });

  test('shows the run in all visualizers, those that come later too, and adds rows', () => {
    const feed = new Feed(null);
    const [early, late] = [stub(), stub()];
    feed.attach(early);
    feed.progress(5, 10);
    feed.accept(runMessage({ rows: ROWS.slice(0, 2), steps: 4 }));
    feed.progress(6, 10);
    feed.attach(late);
    feed.accept(rowsMessage(2, ROWS.slice(2)));
    expect(early.told).toEqual(['read 5 of 10', 'run 0+2', 'run 0+4']);
    expect(late.told).toEqual(['run 0+2', 'run 0+4']);
  });

  test('gathers rows that come one after the other', () => {
    vi.useFakeTimers();
    const feed = new Feed(null);
    const visualizer = stub();
    feed.attach(visualizer);
    feed.accept(runMessage({ rows: ROWS.slice(0, 1), steps: 5 }));
    feed.accept(rowsMessage(1, ROWS.slice(1, 2)));
    feed.accept(rowsMessage(2, ROWS.slice(2, 3)));
    expect(visualizer.told).toEqual(['run 0+1']);
    vi.advanceTimersByTime(1000);
    expect(visualizer.told).toEqual(['run 0+1', 'run 0+3']);
    vi.useRealTimers();
  });

  test('forgets a visualizer that is taken away', () => {
    const feed = new Feed(null);
    const visualizer = stub();
    const detach = feed.attach(visualizer);
    feed.accept(runMessage({ rows: ROWS }));
    expect(visualizer.listeners).toBe(1);
    detach();
    feed.accept(runMessage({ rows: ROWS }));
    expect([visualizer.listeners, visualizer.told.length]).toEqual([0, 1]);
  });

  test('says what cannot be read, to those that come later too', () => {
    const feed = new Feed(null);
    const [early, late] = [stub(), stub()];
    feed.attach(early);
    feed.accept(new ArrayBuffer(3));
    feed.attach(late);
    const said = 'This run cannot be shown: It has 3 bytes, fewer than any run.';
    expect([early.told, late.told]).toEqual([[said], [said]]);
  });

  test('follows each new store once', () => {
    const feed = new Feed(null);
    const followed: string[] = [];
    feed.attach(stub(), () => {
      followed.push('begin');
      return () => followed.push('end');
    });
    feed.accept(runMessage({ rows: ROWS.slice(0, 2), steps: 4 }));
    feed.accept(rowsMessage(2, ROWS.slice(2)));
    expect(followed).toEqual(['begin']);
  });
});

describe('a run that is too large to be loaded whole', () => {
  const STEPS = 4_000_000;
  const zoom = {
    lane: [0, 0],
    reason: [0, 0],
    bucket: [0, 1],
    time: [500_000, 500_000],
    rows: [STEPS / 2, STEPS / 2],
  };
  const tables = { zoom, zoom_critical: { lane: [0], bucket: [1] } };
  const header = { zoom_shift: 20, makespan: 2 ** 21, from: 0, until: 300 };
  const opening = (): ArrayBuffer => runMessage({ rows: ROWS, steps: STEPS, header, tables });

  test('has sums where its rows are not loaded', () => {
    const run = createRun(decode(opening()));
    expect([run.covers(0, 300), run.covers(0, 301), run.covers(-5, 10)]).toEqual([true, false, true]);
    expect([...run.buckets(0, 0, 300, 3).busy]).toEqual([50, 50, 50]);
    const whole = run.buckets(0, 0, 2 ** 21, 4);
    expect([...whole.busy]).toEqual([250_000, 250_000, 250_000, 250_000]);
    expect([...whole.rows]).toEqual([STEPS / 4, STEPS / 4, STEPS / 4, STEPS / 4]);
    expect([...whole.critical]).toEqual([0, 0, 1, 1]);
    expect(run.stepAt(100)).toBe(1);
    expect(run.stepAt(2 ** 20)).toBe(STEPS / 2 - 1);
    expect(run.rowsBetween(0, 2 ** 20)).toBe(STEPS / 2);
  });

  test('asks for the rows of a close window and of a step, once at a time', () => {
    const asked: [number, number][] = [];
    const host: Host = { requestSteps: (first, count) => asked.push([first, count]) };
    const feed = new Feed(host);
    const visualizer = stub();
    feed.attach(visualizer);
    feed.accept(opening());
    visualizer.change({ window: { from: 0, to: 2 ** 21 } });
    expect(asked).toEqual([]);
    visualizer.change({ step: STEPS - 1 });
    expect(asked).toEqual([[STEPS - RANGE, RANGE]]);
    visualizer.change({ step: STEPS / 2 });
    expect(asked.length).toBe(1); // the answer is on its way
    feed.accept(rowsMessage(STEPS - RANGE, ROWS));
    expect(asked[1]).toEqual([STEPS / 2 - RANGE / 2, RANGE]);
  });

  test('wants rows only where they would be drawn', () => {
    const run = createRun(decode(opening()));
    const at = (from: number, to: number, step = 0): unknown => missing(run, { window: { from, to }, step });
    expect(at(0, 200)).toBeNull();
    expect(at(0, 2 ** 20)).toBeNull();
    expect(at(2 ** 20 - 1000, 2 ** 20 + 1000)).toEqual({ first: STEPS / 2 - 1 - RANGE / 2, count: RANGE });
  });

  test('is not asked for where it comes by itself', () => {
    const run = createRun(decode(runMessage({ rows: ROWS, steps: 100 })));
    expect(missing(run, { window: { from: 0, to: 1000 }, step: 50 })).toBeNull();
  });
});

describe('parts of an answer', () => {
  test('make it whole, in whichever order', () => {
    const parts = new MessageParts();
    const bytes = Uint8Array.from([0, 1, 2, 3, 4]);
    const view = (from: number, to: number): DataView => new DataView(bytes.buffer, from, to - from);
    expect(parts.add({ message: 1, offset: 3, total: 5 }, view(3, 5))).toEqual({ whole: null, read: 2 });
    expect(parts.add({ message: 2, offset: 0, total: 9 }, view(0, 1)).read).toBe(1);
    const { whole } = parts.add({ message: 1, offset: 0, total: 5 }, view(0, 3));
    expect([...new Uint8Array(whole!)]).toEqual([0, 1, 2, 3, 4]);
  });
});
