import { describe, expect, it } from 'vitest';

import { nextAtLine } from '../src/lines';
import { createLoops } from '../src/loops';
import { createStepping } from '../src/stepping';
import { shellRun } from './shell_runs';

const run = shellRun();

describe('stepping', () => {
  const go = createStepping(run);

  it('goes into the next instruction of the program', () => {
    expect([0, 1, 2, 3, 4].map(go.into)).toEqual([1, 2, 3, 4, -1]);
  });

  it('goes to the next line past inner loops', () => {
    expect(go.line(0)).toBe(1);
    expect(go.line(1)).toBe(2);
    expect(go.line(2)).toBe(4);
  });

  it('goes out of the loop', () => {
    expect(go.out(0)).toBe(4);
    expect(go.out(3)).toBe(4);
    expect(go.out(4)).toBe(-1);
  });

  it('goes along an engine and across engines', () => {
    expect(go.along(1, 1)).toBe(3);
    expect(go.along(3, 1)).toBe(-1);
    expect(go.along(3, -1)).toBe(1);
    expect(go.across(1, 160_000, 1)).toBe(4);
    expect(go.across(1, 160_000, -1)).toBe(-1);
    expect(go.across(4, 260_000, -1)).toBe(1);
  });

  it('follows dependencies, the binding one first', () => {
    expect(go.predecessor(3)).toBe(2);
    expect(go.successor(0)).toBe(1);
    expect(go.predecessor(0)).toBe(-1);
  });

  it('leads nowhere from what is not there', () => {
    expect(go.into(99)).toBe(-1);
    expect(go.line(-1)).toBe(-1);
  });
});

describe('loops', () => {
  const loops = createLoops(run);

  it('tell the iterations around a step', () => {
    expect(loops.levels(0)).toEqual([{ name: 'i', label: 'i = 0', count: 2, place: 0 }]);
    expect(loops.levels(3)).toEqual([
      { name: 'i', label: 'i = 1', count: 2, place: 1 },
      { name: 'j', label: 'j = 7', count: 1, place: 0 },
    ]);
  });

  it('lead to the same line in another iteration', () => {
    expect(loops.move(0, 0, 1)).toBe(2);
    expect(loops.move(2, 0, 0)).toBe(0);
    expect(loops.move(3, 0, 0)).toBe(1);
  });

  it('are the steps of a line where no loop is known', () => {
    expect(loops.levels(4)).toEqual([{ name: 'line', label: 'line 4', count: 3, place: 2 }]);
    expect(loops.move(4, 0, 0)).toBe(1);
  });
});

describe('the steps of a line', () => {
  it('follow each other round the end', () => {
    const line = { source: 0, line: 3 };
    expect(nextAtLine(run, 0, line, 1)).toBe(2);
    expect(nextAtLine(run, 2, line, 1)).toBe(0);
    expect(nextAtLine(run, 0, line, -1)).toBe(2);
    expect(nextAtLine(run, 1, { source: 0, line: 1 }, 1)).toBe(-1);
  });
});
