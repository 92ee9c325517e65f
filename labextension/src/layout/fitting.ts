/**
 * The height of what lies below the transport: as much as its content asks for and the window has room for. In a panel
 * and on the full screen it takes what is left, so that nothing but the views themselves scrolls.
 */

/** Pixels that the views below the transport have at least, and in a cell at most. */
const LEAST = 228;
const MOST = 720;
/** What they take where their content would do with less. */
const USUAL = 420;
/** Of the window, so that the cell's own text is seen beside the views. */
const SHARE = 0.94;
/** Rooms lower than this have no place for the figures of the timeline. */
const LOW = 880;
/** A change that nobody sees. */
const SAME = 2;

export interface Fitting {
  /** The views were drawn or folded. */
  fit(): void;
  dispose(): void;
}

interface Measured {
  /** Pixels above the views: header, timeline, transport. */
  readonly above: number;
  /** What the content asks for; 0: not known. */
  readonly content: number;
  readonly room: number;
  /** Whether the room is to be filled. */
  readonly fills: boolean;
}

/** The height for what was measured. */
export function heightFor({ above, content, room, fills }: Measured): number {
  if (fills) return Math.max(LEAST, Math.floor(room - above));
  const wanted = Math.min(Math.max(content, USUAL), MOST);
  return Math.round(Math.max(LEAST, Math.min(wanted, room * SHARE - above)));
}

export interface Fitted {
  /** Whether the root is filled. */
  readonly fills: () => boolean;
  /** Hears whether the room is a low one. */
  readonly lower: (isLow: boolean) => void;
}

/** Keeps the height of the views in `frame` up with its content and the window. */
export function createFitting(root: HTMLElement, frame: HTMLElement, { fills, lower }: Fitted): Fitting {
  let scroller: Element | null = null;
  let columns = 0;
  const fit = (): void => {
    if (!frame.isConnected || frame.clientWidth === 0 || root.dataset.nkiPrint !== undefined) return;
    const isFilled = fills();
    const found = isFilled ? root : scrollerOf(root);
    if (found !== scroller) {
      if (scroller !== null && scroller !== root) observer.unobserve(scroller);
      scroller = found;
      if (scroller !== null) observer.observe(scroller);
    }
    const room = scroller === null ? window.innerHeight : Math.min(scroller.clientHeight, window.innerHeight);
    const transport = frame.querySelector<HTMLElement>('.nki-transport');
    const body = frame.querySelector<HTMLElement>('.nki-body');
    if (room === 0 || body === null) return;
    lower(room < LOW);
    const top = frame.getBoundingClientRect().top - body.scrollTop;
    const foot = frame.querySelector<HTMLElement>('.nki-slot-pinned:not([hidden])')?.offsetHeight ?? 0;
    const above = transport?.checkVisibility() === true ? transport.getBoundingClientRect().bottom - top + foot : 0;
    const table = frame.querySelector<HTMLElement>('.nki-tabpanel:not([hidden])');
    const head = table === null ? 0 : table.getBoundingClientRect().top - top;
    const next = heightFor({ above: above || head, content: contentOf(frame), room, fills: isFilled });
    if (Math.abs(next - columns) < SAME) return;
    columns = next;
    frame.style.setProperty('--nki-columns', `${next}px`);
  };
  const observer = new ResizeObserver(() => fit());
  observer.observe(frame);
  window.addEventListener('resize', fit);
  return {
    fit,
    dispose() {
      observer.disconnect();
      window.removeEventListener('resize', fit);
    },
  };
}

/** What the memory map asks for, which is the one of the views that has a height of its own. */
function contentOf(frame: HTMLElement): number {
  const slot = frame.querySelector<HTMLElement>('.nki-slot-memory:not([hidden])');
  return slot?.firstElementChild?.scrollHeight ?? 0;
}

/**
 * What scrolls an element: the notebook, an editor's output, or nothing but the page. Elements that could scroll and are
 * as high as what is in them, such as the outputs of JupyterLab, say nothing of the room: it would be what is drawn.
 */
export function scrollerOf(element: Element): Element | null {
  for (let one = element.parentElement; one !== null && one !== document.body; one = one.parentElement) {
    const { overflowY, maxHeight } = getComputedStyle(one);
    const scrolls = overflowY === 'auto' || overflowY === 'scroll';
    const isBound = one.scrollHeight > one.clientHeight + SAME || (maxHeight !== 'none' && maxHeight !== '');
    if (scrolls && isBound && one.clientHeight >= LEAST) return one;
  }
  return null;
}
