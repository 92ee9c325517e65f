/**
 * Widths that are asked for while views draw. Each question after a change of the page has the browser lay it out, so
 * those known to be asked are asked first, while nothing has changed yet.
 */

let known: ReadonlyMap<HTMLElement, number> | null = null;
let asked: Set<HTMLElement> | null = null;

/** The width of an element without its border, in CSS pixels. */
export function widthOf(element: HTMLElement): number {
  asked?.add(element);
  // What had no width was out of sight, and may have come into it.
  const width = known?.get(element) ?? 0;
  return width > 0 ? width : element.clientWidth;
}

/** A function that has views draw. With `still`, drawing changes no width of what is in sight. */
export function createWidths(): (still: boolean, draw: () => void) => void {
  const elements = new Set<HTMLElement>();
  return (still, draw) => {
    known = still ? new Map([...elements].map(element => [element, element.clientWidth])) : null;
    asked = elements;
    try {
      draw();
    } finally {
      known = asked = null;
    }
  };
}
