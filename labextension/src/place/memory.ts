/**
 * The places of visualizers that were taken out of the page, for those that follow them in the same cell. The page has
 * one memory, whichever of our scripts draws: notebooks load one for widgets and another one for what they keep.
 */
import type { Place } from './place';

interface Kept {
  readonly places: Map<string, Place>;
  readonly tabs: Map<string, number>;
}

const NAME = Symbol.for('nki-lab.places');
const page = globalThis as { [NAME]?: WeakMap<Element, Kept> };

/** Within them, what is run again replaces what was there. */
const CELLS = '.jp-Cell, .nki-lab-panel';

/** The cell of a notebook that an element is in, or the panel; else the page. */
export function cellOf(element: Element): Element {
  return element.closest(CELLS) ?? document.documentElement;
}

/** The number of an element among the outputs of its cell; other pages than notebooks have no order to rely on. */
export function numberIn(element: Element): number {
  const outputs = element.closest(CELLS)?.querySelectorAll('.jp-OutputArea-child') ?? [];
  return Math.max(
    0,
    [...outputs].findIndex(output => output.contains(element)),
  );
}

export function keepPlace(cell: Element, spot: string, place: Place): void {
  keptIn(cell).places.set(`${spot} ${place.kernel}`, place);
}

export function keptPlace(cell: Element, spot: string, kernel: string): Place | null {
  return page[NAME]?.get(cell)?.places.get(`${spot} ${kernel}`) ?? null;
}

/** Remember which of `count` runs of an output was looked at. */
export function keepTab(cell: Element, number: number, count: number, index: number): void {
  keptIn(cell).tabs.set(`${number} ${count}`, index);
}

export function keptTab(cell: Element, number: number, count: number): number | null {
  return page[NAME]?.get(cell)?.tabs.get(`${number} ${count}`) ?? null;
}

function keptIn(cell: Element): Kept {
  const cells = (page[NAME] ??= new WeakMap());
  let kept = cells.get(cell);
  if (kept === undefined) cells.set(cell, (kept = { places: new Map(), tabs: new Map() }));
  return kept;
}
