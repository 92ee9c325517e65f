/** The state that all views of one visualizer share, and its listeners. */
import { cancelledAt } from './cancelled';
import type { Changes, Run, Span, State, Store } from './types';

const EASE_MS = 140;
/** How far beyond the run a window may reach, as a share of it. */
const BEYOND = 0.02;
/** The narrowest window in picoseconds: at 1 ns = 8 px a pane of 1,000 px shows 125 ns. */
const NARROWEST = 20_000;
/** Where a step lands in a window that did not show it, as a share of the window. */
const LANDING = 0.35;
/** A step that is nearer to an end of the window than this share makes the window move. */
const MARGIN = 0.02;

type Listener = (state: State, changes: Changes) => void;

/** A store that its visualizer may give another run, or more of the same. */
export interface OwnedStore extends Store {
  /** Go on with `run`. A run that continues the present one keeps the state. */
  adopt(run: Run, same: boolean): void;
  dispose(): void;
}

/** The state before anything was done: the whole run, the cursor at its first step or at the fault. */
export function initialState(run: Run): State {
  const step = run.fault >= 0 ? run.fault : 0;
  const site = run.steps && run.has(step) ? run.siteOf(step) : null;
  return {
    time: run.steps && run.has(step) ? startOf(run, step) : 0,
    step: run.steps ? step : -1,
    selected: run.fault,
    tile: -1,
    line: site && { source: site.source, line: site.line },
    window: whole(run),
    area: null,
    hover: { step: -1, tile: -1 },
    colourBy: 'engine',
    showCritical: true,
    playing: false,
    speed: speedFor(run),
    usedRange: true,
    breakpoints: new Set(),
    stopTile: -1,
    query: '',
    found: null,
    searching: false,
    tab: 'explore',
    panel: 'memory',
    expanded: null,
    doneUntil: cancelledAt(run),
    folded: foldedAtFirst(run),
    theme: 'light',
    away: new Set(),
    full: false,
    low: false,
    edited: new Set(),
    layout: 'wide',
  };
}

/** So many ranks are shown open at first; of more only the slowest. */
const OPEN_RANKS = 4;

function foldedAtFirst(run: Run): ReadonlySet<string> {
  if (!(run.ranks > OPEN_RANKS)) return new Set();
  const open = Math.max(0, run.slowest);
  const ranks = Array.from({ length: run.ranks }, (_, rank) => rank).filter(rank => rank !== open);
  return new Set(ranks.map(rank => `rank ${rank}`));
}

/** The store of a run. Listeners hear of all changes of a frame at once. */
export function createStore(firstRun: Run): OwnedStore {
  let run = firstRun;
  let state = initialState(run);
  /** The current step if nobody knows yet when it starts; -1: it is known. */
  let late = unplaced(run, state.step);
  let pending = new Set<keyof State>();
  let frame = 0;
  let easing = 0;
  const listeners = new Set<Listener>();

  const flush = (): void => {
    frame = 0;
    const changes = pending;
    pending = new Set();
    for (const listener of [...listeners]) listener(state, changes);
  };
  const apply = (change: Partial<State>): void => {
    const next: Record<string, unknown> = { ...state };
    for (const [name, value] of Object.entries(change)) {
      if (Object.is(next[name], value)) continue;
      next[name] = value;
      pending.add(name as keyof State);
    }
    state = next as unknown as State;
    if (pending.size && !frame) frame = soon(flush);
  };
  const stopEasing = (): void => {
    if (easing) cancelSoon(easing);
    easing = 0;
  };
  const set = (change: Partial<State>): void => {
    // A pointer that passes over a bar is no input that ends a zoom.
    if (Object.keys(change).some(name => name !== 'hover')) stopEasing();
    const { window } = change;
    apply(window && window !== state.window ? { ...change, window: limited(run, window) } : change);
  };
  const reveal = (from: number, to: number): Partial<State> => ({ window: seen(run, state.window, from, to) });
  const place = (step: number): Partial<State> => {
    if (!run.has(step)) return { step };
    const site = run.siteOf(step);
    const line = site ? { source: site.source, line: site.line } : null;
    return { step, line: sameLine(state.line, line) ? state.line : line };
  };

  const store: OwnedStore = {
    get state() {
      return state;
    },
    set,
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    select(step) {
      if (step < 0 || step >= run.steps) {
        set({ selected: -1 });
        return;
      }
      const change: Partial<State> = { selected: step, ...place(step) };
      if (!run.has(step)) {
        set(change);
        return;
      }
      const time = startOf(run, step);
      set({ ...change, time, ...reveal(time, time + at(run.rows.duration, run, step)) });
    },
    goTo(time) {
      const bounded = Math.min(Math.max(time, 0), Math.max(run.makespan, 0));
      const step = run.steps ? Math.max(run.stepAt(bounded), 0) : -1;
      set({ time: bounded, ...place(step), ...reveal(bounded, bounded) });
    },
    goToStep(step) {
      if (step < 0 || step >= run.steps) return;
      const time = run.has(step) ? startOf(run, step) : state.time;
      late = unplaced(run, step);
      set({ time, ...place(step), ...reveal(time, time) });
    },
    show(window, ease = false) {
      stopEasing();
      const target = limited(run, window);
      if (!ease || prefersStill()) {
        apply({ window: target });
        return;
      }
      const from = state.window;
      let begin = -1;
      const advance = (now: number): void => {
        if (begin < 0) begin = now;
        const share = Math.min(1, (now - begin) / EASE_MS);
        easing = share < 1 ? soon(advance) : 0;
        apply({ window: share < 1 ? between(from, target, 1 - (1 - share) ** 3) : target });
      };
      easing = soon(advance);
    },
    adopt(next, same) {
      const { theme, layout, tab, panel, expanded, away, full, low } = state;
      run = next;
      stopEasing();
      apply(same ? {} : { ...initialState(run), theme, layout, tab, panel, expanded, away, full, low });
      for (const name of Object.keys(state)) pending.add(name as keyof State);
      if (!same) late = unplaced(run, state.step);
      else if (late >= 0 && late === state.step && run.has(late)) store.goToStep(late);
      if (!frame) frame = soon(flush);
    },
    dispose() {
      stopEasing();
      if (frame) cancelSoon(frame);
      frame = 0;
      listeners.clear();
    },
  };
  return store;
}

/** A step whose row is still to come; -1: it is there. */
function unplaced(run: Run, step: number): number {
  return step >= 0 && !run.has(step) ? step : -1;
}

/** The window of a whole run. */
export function whole(run: Run): Span {
  return { from: 0, to: Math.max(run.makespan, NARROWEST) };
}

/** True where the system asks for less motion. */
export function prefersStill(): boolean {
  return window.matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/** Speeds to play at, in picoseconds of the run a second. */
export function speeds(run: Run): readonly number[] {
  const base = 10 ** Math.round(Math.log10(Math.max(run.makespan, 1) / 30));
  return [0.1, 0.3, 1, 3, 10].map(factor => Math.max(1000, Math.round(factor * base)));
}

function speedFor(run: Run): number {
  return speeds(run)[2] ?? 1e6;
}

/** A window within the limits: not beyond the run, not too narrow. */
function limited(run: Run, window: Span): Span {
  const end = Math.max(run.makespan, NARROWEST);
  const low = -BEYOND * end;
  const high = (1 + BEYOND) * end;
  const width = Math.min(Math.max(window.to - window.from, Math.min(NARROWEST, end)), high - low);
  const middle = (window.from + window.to) / 2;
  const from = Math.min(Math.max(middle - width / 2, low), high - width);
  return { from, to: from + width };
}

/** The window, moved so that a range (or as much as fits, its begin first) is in it. */
function seen(run: Run, window: Span, from: number, to: number): Span {
  const width = window.to - window.from;
  const margin = MARGIN * width;
  const inside = from >= window.from && from <= window.to;
  const fits = to - from <= width - 2 * margin;
  if (inside && (to <= window.to || !fits)) return window;
  if (inside) return limited(run, { from: to + margin - width, to: to + margin });
  const begin = from - LANDING * width;
  return limited(run, { from: begin, to: begin + width });
}

function between(one: Span, other: Span, share: number): Span {
  return {
    from: one.from + (other.from - one.from) * share,
    to: one.to + (other.to - one.to) * share,
  };
}

function sameLine(one: State['line'], other: State['line']): boolean {
  return one?.source === other?.source && one?.line === other?.line;
}

function startOf(run: Run, step: number): number {
  return at(run.rows.start, run, step);
}

/** The value of a loaded step. */
function at(column: ArrayLike<number>, run: Run, step: number): number {
  return column[step - run.rows.first] ?? 0;
}

// A hidden page gets no frames, yet what changed there is to be drawn when it is shown: browsers keep the request.
export function soon(callback: (now: number) => void): number {
  return requestAnimationFrame(callback);
}

export function cancelSoon(handle: number): void {
  cancelAnimationFrame(handle);
}
