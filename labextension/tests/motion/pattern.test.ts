/** Patterns against enumeration of every element. */
import { describe, expect, it } from 'vitest';
import { elements, meet, normal, repeats, runs, slice, type Dims } from '../../src/views/motion/pattern';
import { subscript } from '../../src/views/motion/subscript';
import { draws } from '../timeline/runs';

/** Every address that a pattern touches, in order, each once. */
function addresses(dims: Dims, offset: number): number[] {
  let found = [offset];
  for (const [size, step] of dims)
    found = found.flatMap(at => Array.from({ length: Math.max(size, 0) }, (_, i) => at + i * step));
  return [...new Set(found)].sort((one, other) => one - other);
}

/** What Python's index texts select of a row-major tensor. */
function selected(texts: readonly string[], shape: readonly number[]): number[] {
  let found = [0];
  texts.forEach((text, axis) => {
    const [first, last, by] = text.split(':');
    const places: number[] = [];
    if (!text.includes(':')) places.push(Number(text));
    else {
      const step = by === undefined ? 1 : Number(by);
      const begin = first === '' ? 0 : Number(first);
      const stop = last === '' ? (step > 0 ? shape[axis] : -1) : Number(last);
      for (let at = begin; step > 0 ? at < stop : at > stop; at += step) places.push(at);
    }
    found = found.flatMap(base => places.map(place => base * shape[axis] + place));
  });
  return found.sort((one, other) => one - other);
}

const CASES: readonly (readonly [string, Dims, number, number])[] = [
  ['a block of columns', [[4, 32], [8, 1]], 16, 32],
  ['one element', [[1, 7], [1, 1]], 9, 16],
  ['no dimension', [], 5, 16],
  ['an empty dimension', [[4, 8], [0, 1]], 0, 8],
  ['every other column', [[3, 16], [5, 2]], 1, 16],
  ['every other row', [[4, 32], [16, 1]], 0, 16],
  ['rows backwards', [[4, -16], [16, 1]], 48, 16],
  ['columns backwards', [[3, 16], [4, -1]], 11, 16],
  ['broadcast', [[4, 0], [6, 1]], 3, 16],
  ['flat over rows', [[40, 1]], 5, 16],
  ['whole rows, flat', [[48, 1]], 16, 16],
  ['a diagonal', [[6, 17]], 0, 16],
  ['sliding', [[5, 1], [3, 1]], 2, 16],
  ['five dimensions', [[2, 64], [2, 32], [2, 8], [2, 4], [3, 1]], 1, 32],
  ['a transpose', [[8, 1], [4, 32]], 3, 32],
  ['over the edge', [[3, 16], [4, 1]], 14, 16],
]; // prettier-ignore

describe('patterns', () => {
  it.each(CASES)('%s covers exactly the touched elements', (_, dims, offset, pitch) => {
    const every = addresses(dims, offset);
    const { rects, bounds, exact } = slice(dims, offset, pitch, 100);
    expect(exact).toBe(true);
    const drawn = new Set<number>();
    for (const rect of rects)
      for (let row = rect.row; row < rect.row + rect.rows; row += 1)
        for (let column = rect.column; column < rect.column + rect.columns; column += 1) {
          expect(column).toBeLessThan(pitch);
          drawn.add(row * pitch + column);
        }
    expect([...drawn].sort((one, other) => one - other)).toEqual(every);
    for (const at of every) {
      expect(Math.floor(at / pitch)).toBeGreaterThanOrEqual(bounds!.row);
      expect(Math.floor(at / pitch)).toBeLessThan(bounds!.row + bounds!.rows);
    }
    const found = runs(dims, offset, 1000);
    const inRuns = new Set(found.runs.flatMap(run => Array.from({ length: run.length }, (_, i) => run.start + i)));
    expect([...inRuns].sort((one, other) => one - other)).toEqual(every);
    expect(found.count).toBe(found.runs.length);
  });

  it('of any kind are framed, and rectangles never leave out or add an element', () => {
    const draw = draws(7);
    const pick = (most: number): number => Math.floor(draw() * most);
    for (let trial = 0; trial < 400; trial += 1) {
      const dims = Array.from({ length: pick(5) }, () => [1 + pick(5), pick(41) - 12] as const);
      const offset = 200 + pick(64);
      const pitch = 1 + pick(40);
      const every = addresses(dims, offset);
      const limit = [3, 20, 2000][pick(3)];
      const { rects, bounds, exact } = slice(dims, offset, pitch, limit);
      const drawn = new Set<number>();
      for (const rect of rects)
        for (let row = rect.row; row < rect.row + rect.rows; row += 1)
          for (let column = rect.column; column < rect.column + rect.columns; column += 1)
            drawn.add(row * pitch + column);
      for (const at of every) expect(drawn.has(at), JSON.stringify([dims, offset, pitch, limit, at])).toBe(true);
      if (exact) expect(drawn.size).toBe(every.length);
      else expect(rects.length).toBeLessThanOrEqual(limit);
      const rows = every.map(at => Math.floor(at / pitch));
      expect(bounds!.row).toBe(rows[0]);
      expect(bounds!.row + bounds!.rows - 1).toBe(rows[rows.length - 1]);
    }
  });

  it('written as subscripts select the same elements, or are not written', () => {
    const draw = draws(11);
    const pick = (most: number): number => Math.floor(draw() * most);
    let written = 0;
    for (let trial = 0; trial < 3000; trial += 1) {
      const shape = Array.from({ length: 1 + pick(4) }, () => 1 + pick(6));
      const size = shape.reduce((product, length) => product * length, 1);
      const steps = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, length) => product * length, 1));
      const dims = Array.from({ length: pick(4) }, () => {
        const step = steps[pick(steps.length)] * (1 + pick(2)) * (pick(5) === 0 ? -1 : 1) * (pick(8) === 0 ? 0 : 1);
        return [1 + pick(6), step] as const;
      });
      const offset = pick(size);
      const every = addresses(dims, offset);
      const texts = subscript(dims, offset, shape);
      if (texts === null) continue;
      written += 1;
      expect(selected(texts, shape), JSON.stringify([shape, dims, offset, texts])).toEqual(every);
    }
    expect(written).toBeGreaterThan(1000);
  });

  it('are written as one writes them', () => {
    expect(subscript([[64, 4096], [512, 1]], 1536, [64, 4096])).toEqual([':', '1536:2048']); // prettier-ignore
    expect(subscript([[1, 4096], [1, 1]], 4099, [64, 4096])).toEqual(['1', '3']); // prettier-ignore
    expect(subscript([[128, 64], [64, 1]], 128 * 64, [4, 128, 64])).toEqual(['1', ':', ':']); // prettier-ignore
    expect(subscript([[4, 64 * 128], [8192, 1]], 0, [4, 128, 64])).toEqual([':', ':', ':']); // prettier-ignore
    expect(subscript([[4, 2]], 1, [16])).toEqual(['1:8:2']);
    expect(subscript([[4, -1]], 3, [16])).toEqual(['3::-1']);
    expect(subscript([[4, -2]], 9, [16])).toEqual(['9:2:-2']);
    expect(subscript([[4, 5]], 0, [8, 4])).toBe(null);
    expect(subscript([[0, 1]], 0, [8])).toBe(null);
    expect(subscript([[8, 1]], 0, [0, 4])).toBe(null);
    expect(subscript([], 0, [])).toEqual([]);
  });

  it('count elements, and how often each is read', () => {
    expect(elements([[4, 8], [0, 1]])).toBe(0); // prettier-ignore
    expect(elements([])).toBe(1);
    expect(repeats([[4, 0], [6, 1], [2, 0]])).toBe(8); // prettier-ignore
    expect(normal([[4, 8], [8, 1]], 3)).toEqual({ offset: 3, dims: [[32, 1]], some: true }); // prettier-ignore
  });

  it('of a million rows take no longer than their frame', () => {
    const found = slice([[1_000_000, 64], [8, 2]], 0, 64, 64); // prettier-ignore
    expect(found.exact).toBe(true);
    expect(found.rects).toHaveLength(8);
    const many = slice([[1_000_000, 128], [4096, 3]], 0, 64, 64); // prettier-ignore
    expect(many.exact).toBe(false);
    expect(many.rects.length).toBeLessThanOrEqual(64);
  });

  it('meet where they share an element', () => {
    const at = (row: number, column: number): { row: number; column: number; rows: number; columns: number } => ({
      row,
      column,
      rows: 2,
      columns: 2,
    });
    expect(meet(at(0, 0), at(1, 1))).toBe(true);
    expect(meet(at(0, 0), at(0, 2))).toBe(false);
    expect(meet(null, at(0, 0))).toBe(false);
  });
});
