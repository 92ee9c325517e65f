/**
 * The order of drawing. Each question for a width, and each text on a canvas, after a change of the page has the browser
 * lay it out. So the widths that are known to be asked are asked first, while nothing has changed yet, and canvases are
 * painted last, when nothing changes any more: the page is laid out once for a step.
 */

let known: ReadonlyMap<HTMLElement, number> | null = null;
let asked: Set<HTMLElement> | null = null;
let paints: Map<unknown, () => void> | null = null;

/** The width of an element without its border, in CSS pixels. */
export function widthOf(element: HTMLElement): number {
  asked?.add(element);
  // What had no width was out of sight, and may have come into it.
  const width = known?.get(element) ?? 0;
  return width > 0 ? width : element.clientWidth;
}

/**
 * Paint when all views have changed what they change of the page: at once where none is drawing. Of two paintings for
 * one `surface` the later one counts.
 */
export function paintLast(surface: unknown, paint: () => void): void {
  if (paints === null) paint();
  else paints.set(surface, paint);
}

/** A function that has views draw. With `still`, drawing changes no width of what is in sight. */
export function createDrawing(): (still: boolean, draw: () => void) => void {
  const elements = new Set<HTMLElement>();
  return (still, draw) => {
    known = still ? new Map([...elements].map(element => [element, element.clientWidth])) : null;
    asked = elements;
    const last = (paints = new Map<unknown, () => void>());
    try {
      draw();
    } finally {
      known = asked = paints = null;
    }
    for (const paint of last.values()) paint();
  };
}
