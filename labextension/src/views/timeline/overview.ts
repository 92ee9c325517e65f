/** The whole run in one low picture, and the window in it. */
import { rgbOf } from '../../canvas/rgb';
import { createStrip } from '../../canvas/strip';
import { createSurface } from '../../canvas/surface';
import { el, setAttribute, setStyle, setText } from '../../dom';
import * as format from '../../format';
import { HUES } from '../../_generated/schema';
import type { Context, Found, Hue, Palette, Run, Span, State } from '../../types';
import { onDrag } from './drag';
import { zoomed } from './zoom';

const HEIGHT = 37;
/** The least that the window's frame may be wide. */
const NARROWEST = 8;
/** A pixel in which anything runs is never blank. */
const FAINTEST = 0.14;
/** An arrow key moves the window by this share of it. */
const STEP = 0.1;

export interface Density {
  readonly hue: Hue;
  /** Busy share of each bucket of time, 0 to 1. */
  readonly shares: Float64Array;
}

/** Busy share of the whole run per hue in equal buckets: exact sums over its lanes, at most 1. */
export function densities(run: Run, count: number): Density[] {
  const found: Density[] = [];
  for (const hue of HUES) {
    const lanes = run.lanes.filter(lane => lane.hue === hue && (run.laneTimes[lane.id]?.rows ?? 0) > 0);
    if (lanes.length === 0) continue;
    const shares = new Float64Array(count);
    // Engines of several cores are averaged; any DMA queue at work is DMA at work.
    const whole = hue === 'dma' ? 1 : lanes.length;
    for (const lane of lanes) {
      const { busy, width } = run.buckets(lane.id, 0, Math.max(1, run.makespan), count);
      for (let at = 0; at < count; at++) shares[at] += busy[at] / width / whole;
    }
    for (let at = 0; at < count; at++) shares[at] = Math.min(1, shares[at]);
    found.push({ hue, shares });
  }
  return found;
}

export interface Overview {
  readonly element: HTMLElement;
  /** How many instructions and how long. */
  tell(run: Run): void;
  /** Paints the densities anew. */
  paint(run: Run, palette: Palette, found: Found | null): void;
  place(run: Run, state: State): void;
}

export function createOverview(context: Context, runOf: () => Run): Overview {
  const surface = createSurface();
  const before = el('div', { class: 'nki-tl-veil' });
  const behind = el('div', { class: 'nki-tl-veil' });
  const cursor = el('div', { class: 'nki-tl-needle' });
  const left = el('div', { class: 'nki-tl-handle nki-tl-handle-left' });
  const right = el('div', { class: 'nki-tl-handle nki-tl-handle-right' });
  const slider = { role: 'slider', tabindex: '0', 'aria-label': 'Window', 'aria-orientation': 'horizontal' };
  const frame = el('div', { class: 'nki-tl-frame', ...slider }, left, right);
  const plot = el('div', { class: 'nki-tl-whole' }, surface.element, before, behind, cursor, frame);
  const count = el('span');
  const length = el('span', { class: 'nki-tl-length' });
  const note = el('span', { class: 'nki-tl-note' }, count, length);
  const cell = el('div', { class: 'nki-tl-cell' }, el('span', { class: 'nki-tl-first' }, 'Whole run'), note);
  const element = el('div', { class: 'nki-tl-overview' }, cell, plot);
  drags(plot, [left, right], context, runOf);
  frame.addEventListener('keydown', event => moveByKey(event, context, runOf()));
  return {
    element,
    tell(run) {
      setText(count, `${format.shortCount(run.instructions)} instr`);
      setText(length, ` · ${format.time(run.makespan)}`);
      setAttribute(note, 'title', `${format.plural(run.instructions, 'instruction')}, ${format.time(run.makespan)}`);
    },
    paint(run, palette, found) {
      surface.resize(plot.clientWidth, HEIGHT - 1);
      surface.clear();
      paintDensities(surface.context, run, palette, surface.width);
      paintFound(surface.context, run, palette, surface.width, found);
    },
    place(run, state) {
      const end = Math.max(1, run.makespan);
      const share = (time: number): number => Math.min(1, Math.max(0, time / end)) * 100;
      const [from, to] = [share(state.window.from), share(state.window.to)];
      setStyle(before, { left: '0', width: `${from}%` });
      setStyle(behind, { left: `${to}%`, right: '0' });
      setStyle(frame, { left: `min(${from}%, 100% - ${NARROWEST}px)`, width: `max(${to - from}%, ${NARROWEST}px)` });
      setStyle(cursor, { left: `${share(state.time)}%` });
      tellWindow(frame, run, state.window);
    },
  };
}

/** "25 to 41 µs": a window in words, its unit once. */
export function windowText({ from, to }: Span): string {
  const [one, two] = [format.timeParts(Math.max(0, from)), format.timeParts(to)];
  return one.unit === two.unit || from <= 0
    ? `${one.value} to ${two.value} ${two.unit}`
    : `${format.time(from)} to ${format.time(to)}`;
}

function tellWindow(frame: HTMLElement, run: Run, window: Span): void {
  const end = Math.max(1, run.makespan);
  setAttribute(frame, 'aria-valuemin', 0);
  setAttribute(frame, 'aria-valuemax', 100);
  setAttribute(frame, 'aria-valuenow', Math.round((100 * Math.max(0, window.from)) / end));
  setAttribute(frame, 'aria-valuetext', windowText(window));
}

function paintDensities(context: CanvasRenderingContext2D, run: Run, palette: Palette, width: number): void {
  const count = Math.max(1, Math.round(width));
  const found = run.steps > 0 ? densities(run, count) : [];
  if (found.length === 0) return;
  const strip = createStrip(count, found.length);
  const dense = found.map(({ hue, shares }) => ({ colour: rgbOf(palette.hue[hue]), shares }));
  dense.forEach(({ colour, shares }, row) => {
    for (let at = 0; at < count; at++) {
      if (shares[at] > 0) strip.set(at, row, colour, Math.max(FAINTEST, shares[at]));
    }
  });
  const pitch = Math.min(7, Math.floor((HEIGHT - 5) / found.length));
  const top = Math.round((HEIGHT - pitch * found.length) / 2);
  found.forEach((_, row) => {
    strip.draw(context, row, 1, [0, top + row * pitch, width, pitch - 1]);
  });
}

/** The height of the ticks of what a search found, at the lower edge. */
const TICK = 3;

function paintFound(
  context: CanvasRenderingContext2D,
  run: Run,
  palette: Palette,
  width: number,
  found: Found | null,
): void {
  if (found === null) return;
  const { start, first } = run.rows;
  context.fillStyle = palette.ink;
  let last = -1;
  for (const step of found.steps) {
    if (!run.has(step)) continue;
    const x = Math.floor((start[step - first] / Math.max(1, run.makespan)) * width);
    if (x !== last) context.fillRect(x, HEIGHT - 1 - TICK, 1, TICK);
    last = x;
  }
}

type Part = 'left' | 'right' | 'window';

function drags(plot: HTMLElement, [left, right]: [HTMLElement, HTMLElement], context: Context, runOf: () => Run): void {
  let held: { part: Part; window: Span } | null = null;
  const timeAt = (x: number): number => (x / Math.max(1, plot.clientWidth)) * Math.max(1, runOf().makespan);
  onDrag(plot, {
    start({ x, event }) {
      let { window } = context.store.state;
      const part: Part = event.target === left ? 'left' : event.target === right ? 'right' : 'window';
      const at = timeAt(x);
      if (part === 'window' && (at < window.from || at > window.to)) {
        const half = (window.to - window.from) / 2;
        window = { from: at - half, to: at + half };
        context.store.show(window);
      }
      held = { part, window };
      return true;
    },
    move({ dx, moved }) {
      if (held !== null && moved) context.store.show(dragged(held.window, held.part, timeAt(dx), timeAt(NARROWEST)));
    },
    end() {
      held = null;
    },
    cancel() {
      held = null;
    },
  });
}

/** The window after a part of it was moved by a time; it stays at least `least` wide. */
export function dragged({ from, to }: Span, part: Part, by: number, least: number): Span {
  const narrowest = Math.min(least, to - from);
  if (part === 'left') return { from: Math.min(from + by, to - narrowest), to };
  if (part === 'right') return { from, to: Math.max(to + by, from + narrowest) };
  return { from: from + by, to: to + by };
}

/** Arrows move the window, Page keys make it narrower and wider. */
function moveByKey(event: KeyboardEvent, context: Context, run: Run): void {
  const { window, time } = context.store.state;
  const width = window.to - window.from;
  const targets: Readonly<Record<string, () => Span>> = {
    ArrowLeft: () => dragged(window, 'window', -STEP * width, 0),
    ArrowRight: () => dragged(window, 'window', STEP * width, 0),
    PageUp: () => zoomed(window, time, 1 / 1.25),
    PageDown: () => zoomed(window, time, 1.25),
    Home: () => ({ from: 0, to: width }),
    End: () => ({ from: run.makespan - width, to: run.makespan }),
  };
  const target = targets[event.key];
  if (target === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  context.store.show(target());
}
