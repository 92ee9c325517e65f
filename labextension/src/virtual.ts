/** A scrolled list of rows of one height, of which only those in sight are elements. */
import { el } from './dom';

/** Browsers end elements somewhere above 17 million pixels; a longer list scrolls faster than it is long. */
const TALLEST = 12_000_000;
const BEYOND = 6;
/** Pixels by which browsers round where they have scrolled to. */
const BLURRED = 1;

export interface VirtualOptions {
  readonly rowHeight: number;
  readonly class: string;
  /** Rows out of sight stay elements while there are no more than this: coming back to them costs no layout. */
  readonly kept?: number;
  /** Stands above the rows and stays in sight. */
  readonly head?: HTMLElement;
  /** Attributes of the element that scrolls. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly render: (index: number) => HTMLElement;
  /** Put on a row that is in sight what changes without a new one: selection. */
  readonly update?: (element: HTMLElement, index: number) => void;
}

export interface Virtual {
  readonly element: HTMLElement;
  /** Rows in the list; all are rendered anew. */
  setCount(count: number): void;
  /** Only selection changed. */
  readonly update: () => void;
  /** All rows are rendered anew. */
  refresh(): void;
  /** Scroll so that a row is in sight, in the middle if it was not. */
  readonly reveal: (index: number) => void;
  /** The element of a row, if it is in sight. */
  rowAt(index: number): HTMLElement | null;
  /** The first row that is wholly in sight, the one behind the last, and how many fit. */
  inSight(): { readonly first: number; readonly end: number; readonly fits: number };
  dispose(): void;
}

export function createVirtual(options: VirtualOptions): Virtual {
  const { rowHeight, render } = options;
  const rows = el('div', { class: 'nki-virtual-rows', role: 'presentation' });
  const spacer = el('div', { class: 'nki-virtual-space', role: 'presentation' }, rows);
  const element = el('div', { class: `nki-virtual ${options.class}`, tabindex: 0, ...options.attributes });
  if (options.head) element.append(options.head);
  element.append(spacer);
  let count = 0;
  let frame = 0;
  /** Elements of the rows from `from`, in order. */
  let shown: HTMLElement[] = [];
  let from = 0;

  // Measured when they change: to ask for them while drawing would lay out the whole page.
  let sight = rowHeight;
  let scrolled = 0;
  let isMeasured = false;
  /** A row to show as soon as it is known how many fit. */
  let pending = -1;
  const measure = (): void => {
    sight = Math.max(element.clientHeight - (options.head?.offsetHeight ?? 0), rowHeight);
    scrolled = element.scrollTop;
    isMeasured = element.clientHeight > 0;
  };
  /** Pixels of the list for one of the scroll bar. */
  const scale = (): number => {
    const full = count * rowHeight;
    return full > TALLEST ? (full - sight) / (TALLEST - sight) : 1;
  };
  const top = (): number => Math.min(scrolled * scale(), Math.max(0, count * rowHeight - sight));
  const draw = (): void => {
    frame = 0;
    const above = top();
    let first = Math.max(0, Math.floor(above / rowHeight) - BEYOND);
    let end = Math.min(count, Math.ceil((above + sight) / rowHeight) + BEYOND);
    if (shown.length) {
      const widest = { first: Math.min(first, from), end: Math.max(end, from + shown.length) };
      if (widest.end - widest.first <= (options.kept ?? 0)) ({ first, end } = widest);
    }
    show(first, end);
    update();
    rows.style.transform = `translateY(${Math.round(scrolled - above + first * rowHeight)}px)`;
  };
  /** Make the rows of a range elements, and no others. Those that stay are not touched: the browser need not lay them out. */
  const show = (first: number, end: number): void => {
    if (first >= from + shown.length || end <= from) {
      shown = [];
      from = first;
      rows.replaceChildren();
    }
    for (; from < first; from += 1) shown.shift()?.remove();
    while (from + shown.length > end) shown.pop()?.remove();
    const before = made(first, from);
    const after = made(from + shown.length, end);
    rows.prepend(...before);
    rows.append(...after);
    shown = [...before, ...shown, ...after];
    from = first;
  };
  const made = (first: number, end: number): HTMLElement[] =>
    Array.from({ length: Math.max(0, end - first) }, (_, place) => render(first + place));
  const update = (): void => shown.forEach((row, place) => options.update?.(row, from + place));
  const forget = (): void => {
    shown = [];
    rows.replaceChildren();
  };
  const later = (): void => {
    if (!frame) frame = requestAnimationFrame(draw);
  };
  const reveal = (index: number): void => {
    pending = isMeasured ? -1 : index;
    const begin = index * rowHeight;
    const above = top();
    if (begin >= above && begin + rowHeight <= above + sight) return;
    const wanted = Math.max(0, begin - (sight - rowHeight) / 2) / scale();
    // To read back what was set would lay out the page; a scroll event tells if it came out otherwise.
    scrolled = Math.round(Math.min(wanted, Math.max(0, Math.min(count * rowHeight, TALLEST) - sight)));
    draw();
    element.scrollTop = scrolled;
    if (!isMeasured) scrolled = element.scrollTop;
  };
  const resize = new ResizeObserver(() => {
    measure();
    if (isMeasured && pending >= 0) reveal(pending);
    later();
  });
  resize.observe(element);
  const scroll = (): void => {
    const now = element.scrollTop;
    if (Math.abs(now - scrolled) * scale() < BLURRED) return; // as it was set: to draw again takes a frame of its own
    scrolled = now;
    later();
  };
  element.addEventListener('scroll', scroll, { passive: true });

  return {
    element,
    setCount(next) {
      count = next;
      forget();
      spacer.style.height = `${Math.min(count * rowHeight, TALLEST)}px`;
      measure();
      draw();
    },
    update,
    refresh() {
      forget();
      draw();
    },
    reveal,
    rowAt: index => shown[index - from] ?? null,
    inSight() {
      const above = top();
      return {
        first: Math.max(0, Math.ceil((above - BLURRED) / rowHeight)),
        end: Math.min(count, Math.floor((above + sight + BLURRED) / rowHeight)),
        fits: Math.max(1, Math.floor(sight / rowHeight)),
      };
    },
    dispose() {
      cancelAnimationFrame(frame);
      resize.disconnect();
    },
  };
}
