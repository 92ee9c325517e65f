/** The pointer over the two timelines: what it points at, selects, drags and zooms. */
import type { Span } from '../../types';
import { onDrag } from '../timeline/drag';
import { rangeOf, stepOf } from '../timeline/pointer';
import { SIZES } from '../timeline/strips';
import { around, panned, spanOf, timeOf, wheelFactor, zoomed } from '../timeline/zoom';
import type { Moves } from './moves';
import { type CompareStore, samePick } from './state';
import type { Times } from './times';
import { windowFor } from './windows';

const REST_MS = 120;
const SHARE = 0.6;

export function onPointer(times: Times, moves: Moves, store: CompareStore): () => void {
  const { plot } = times;
  let resting: ReturnType<typeof setTimeout> | undefined;
  const place = (event: MouseEvent): { x: number; y: number } => {
    const box = plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const leave = (): void => {
    clearTimeout(resting);
    times.explain(null);
    if (store.state.hover !== null) store.set({ hover: null });
  };
  plot.addEventListener('pointermove', event => {
    clearTimeout(resting);
    if (event.buttons !== 0) return;
    const { x, y } = place(event);
    const found = times.at(x, y);
    const isBar = found?.hit.kind === 'bar' && found.hit.bar.count === 1;
    const hover = isBar ? { side: found.side, step: stepOf(found.figure, found.hit) } : null;
    if (!samePick(hover, store.state.hover)) {
      times.explain(null);
      store.set({ hover });
    }
    plot.dataset.on = found === null ? 'none' : found.hit.kind;
    resting = setTimeout(() => times.explain(found), REST_MS);
  });
  plot.addEventListener('pointerleave', leave);
  let window: Span | null = null;
  onDrag(plot, {
    start: () => {
      leave();
      ({ window } = store.state);
      return true;
    },
    move: ({ dx, moved }) => {
      const figure = times.figures?.before;
      if (moved && figure && window !== null) moves.show(panned(window, -spanOf(figure.scale, dx)));
    },
    end: ({ moved, x, y }) => {
      window = null;
      if (moved) return;
      const found = times.at(x, y);
      const step = found === null || found.y < SIZES.axis ? -1 : stepOf(found.figure, found.hit);
      if (found !== null && step >= 0) moves.select({ side: found.side, step });
      else store.set({ selected: null, line: -1 });
    },
    cancel: () => (window = null),
  });
  plot.addEventListener('dblclick', event => {
    const { x, y } = place(event);
    const found = times.at(x, y);
    const range = found && rangeOf(found.figure, found.hit);
    if (found === null || range === null) return;
    const near = around(range, SHARE);
    const wide = { from: 0, to: near.to - near.from };
    moves.show(found.side === 'before' ? near : windowFor(near.from, 0, wide, times.aligned()));
  });
  plot.addEventListener('wheel', event => turn(event, times, moves, store, place(event).x), { passive: false });
  return () => clearTimeout(resting);
}

/** Ctrl or ⌘ zooms always, Shift pans; without them the page scrolls until the view has the focus. Both runs have one
 * scale, so that the earlier one's serves wherever the pointer is. */
function turn(event: WheelEvent, times: Times, moves: Moves, store: CompareStore, x: number): void {
  const figure = times.figures?.before;
  if (!figure) return;
  const focused = times.plot.contains(times.plot.ownerDocument.activeElement);
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  const isUpright = focused && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX);
  if (event.ctrlKey || event.metaKey || isUpright)
    moves.show(zoomed(store.state.window, timeOf(figure.scale, x), wheelFactor(event.deltaY, event.deltaMode)));
  else if (event.shiftKey || (focused && sideways !== 0))
    moves.show(panned(store.state.window, spanOf(figure.scale, sideways * (event.deltaMode === 0 ? 1 : 33))));
  else return;
  event.preventDefault();
  event.stopPropagation();
}
