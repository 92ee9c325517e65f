import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { el } from '../src/dom';
import { createVirtual, type Virtual } from '../src/virtual';

const ROW = 10;
const SIGHT = 200;
let made: number;

function create(count: number, kept: number): Virtual {
  const virtual = createVirtual({
    rowHeight: ROW,
    class: 'rows',
    kept,
    render(index) {
      made += 1;
      return el('div', {}, String(index));
    },
  });
  document.body.append(virtual.element);
  virtual.setCount(count);
  return virtual;
}

/** The numbers of the rows that are elements. */
function rowsOf(virtual: Virtual): number[] {
  return [...virtual.element.querySelectorAll('.nki-virtual-rows > *')].map(row => Number(row.textContent));
}

beforeEach(() => {
  made = 0;
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(SIGHT);
});
afterEach(() => {
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

describe('a scrolled list', () => {
  test.each([
    [1000, 0],
    [1000, 100],
    [90, 400],
    [5, 400],
  ])('of %d rows, of which %d may stay, has each row in sight once and in order', (count, kept) => {
    const virtual = create(count, kept);
    for (let turn = 0; turn < 200; turn += 1) {
      const index = Math.floor(((turn * 0.6180339887) % 1) * count);
      virtual.reveal(index);
      const rows = rowsOf(virtual);
      expect(rows).toEqual(Array.from({ length: rows.length }, (_, place) => rows[0] + place));
      expect(virtual.rowAt(index)?.textContent).toBe(String(index));
      const { first, fits } = virtual.inSight();
      expect(rows[0]).toBeLessThanOrEqual(first);
      expect(rows.at(-1)).toBeGreaterThanOrEqual(Math.min(count, first + fits) - 1);
      expect(index).toBeGreaterThanOrEqual(first);
      expect(index).toBeLessThan(virtual.inSight().end);
      expect(rows.length).toBeLessThanOrEqual(Math.max(kept, SIGHT / ROW + 13));
    }
  });

  test('of a height that is no multiple of a row tells the rows that are wholly in sight', () => {
    vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(SIGHT + ROW / 2);
    const virtual = create(1000, 0);
    expect(virtual.inSight()).toEqual({ first: 0, end: 20, fits: 20 });
    virtual.reveal(999);
    expect(virtual.inSight()).toEqual({ first: 980, end: 1000, fits: 20 });
  });

  test('makes no row a second time that may stay', () => {
    const virtual = create(90, 400);
    for (const index of [89, 0, 45, 89, 3]) virtual.reveal(index);
    expect(made).toBe(90);
    const kept = virtual.rowAt(45);
    virtual.reveal(0);
    expect(virtual.rowAt(45)).toBe(kept);
    virtual.refresh();
    expect(virtual.rowAt(3)?.textContent).toBe('3');
  });

  test.each([1000, 3_000_000])(
    'of %d rows draws again where somebody scrolls, not where it has scrolled itself',
    count => {
      const virtual = create(count, 0);
      const frames = vi.spyOn(globalThis, 'requestAnimationFrame').mockReturnValue(1);
      const scrollTo = (top: number): void => {
        virtual.element.scrollTop = top;
        virtual.element.dispatchEvent(new Event('scroll'));
      };
      virtual.reveal(count / 2);
      const { first } = virtual.inSight();
      const set = virtual.element.scrollTop;
      expect(Number.isInteger(set)).toBe(true);
      scrollTo(set);
      expect(frames).not.toHaveBeenCalled();
      scrollTo(set + 1);
      expect(frames).toHaveBeenCalledTimes(1);
      scrollTo(0);
      expect(virtual.inSight().first).toBe(0);
      virtual.reveal(count / 2);
      expect(virtual.inSight().first).toBe(first);
    },
  );
});
