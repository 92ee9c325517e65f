/** What the pointer does on the plot: hover, click, double click, areas, pan, scrub, wheel. */
import type { Context, Span } from '../../types';
import { type Drag, onDrag } from './drag';
import { barTop, type Box, type Figure, placeOf, snapped } from './figure';
import { type Hit, hitAt, laneAtHeight } from './hit';
import { longest } from './card';
import { SIZES } from './strips';
import { chooseIterations, spanOfIterations } from '../../iterations';
import { around, panned, spanOf, timeOf, wheelFactor, xOf, zoomed } from './zoom';

/** How long the pointer rests before a card comes. */
const CARD_AFTER = 120;
/** Edges attract within so many pixels. */
const SNAP = 6;
/** What is double clicked gets this share of the window. */
const SHARE = 0.6;
/** The cursor's plate can be held this far from its middle. */
const PLATE = 28;

export interface Plot {
  readonly context: Context;
  /** Takes the pointer; its left end is the begin of the window. */
  readonly element: HTMLElement;
  figure(): Figure | null;
  /** The pointer is on this; it moved, so a card that is not for it goes. */
  point(hit: Hit, box: Box | null): void;
  /** It rests. */
  rest(hit: Hit, box: Box | null): void;
  /** The lane that an area was begun on. */
  areaOn(lane: number): void;
}

export function onPointer(plot: Plot): void {
  hovering(plot);
  dragging(plot);
  plot.element.addEventListener('dblclick', event => zoomTo(plot, event));
  plot.element.addEventListener('wheel', event => turn(plot, event), { passive: false });
}

function place(plot: Plot, event: MouseEvent): { x: number; y: number } {
  const box = plot.element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function hovering(plot: Plot): void {
  let timer = 0;
  const none: Hit = { kind: 'none' };
  const stop = (): void => {
    window.clearTimeout(timer);
    timer = 0;
  };
  plot.element.addEventListener('pointermove', event => {
    const figure = plot.figure();
    stop();
    if (figure === null || event.buttons !== 0) return;
    const { x, y } = place(plot, event);
    const hit = hitAt(figure, x, y);
    const box = boxOf(figure, hit);
    plot.point(hit, box);
    if (!plot.context.store.state.playing) timer = window.setTimeout(() => plot.rest(hit, box), CARD_AFTER);
  });
  plot.element.addEventListener('pointerleave', () => {
    stop();
    plot.point(none, null);
  });
  plot.element.addEventListener('pointerdown', () => {
    stop();
    plot.point(none, null);
  });
}

/** Where the thing that was hit is drawn. */
export function boxOf(figure: Figure, hit: Hit): Box | null {
  switch (hit.kind) {
    case 'bar': {
      const row = placeOf(figure, hit.bar.step);
      return row && { ...row, x: hit.bar.x, width: hit.bar.width };
    }
    case 'wait':
      return { x: hit.wait.x, width: hit.wait.width, y: barTop(hit.strip), height: hit.strip.bar };
    case 'column': {
      const [y, height] =
        hit.strip.kind === 'dma'
          ? [hit.strip.tracks[0], hit.strip.tracksHeight]
          : [hit.strip.top + 2, hit.strip.height - 4];
      return { x: hit.column, width: 1, y, height };
    }
    case 'loop':
      return { x: hit.cell.x, width: hit.cell.width, y: hit.strip.top + 3, height: hit.strip.height - 7 };
    case 'path':
      return { x: hit.piece.x, width: hit.piece.width, y: SIZES.axis, height: SIZES.path };
    case 'lane':
    case 'other':
    case 'none':
      return null;
  }
}

/** The row that a hit selects; -1: none. */
export function stepOf(figure: Figure, hit: Hit): number {
  switch (hit.kind) {
    case 'bar':
      return hit.bar.step;
    case 'wait':
      return hit.wait.step;
    case 'path':
      return hit.step;
    case 'column': {
      const from = timeOf(figure.scale, hit.column);
      return longest(figure.run, hit.lane, from, from + spanOf(figure.scale, 1));
    }
    case 'loop':
    case 'lane':
    case 'other':
    case 'none':
      return -1;
  }
}

interface Held {
  readonly kind: 'pan' | 'scrub' | 'area';
  readonly window: Span;
  readonly from: number;
}

function dragging(plot: Plot): void {
  const { store } = plot.context;
  let held: Held | null = null;
  const time = (drag: Drag): number => snappedTime(plot, drag.x, drag.event.altKey);
  onDrag(plot.element, {
    start(drag) {
      const figure = plot.figure();
      if (figure === null || (drag.event.target as Element).closest('button')) return false;
      const onAxis = drag.y < SIZES.axis;
      const onPlate = onAxis && Math.abs(xOf(figure.scale, store.state.time) - drag.x) < PLATE;
      held = { kind: onPlate ? 'scrub' : onAxis ? 'pan' : 'area', window: store.state.window, from: time(drag) };
      if (held.kind === 'area') plot.areaOn(laneAtHeight(figure, drag.y));
      return true;
    },
    move(drag) {
      const figure = plot.figure();
      if (held === null || figure === null || !drag.moved) return;
      if (held.kind === 'pan') store.show(panned(held.window, -spanOf(figure.scale, drag.dx)));
      else if (held.kind === 'scrub') store.goTo(time(drag));
      else store.set({ area: ordered(held.from, time(drag)) });
    },
    end(drag) {
      if (held !== null && !drag.moved) click(plot, drag);
      held = null;
    },
    cancel() {
      held = null;
    },
  });
}

function ordered(one: number, other: number): Span {
  return { from: Math.min(one, other), to: Math.max(one, other) };
}

/** The time at x, within the run; drawn to edges unless Alt is held. */
function snappedTime(plot: Plot, x: number, free: boolean): number {
  const figure = plot.figure()!;
  const { run, scale } = figure;
  const time = Math.min(Math.max(timeOf(scale, x), 0), run.makespan);
  return free ? Math.round(time) : snapped(run, figure, Math.round(time), spanOf(scale, SNAP));
}

function click(plot: Plot, drag: Drag): void {
  const figure = plot.figure();
  if (figure === null) return;
  const { store } = plot.context;
  const hit = hitAt(figure, drag.x, drag.y);
  if (hit.kind === 'loop') {
    chooseIterations(plot.context, hit.cell.first, hit.cell.last);
    return;
  }
  const step = stepOf(figure, hit);
  if (step >= 0) {
    store.select(step);
    return;
  }
  if (drag.y >= SIZES.axis) store.set({ selected: -1, area: null });
  store.goTo(snappedTime(plot, drag.x, drag.event.altKey));
}

/** Zooms to the bar, the block, the wait, or around the column. */
function zoomTo(plot: Plot, event: MouseEvent): void {
  const figure = plot.figure();
  if (figure === null) return;
  const { x, y } = place(plot, event);
  const range = rangeOf(figure, hitAt(figure, x, y));
  if (range !== null) plot.context.store.show(around(range, SHARE), true);
}

/** The time of what was hit. */
export function rangeOf(figure: Figure, hit: Hit): Span | null {
  const { rows } = figure.run;
  const start = (step: number): number => rows.start[step - rows.first];
  const end = (step: number): number => start(step) + rows.duration[step - rows.first];
  switch (hit.kind) {
    case 'bar':
      return { from: start(hit.bar.step), to: end(hit.bar.last) };
    case 'wait':
      return { from: start(hit.wait.step) - rows.wait[hit.wait.step - rows.first], to: start(hit.wait.step) };
    case 'loop':
      return spanOfIterations(figure.run, hit.cell.first, hit.cell.last);
    case 'path':
      return { from: hit.piece.from, to: hit.piece.to };
    case 'column':
      return { from: timeOf(figure.scale, hit.column - 12), to: timeOf(figure.scale, hit.column + 12) };
    case 'lane':
    case 'other':
    case 'none':
      return null;
  }
}

/** Ctrl or ⌘ zooms always, Shift pans; without them the page scrolls until the view has the focus. */
function turn(plot: Plot, event: WheelEvent): void {
  const figure = plot.figure();
  if (figure === null) return;
  const { store } = plot.context;
  const focused = plot.element.contains(plot.element.ownerDocument.activeElement);
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  if (
    event.ctrlKey ||
    event.metaKey ||
    (focused && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX))
  ) {
    const anchor = timeOf(figure.scale, place(plot, event).x);
    store.show(zoomed(store.state.window, anchor, wheelFactor(event.deltaY, event.deltaMode)));
  } else if (event.shiftKey || (focused && sideways !== 0)) {
    const pixels = sideways * (event.deltaMode === 0 ? 1 : 33);
    store.show(panned(store.state.window, spanOf(figure.scale, pixels)));
  } else return;
  event.preventDefault();
  event.stopPropagation();
}
