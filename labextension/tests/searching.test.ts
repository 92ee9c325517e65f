import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createCommands, type Commands } from '../src/commands';
import { createPlayback } from '../src/playback';
import { pathPieces } from '../src/run/path';
import { beyond, createSearching } from '../src/searching';
import { LONGEST_STALLS, stallSteps } from '../src/stalls';
import { createStepping } from '../src/stepping';
import { createStore, type OwnedStore } from '../src/store';
import type { Run } from '../src/types';
import { marksOf } from '../src/views/timeline/marks';
import type { RowGiven } from './messages';
import { jagged, QUEUE, runOf, TENSOR, VECTOR } from './timeline/runs';

const ROWS: readonly RowGiven[] = [
  { lane: QUEUE, start: 0, duration: 300_000, critical: 1, accesses: [[0, 1]] },
  { lane: TENSOR, start: 320_000, duration: 200_000, wait: 320_000, stall: 1, after: 0, critical: 1, accesses: [[1, 1], [0, 0]] }, // prettier-ignore
  { lane: VECTOR, start: 540_000, duration: 200_000, wait: 4000, stall: 1, after: 1 },
];

let frames: FrameRequestCallback[];
const flush = (): void => {
  for (let round = 0; round < 4; round++) for (const frame of frames.splice(0)) frame(0);
};

beforeEach(() => {
  frames = [];
  vi.stubGlobal('requestAnimationFrame', (callback: FrameRequestCallback) => frames.push(callback));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function commandsOf(run: Run, store: OwnedStore, said: string[] = []): Commands {
  const nothing = (): void => undefined;
  return createCommands({
    run,
    store,
    stepping: createStepping(run),
    playback: createPlayback(run, store, () => false, nothing),
    speak: text => said.push(text),
    openSearch: nothing,
    openDetails: nothing,
    showKeys: nothing,
    expandMotion: nothing,
    findingSteps: () => [],
  });
}

describe('the search', () => {
  it('finds what the filter accepts, and nothing where nothing is asked', () => {
    const run = runOf(ROWS);
    const store = createStore(run);
    const searching = createSearching(() => run, store);
    store.set({ query: 'engine:tensor' });
    flush();
    expect(store.state.found).toEqual({ query: 'engine:tensor', problem: '', progress: 1, steps: Uint32Array.of(1) });
    store.set({ query: 'waited>fast' });
    flush();
    expect(store.state.found?.problem).toBe('"fast" is not a time such as 500ns');
    store.set({ query: '' });
    flush();
    expect(store.state.found).toBeNull();
    searching.dispose();
  });

  it('takes many rows in slices, and drops those of a query that was changed meanwhile', () => {
    const run = runOf(Array.from({ length: 90_000 }, (_, at) => ({ lane: at % 2, start: at * 10, duration: 10 })));
    const store = createStore(run);
    createSearching(() => run, store);
    store.set({ query: 'engine:tensor' });
    flush();
    expect([store.state.found?.progress, store.state.found?.steps.length]).toEqual([40_000 / 90_000, 0]);
    store.set({ query: 'engine:vector' });
    flush();
    vi.runAllTimers();
    flush();
    expect([store.state.found?.query, store.state.found?.steps.length]).toEqual(['engine:vector', 45_000]);
    expect(store.state.found?.steps[0]).toBe(1);
  });

  it('goes from match to match, round the end', () => {
    const run = runOf(ROWS);
    const store = createStore(run);
    const said: string[] = [];
    const commands = commandsOf(run, store, said);
    commands.nextMatch();
    expect(said).toEqual(['Nothing is searched']);
    store.set({ found: { query: 'x', problem: '', progress: 1, steps: Uint32Array.of(0, 2) } });
    const visit = (command: 'nextMatch' | 'previousMatch'): number => {
      commands[command]();
      return store.state.selected;
    };
    const names = ['nextMatch', 'nextMatch', 'nextMatch', 'previousMatch'] as const;
    expect(names.map(visit)).toEqual([0, 2, 0, 2]);
    store.set({ found: { query: 'x', problem: '', progress: 1, steps: new Uint32Array(0) } });
    commands.nextMatch();
    expect(said.at(-1)).toBe('No instruction matches');
  });

  it('marks bars, blocks of which a row was found, and columns', () => {
    const run = runOf(Array.from({ length: 100 }, (_, at) => ({ lane: at % 2, start: at * 10, duration: 10 })));
    const marks = marksOf(run, { query: 'x', problem: '', progress: 1, steps: Uint32Array.of(10, 51) })!;
    const bar = (step: number, last: number): boolean =>
      marks.has({ x: 0, width: 1, step, last, count: last === step ? 1 : 2, busy: 1, critical: false });
    expect([bar(10, 10), bar(12, 12), bar(8, 12), bar(12, 98), bar(11, 49), bar(49, 53)]).toEqual([
      true, false, true, false, false, true,
    ]); // prettier-ignore
    const flags = marks.columns([TENSOR], run.buckets(TENSOR, 0, 1000, 10));
    expect(Array.from(flags)).toEqual([0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect(marksOf(run, { query: 'x', problem: 'no', progress: 1, steps: new Uint32Array(0) })).toBeNull();
  });
});

describe('stalls', () => {
  it('are waits of 1 % of the run or more, on engines or the critical path', () => {
    const rows = jagged(400, 3);
    const run = runOf(rows);
    const steps = stallSteps(run);
    const long = rows.flatMap((row, step) => ((row.wait ?? 0) >= run.makespan * 0.01 ? [step] : []));
    expect(steps.length).toBeGreaterThanOrEqual(Math.min(LONGEST_STALLS, rows.length));
    for (const step of long) expect(steps).toContain(step);
    expect(Array.from(steps)).toEqual([...steps].sort((one, other) => one - other));
  });

  it('are gone through in order of time, with the wait in the window', () => {
    const run = runOf(ROWS);
    const store = createStore(run);
    const said: string[] = [];
    const commands = commandsOf(run, store, said);
    expect(Array.from(stallSteps(run))).toEqual([1, 2]);
    store.show({ from: 330_000, to: 400_000 });
    commands.nextStall();
    expect([store.state.selected, store.state.window.from <= 0]).toEqual([1, true]);
    commands.nextStall();
    expect(store.state.selected).toBe(2);
    commands.nextStall();
    expect(said).toEqual(['No further stall']);
    commands.previousStall();
    expect(store.state.selected).toBe(1);
  });

  it('has none in a run without waits', () => {
    expect(stallSteps(runOf([{ start: 0, duration: 10 }]))).toHaveLength(0);
    expect(pathPieces(runOf([])).count).toBe(0);
  });
});

describe('critical instructions', () => {
  it('follow each other', () => {
    const run = runOf(ROWS);
    const store = createStore(run);
    const said: string[] = [];
    const commands = commandsOf(run, store, said);
    commands.nextCritical();
    expect(store.state.selected).toBe(1);
    commands.nextCritical();
    commands.previousCritical();
    expect([store.state.selected, said]).toEqual([0, ['Last critical instruction']]);
  });

  it('has a place before and after every step', () => {
    const steps = Uint32Array.of(2, 5);
    expect([0, 2, 4, 5].map(from => [beyond(steps, from, -1), beyond(steps, from, 1)])).toEqual([
      [-1, 2],
      [-1, 5],
      [2, 5],
      [2, -1],
    ]);
  });
});
