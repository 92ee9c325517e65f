/** Tells the page around a visualizer which line of the source a click has led to. */

import type { Run, Store } from './types';

/** The name of the event, which bubbles; its detail is a `LineDetail`. */
export const LINE_EVENT = 'nki-lab-line';

export interface LineDetail {
  /** The file as the recording names it. */
  readonly path: string;
  /** From 1 on. */
  readonly line: number;
}

/** A click here says its line again, also where it is the same as before. */
const AGAIN = 'canvas, .nki-code-lines';

/** Tell of the lines that clicks in `frame` lead to; gives the end of that. */
export function tellLines(frame: HTMLElement, run: Run, store: Store): () => void {
  let { selected, line } = store.state;
  const clicked = ({ target }: MouseEvent): void => {
    const { state } = store;
    const isSame =
      state.selected === selected && state.line?.source === line?.source && state.line?.line === line?.line;
    ({ selected, line } = state);
    const path = line === null ? undefined : run.sources[line.source]?.path;
    if (line === null || path === undefined) return;
    if (isSame && !(target instanceof Element && target.closest(AGAIN))) return;
    const detail: LineDetail = { path, line: line.line };
    frame.dispatchEvent(new CustomEvent(LINE_EVENT, { bubbles: true, detail }));
  };
  frame.addEventListener('click', clicked);
  return () => frame.removeEventListener('click', clicked);
}
