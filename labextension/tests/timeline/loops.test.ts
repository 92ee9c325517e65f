import { describe, expect, test, vi } from 'vitest';

import { currentIteration, foldAll, iterationText, nextIteration, zoomToIteration } from '../../src/iterations';
import * as format from '../../src/format';
import { createStore } from '../../src/store';
import type { Run, State } from '../../src/types';
import { aggregates } from '../../src/views/timeline/area';
import { type Figure, layoutFigure, placeOf } from '../../src/views/timeline/figure';
import { hitAt } from '../../src/views/timeline/hit';
import { loopsWord, loopText } from '../../src/views/timeline/loop_card';
import type { LoopCell } from '../../src/views/timeline/loop_rows';
import { executionWords } from '../../src/views/timeline/paint-loops';
import { rangeOf } from '../../src/views/timeline/pointer';
import { rankWords } from '../../src/views/timeline/rank_rows';
import { layoutStrips, type LoopStrip } from '../../src/views/timeline/strips';
import { MOST_TRANSFERS, transfersOf } from '../../src/views/timeline/transfers';
import { loopRun, nestedRun, rankRun } from './loop_runs';
import { runOf } from './runs';

function figureOf(run: Run, look: Partial<State> = {}, from = 0, to = run.makespan): Figure {
  const state = { layout: 'wide' as const, showCritical: true, folded: new Set<string>(), ...look };
  return layoutFigure(run, layoutStrips(run, state), { from, to, width: 1000 });
}

const kinds = ({ strips }: Figure): string[] =>
  strips.map(strip => (strip.kind === 'rank' ? `rank ${strip.rank}` : strip.kind));

function cellsOf(figure: Figure, depth = 0): readonly LoopCell[] {
  const strip = figure.strips.find((one): one is LoopStrip => one.kind === 'loop' && one.depth === depth);
  return strip === undefined ? [] : (figure.loops.get(strip) ?? []);
}

describe('rows of loops', () => {
  test('have a cell for each iteration, with its state', () => {
    const run = loopRun([400, 200, 200, 200], ['warm-up', 'steady', 'outlier', 'steady']);
    const cells = cellsOf(figureOf(run));
    expect(cells.map(cell => [cell.x, cell.width, cell.state])).toEqual([
      [0, 400, 'warm-up'],
      [400, 200, 'steady'],
      [600, 200, 'outlier'],
      [800, 200, 'steady'],
    ]);
  });

  test('lie above the lanes, inner loops below outer ones', () => {
    const figure = figureOf(nestedRun());
    expect(kinds(figure).slice(0, 4)).toEqual(['axis', 'path', 'loop', 'loop']);
    expect(cellsOf(figure, 1).map(cell => cell.width)).toEqual([250, 250, 250, 250]);
  });

  test('are not there without loops, nor in messages of earlier versions', () => {
    const run = runOf([{ lane: 1, start: 0, duration: 100, iteration: 0 }]);
    expect(run.loopTrack).toBeNull();
    expect(kinds(figureOf(run))).not.toContain('loop');
  });

  test('of a single iteration have one cell', () => {
    expect(cellsOf(figureOf(loopRun([1000], ['unsettled']))).map(cell => cell.state)).toEqual(['unsettled']);
  });

  test('put narrow neighbours together, and count what they stand for', () => {
    const run = loopRun(Array.from({ length: 100_000 }, () => 10));
    const cells = cellsOf(figureOf(run));
    expect(cells.length).toBeLessThan(400);
    expect(cells.reduce((sum, cell) => sum + cell.count, 0)).toBe(100_000);
  });

  test('keep outliers in blocks', () => {
    const states = Array.from({ length: 5000 }, (_, at) => (at === 2500 ? 'outlier' : 'steady'));
    const cells = cellsOf(figureOf(loopRun(states.map(() => 10), states))); // prettier-ignore
    expect(cells.filter(cell => cell.outliers > 0)).toHaveLength(1);
    expect(cells.find(cell => cell.outliers > 0)!.x).toBeCloseTo(500, -1);
  });

  test('leave out what is outside of the window', () => {
    const run = loopRun([250, 250, 250, 250]);
    expect(cellsOf(figureOf(run, {}, 300, 700)).map(cell => cell.first)).toEqual([1, 2]);
  });

  test('folded have one piece for an execution, with warm-up, outliers and the representative iteration', () => {
    const run = loopRun([400, 200, 200, 200], ['warm-up', 'steady', 'outlier', 'steady']);
    const [whole, ...others] = cellsOf(figureOf(run, { folded: new Set(['loops 0 0']) }));
    expect(others).toEqual([]);
    expect([whole.x, whole.width, whole.count, whole.outliers]).toEqual([0, 1000, 4, 1]);
    expect(whole.whole).toEqual({ warmUntil: 400, representative: { x: 400, width: 200 }, outliers: [700] });
    expect(executionWords(run.loopTrack!, whole)[0]).toBe(
      `4 × i · mean ${format.time(1500)} ± ${format.time(500)} · 1 outlier`,
    );
  });

  test('folded hide the loops within', () => {
    const figure = figureOf(nestedRun(), { folded: new Set(['loops 0 0']) });
    expect(kinds(figure).filter(kind => kind === 'loop')).toHaveLength(1);
  });

  test('are hit, and a double click shows the iteration', () => {
    const figure = figureOf(nestedRun());
    const strip = figure.strips.find(one => one.kind === 'loop')!;
    const hit = hitAt(figure, 700, strip.top + 8);
    expect(hit.kind === 'loop' && hit.cell.first).toBe(3);
    expect(rangeOf(figure, hit)).toEqual({ from: 200_000, to: 400_000 });
  });

  test('say their figures', () => {
    const run = loopRun([400_000, 200_000, 200_000], ['warm-up', 'steady', 'steady']);
    const text = loopText(run, run.loopTrack!.loops[0]);
    expect(text).toContain(
      `Loop over i, line 1: 3 iterations; initiation interval 200 ns, mean ${format.time(1500)} ± ${format.time(500)}`,
    );
    expect(text).toContain('steady after 1 iteration of warm-up');
    const [strip] = layoutStrips(run, { layout: 'wide', showCritical: false, folded: new Set() }).strips.slice(1);
    expect(loopsWord(strip as LoopStrip)).toBe('for i');
  });
});

describe('going through iterations', () => {
  const open = (run: Run) => ({ run, store: createStore(run), speak: (text: string) => said.push(text) });
  let said: string[] = [];

  test('goes to the next of the innermost loop, across executions, and back', () => {
    said = [];
    const page = open(nestedRun());
    expect(currentIteration(page.run, page.store)).toBe(1);
    expect([nextIteration(page, 1), nextIteration(page, 1)]).toEqual([true, true]);
    expect(currentIteration(page.run, page.store)).toBe(4);
    expect(page.store.state.area).toEqual({ from: 200_000, to: 300_000 });
    expect(page.store.state.step).toBe(2);
    expect(nextIteration(page, -1)).toBe(true);
    expect(currentIteration(page.run, page.store)).toBe(2);
    expect(said.at(-1)).toBe('j = 1, iteration 2 of 4, 100 ns, steady');
  });

  test('names the marked iteration by the loops around it', () => {
    const run = nestedRun();
    expect(aggregates(run, { from: 200_000, to: 300_000 }, 1).iteration).toBe('i = 1, j = 0');
    expect(aggregates(run, { from: 200_000, to: 400_000 }, 1).iteration).toBe('i = 1');
    // Equal values of an inner loop are no iteration where the outer ones differ.
    expect(aggregates(run, { from: 50_000, to: 250_000 }, 1).iteration).toBe('');
  });

  test('ends at the last one', () => {
    const page = open(loopRun([100, 100]));
    expect([nextIteration(page, 1), nextIteration(page, 1)]).toEqual([true, false]);
  });

  test('stays with the loop whose iteration is marked', () => {
    const page = open(nestedRun());
    page.store.set({ area: { from: 0, to: 200_000 } });
    nextIteration(page, 1);
    expect(page.store.state.area).toEqual({ from: 200_000, to: 400_000 });
  });

  test('zooms to the iteration, then to the one around it, then to all', () => {
    vi.stubGlobal('matchMedia', () => ({ matches: true }));
    const page = open(nestedRun());
    const width = (): number => page.store.state.window.to - page.store.state.window.from;
    const widths = [0, 1, 2].map(() => {
      zoomToIteration(page);
      return width();
    });
    expect(widths).toEqual([110_000, 220_000, 400_000]);
    vi.unstubAllGlobals();
  });

  test('folds all ranks, or loops where there is one rank, and unfolds them', () => {
    const page = open(nestedRun());
    expect(foldAll(page)).toBe('Loops folded');
    expect([...page.store.state.folded]).toEqual(['loops 0 0']);
    expect(foldAll(page)).toBe('All unfolded');
    const ranks = open(rankRun(2));
    expect(foldAll(ranks)).toBe('Ranks folded');
    expect([...ranks.store.state.folded]).toEqual(['rank 0', 'rank 1']);
    expect(foldAll(open(runOf([])))).toBe('Nothing to fold');
  });

  test('is said', () => {
    const run = loopRun([400_000, 200_000]);
    expect(iterationText(run.loopTrack!.facts(1))).toBe('i = 1, iteration 2 of 2, 200 ns, steady');
  });
});

describe('ranks', () => {
  test('are groups of lanes under their names', () => {
    expect(kinds(figureOf(rankRun(2)))).toEqual(['axis', 'path', 'rank 0', 'lane', 'dma', 'rank 1', 'lane', 'dma']);
    expect(rankRun(2).lanes.map(lane => lane.label)).toEqual([
      'Vector, rank 0', 'DMA q16, rank 0', 'Vector, rank 1', 'DMA q16, rank 1',
    ]); // prettier-ignore
  });

  test('folded are one row, in which a selected instruction has its place', () => {
    const figure = figureOf(rankRun(2), { folded: new Set(['rank 1']) });
    expect(kinds(figure)).toEqual(['axis', 'path', 'rank 0', 'lane', 'dma', 'rank 1']);
    const strip = figure.strips.at(-1)!;
    const place = placeOf(figure, 3)!;
    expect(place.y).toBeGreaterThanOrEqual(strip.top);
    expect(place.y + place.height).toBeLessThanOrEqual(strip.top + strip.height);
  });

  test('are open at first up to four, of more only the slowest', () => {
    expect(createStore(rankRun(4)).state.folded.size).toBe(0);
    const { folded } = createStore(rankRun(64, 9)).state;
    expect(folded.size).toBe(63);
    expect(folded.has('rank 9')).toBe(false);
  });

  test('say how long they wait and are awaited', () => {
    expect(rankWords(rankRun(3, 1), 0)).toBe('ends after 700 ns · waits 300 ns for other ranks');
    expect(rankWords(rankRun(3, 1), 1)).toBe('ends after 700 ns · the others wait 600 ns in all for it');
    expect(rankRun(3, 1).slowest).toBe(1);
  });

  test('send each other what arrows show, the one that comes last first of all', () => {
    const all = transfersOf(rankRun(3, 1));
    expect(all).toHaveLength(6);
    expect(all.filter(one => one.last).map(one => [one.from, one.to])).toEqual([[1, 0], [1, 2]]); // prettier-ignore
    expect(all.every(one => one.arrives === 600_000 && one.sent <= one.arrives)).toBe(true);
  });

  test('of large calls show what comes last, and marks where there are too many arrows', () => {
    expect(transfersOf(rankRun(8))).toHaveLength(8);
    const { transfers } = figureOf(rankRun(MOST_TRANSFERS + 1));
    expect(transfers.dense).toBe(true);
    expect(figureOf(rankRun(64)).transfers.dense).toBe(false);
  });

  test('of the second rank begin where it has its lane', () => {
    const figure = figureOf(rankRun(2, 1), { folded: new Set(['rank 1']) });
    const rank = figure.strips.at(-1)!;
    const [line] = figure.transfers.lines.filter(one => one.last);
    expect(line.y1).toBe(rank.top + rank.height / 2);
    expect(line.x1).toBeCloseTo((500 / 700) * 1000);
  });

  test('are one in a run of its own', () => {
    const run = runOf([{ lane: 0, start: 0, duration: 10 }]);
    expect([run.ranks, run.slowest, run.exchanges.length]).toEqual([1, -1, 0]);
  });
});
