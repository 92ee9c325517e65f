import { beforeEach, describe, expect, it } from 'vitest';

import { movedLine } from '../../src/place/lines';
import { keepPlace, keptPlace } from '../../src/place/memory';
import { placeOf, programOf, stateAt } from '../../src/place/place';
import { isPlace, storable } from '../../src/place/stored';
import { createStore, initialState, whole } from '../../src/store';
import { shellRun, SOURCE } from '../shell_runs';

describe('a line of an edited text', () => {
  const before = ['def k(a):', '    x = load(a)', '    y = exp(x)', '    store(y)', ''];
  it.each([
    ['before the edit', [...before.slice(0, 3), '    z = y', ...before.slice(3)], 2, 2],
    ['after inserted lines', ['import nki', '', ...before], 4, 6],
    ['after a removed line', [before[0], ...before.slice(2)], 4, 3],
    ['that was edited itself', [...before.slice(0, 2), '    y = log(x)', ...before.slice(3)], 3, 3],
    ['that moved within the edit', [before[0], '    y = exp(x)', '    x = load(a)', '    s(y)', ''], 2, 3],
    ['that was taken out', [before[0], ...before.slice(2)], 2, 1],
  ])('%s', (_, after, line, moved) => {
    expect(movedLine(before, after, line)).toBe(moved);
  });
});

describe('a place', () => {
  const moved = {
    step: 3,
    selected: 3,
    time: 400_000,
    window: { from: 300_000, to: 700_000 },
    line: { source: 0, line: 4 },
    query: 'matmul',
  };
  const run = shellRun();
  const place = placeOf(run, { ...initialState(run), ...moved, breakpoints: new Set(['0:4']), tab: 'summary' });

  it('is the same step, window, selection and filter where the program is the same', () => {
    const again = shellRun();
    expect(programOf(again)).toBe(programOf(run));
    expect(stateAt(again, place)).toMatchObject({ ...moved, tab: 'summary', breakpoints: new Set(['0:4']) });
  });

  it('survives what an editor does to the lines above', () => {
    const source = { path: 'Cell In[9]', text: `# a comment\n${SOURCE}` };
    const sites = {
      source: [0, 0],
      line: [4, 5],
      column: [8, 8],
      end_line: [4, 5],
      end_column: [18, 20],
      function: [6, 6],
    };
    const again = shellRun({ header: { sources: [source] }, tables: { sites } });
    const at = stateAt(again, place);
    expect(at).toMatchObject({ step: 3, line: { source: 0, line: 5 } });
    expect([...at.breakpoints!]).toEqual(['0:5']);
  });

  it('is the line, iteration and operation where the program is another', () => {
    const extra = { lane: 1, start: 100_000, duration: 10_000, site: 0, iteration: 0 };
    const rows = Array.from({ length: 5 }, (_, at) => ({
      lane: [2, 0, 2, 0, 1][at],
      start: [0, 120_000, 150_000, 400_000, 700_000][at],
      duration: 50_000,
      site: [0, 1, 0, 1, 1][at],
      iteration: [0, 0, 1, 2, -1][at],
    }));
    const other = shellRun({ rows: [rows[0], extra, ...rows.slice(1)] });
    expect(programOf(other)).not.toBe(programOf(run));
    const at = stateAt(other, place);
    expect(at.step).toBe(4);
    expect(other.iterations(4).map(({ value }) => value)).toEqual([1, 7]);
    expect(at.window!.to - at.window!.from).toBeCloseTo(400_000);
    expect(at.area).toBeNull();
  });

  it('shows a run that failed at its fault', () => {
    const failed = shellRun({ header: { fault: 1 } });
    expect(stateAt(failed, place)).not.toHaveProperty('step');
  });

  it('of a whole window is the whole of another run', () => {
    const all = placeOf(run, initialState(run));
    const longer = shellRun({ header: { makespan: 2_000_000 } });
    expect(stateAt(longer, all).window).toEqual(whole(longer));
  });

  it('comes back from what was stored, and from nothing else', () => {
    const stored: unknown = JSON.parse(JSON.stringify(storable(place)));
    expect(isPlace(stored)).toBe(true);
    expect(stateAt(shellRun(), stored as never)).toMatchObject(moved);
    for (const other of [null, 7, 'x', {}, { ...place, step: 'x' }, { ...place, sources: 3 }, { ...place, time: null }])
      expect(isPlace(other)).toBe(false);
    const large = { ...place, sources: [{ path: 'a', text: 'x'.repeat(200_000) }] };
    expect(storable(large)?.sources).toEqual([]);
    expect(() => stateAt(run, storable(large)!)).not.toThrow();
  });

  it('is set in a store as it is', () => {
    const store = createStore(run);
    store.set(stateAt(run, place));
    expect(store.state).toMatchObject(moved);
    store.dispose();
  });
});

describe('the memory of a page', () => {
  beforeEach(() => document.body.replaceChildren());
  it('has places by cell, spot and kernel', () => {
    const run = shellRun();
    const place = placeOf(run, initialState(run));
    const [one, other] = [document.createElement('div'), document.createElement('div')];
    keepPlace(one, '0.0', place);
    expect(keptPlace(one, '0.0', 'kernel')).toBe(place);
    expect(keptPlace(one, '0.1', 'kernel')).toBeNull();
    expect(keptPlace(one, '0.0', 'another')).toBeNull();
    expect(keptPlace(other, '0.0', 'kernel')).toBeNull();
  });
});
