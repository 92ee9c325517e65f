/** Everything that a key, a button or a menu entry does, once. */
import { rememberFolds, toggled, type Part } from './layout/parts';
import type { Playback } from './playback';
import type { Stepping } from './stepping';
import { whole } from './store';
import { foldAll, nextIteration, zoomToIteration } from './iterations';
import { beyond } from './searching';
import { showWait, stallSteps } from './stalls';
import type { Run, Span, Store } from './types';

const ZOOM = 1.25;
const PAN = 0.2;

export const COMMANDS = [
  'zoomIn', 'zoomOut', 'panLeft', 'panRight', 'fit', 'nextAlong', 'previousAlong', 'back', 'forward', 'laneUp',
  'laneDown', 'first', 'last', 'predecessor', 'successor', 'play', 'details', 'line', 'into', 'out', 'critical',
  'marker', 'zoomArea', 'search', 'breakpoint', 'nextFinding', 'previousFinding', 'nextStall', 'previousStall',
  'nextCritical', 'previousCritical', 'nextMatch', 'previousMatch', 'nextIteration', 'previousIteration',
  'zoomIteration', 'fold', 'usedRange', 'explore', 'summary',
  'instructions', 'expandMotion', 'keys', 'foldTimeline', 'foldMoment', 'foldPanels', 'fullScreen',
] as const; // prettier-ignore

export type Command = (typeof COMMANDS)[number];
export type Commands = Readonly<Record<Command, () => void>>;

const ASKED = 'nki-command';

/** Ask for a command from within a view, whose buttons do what keys do. */
export function ask(from: HTMLElement, command: Command): void {
  from.dispatchEvent(new CustomEvent<Command>(ASKED, { bubbles: true, detail: command }));
}

/** Do what views within an element ask for. */
export function onAsked(element: HTMLElement, commands: Commands): void {
  element.addEventListener(ASKED, event => commands[(event as CustomEvent<Command>).detail]());
}

export interface Surroundings {
  readonly run: Run;
  readonly store: Store;
  readonly stepping: Stepping;
  readonly playback: Playback;
  readonly speak: (text: string) => void;
  readonly openSearch: () => void;
  readonly openDetails: () => void;
  readonly expandMotion: () => void;
  readonly showKeys: () => void;
  /** Steps of the findings, in order of time. */
  readonly findingSteps: () => readonly number[];
}

/** The commands of a visualizer. */
export function createCommands(around: Surroundings): Commands {
  const { run, store, stepping, playback } = around;
  /** Go where `find` leads from the current step; say so where it leads nowhere. */
  const step = (find: (from: number) => number, nowhere: string) => (): void => {
    playback.stop();
    const target = find(store.state.step);
    if (target >= 0 && target < run.steps) store.select(target);
    else around.speak(nowhere);
  };
  const finding = (by: 1 | -1) => (): void => {
    const steps = around.findingSteps();
    const from = store.state.step;
    const target = by > 0 ? steps.find(item => item > from) : steps.findLast(item => item < from);
    step(() => target ?? -1, 'No further finding')();
  };
  /** Around the end, as searches go. */
  const match = (by: 1 | -1) => (): void => {
    const { found, selected, step: at } = store.state;
    const steps = found?.steps ?? new Uint32Array(0);
    // Before anything was selected the current step may be the first match.
    const further = beyond(steps, selected >= 0 ? selected : at - by, by);
    const target = further >= 0 ? further : (steps.at(by > 0 ? 0 : -1) ?? -1);
    step(() => target, found === null ? 'Nothing is searched' : 'No instruction matches')();
  };
  const stall = (by: 1 | -1) => (): void => {
    const target = beyond(stallSteps(run), store.state.step, by);
    step(() => target, by > 0 ? 'No further stall' : 'No earlier stall')();
    if (target >= 0) showWait(run, store, target);
  };
  const critical = (by: 1 | -1): (() => void) =>
    step(
      from => beyond(run.criticalPath, from, by),
      by > 0 ? 'Last critical instruction' : 'First critical instruction',
    );
  const iteration = (by: 1 | -1) => (): void => {
    playback.stop();
    const nowhere = by > 0 ? 'No further iteration' : 'No earlier iteration';
    if (!nextIteration(around, by)) around.speak(nowhere);
  };
  return {
    zoomIn: () => zoom(store, 1 / ZOOM),
    zoomOut: () => zoom(store, ZOOM),
    panLeft: () => pan(store, -PAN),
    panRight: () => pan(store, PAN),
    fit: () => fit(run, store),
    nextAlong: step(from => stepping.along(from, 1), 'Last on this engine'),
    previousAlong: step(from => stepping.along(from, -1), 'First on this engine'),
    back: step(from => from - 1, 'First step'),
    forward: step(from => from + 1, 'Last step'),
    laneUp: step(from => stepping.across(from, store.state.time, -1), 'First lane'),
    laneDown: step(from => stepping.across(from, store.state.time, 1), 'Last lane'),
    first: step(() => 0, 'No steps'),
    last: step(() => run.steps - 1, 'No steps'),
    predecessor: step(stepping.predecessor, 'It waits for nothing'),
    successor: step(stepping.successor, 'Nothing waits for it'),
    play: () => playback.toggle(),
    details: around.openDetails,
    expandMotion: around.expandMotion,
    line: step(stepping.line, 'Last line'),
    into: step(stepping.into, 'Last instruction'),
    out: step(stepping.out, 'Not in a loop, or nothing after it'),
    critical() {
      store.set({ showCritical: !store.state.showCritical });
      around.speak(store.state.showCritical ? 'Critical path shown' : 'Critical path hidden');
    },
    marker: () => mark(store, around.speak),
    zoomArea() {
      const { area } = store.state;
      if (area && area.to > area.from) store.show(area, true);
      else around.speak('No area is marked');
    },
    search: around.openSearch,
    breakpoint: () => toggleBreakpoint(store, around.speak),
    nextFinding: finding(1),
    previousFinding: finding(-1),
    nextStall: stall(1),
    previousStall: stall(-1),
    nextCritical: critical(1),
    previousCritical: critical(-1),
    nextMatch: match(1),
    previousMatch: match(-1),
    nextIteration: iteration(1),
    previousIteration: iteration(-1),
    zoomIteration() {
      if (!zoomToIteration(around)) around.speak('Not in a loop');
    },
    fold: () => around.speak(foldAll(around)),
    usedRange: () => store.set({ usedRange: !store.state.usedRange }),
    explore: () => store.set({ tab: 'explore' }),
    summary: () => store.set({ tab: 'summary' }),
    instructions: () => store.set({ tab: 'instructions' }),
    keys: around.showKeys,
    foldTimeline: fold(store, 'timeline'),
    foldMoment: fold(store, 'moment'),
    foldPanels: fold(store, 'panels'),
    fullScreen: () => store.set({ full: !store.state.full }),
  };
}

/** Fold a part or show it again, as further visualizers will do. */
function fold(store: Store, part: Part): () => void {
  return () => {
    const away = toggled(store.state.away, part);
    store.set({ away, tab: 'explore' });
    rememberFolds(away);
  };
}

/** Zoom about the cursor, or about the middle where it is out of sight. */
function zoom(store: Store, factor: number): void {
  const { window, time } = store.state;
  const anchor = time >= window.from && time <= window.to ? time : (window.from + window.to) / 2;
  store.show({
    from: anchor - (anchor - window.from) * factor,
    to: anchor + (window.to - anchor) * factor,
  });
}

function pan(store: Store, share: number): void {
  const { window } = store.state;
  const by = (window.to - window.from) * share;
  store.show({ from: window.from + by, to: window.to + by });
}

/** Fit the selection; if that is what the window shows, or there is none, the whole run. */
function fit(run: Run, store: Store): void {
  const { selected, area, window } = store.state;
  const target = area ?? (selected >= 0 && run.has(selected) ? around(run, selected) : null);
  const shown = target !== null && near(window, target);
  store.show(target && !shown ? target : whole(run), true);
}

/** A window in which a step takes a third. */
function around(run: Run, step: number): Span {
  const place = step - run.rows.first;
  const { start, duration } = run.rows;
  const width = Math.max(duration[place], 1000);
  return { from: start[place] - width, to: start[place] + 2 * width };
}

function near(one: Span, other: Span): boolean {
  const width = one.to - one.from;
  // The store may have moved or widened it to its limits.
  return Math.abs(one.from - other.from) < 0.05 * width && Math.abs(one.to - other.to) < 0.05 * width;
}

/** A first marker at the cursor, then the range between it and the cursor. */
function mark(store: Store, speak: (text: string) => void): void {
  const { area, time } = store.state;
  if (area && area.from === area.to && area.from !== time) {
    store.set({ area: { from: Math.min(area.from, time), to: Math.max(area.from, time) } });
    speak('Second marker');
  } else {
    store.set({ area: { from: time, to: time } });
    speak('Marker');
  }
}

function toggleBreakpoint(store: Store, speak: (text: string) => void): void {
  const { line, breakpoints } = store.state;
  if (!line) return;
  const key = `${line.source}:${line.line}`;
  const next = new Set(breakpoints);
  if (!next.delete(key)) next.add(key);
  store.set({ breakpoints: next });
  speak(next.has(key) ? `Breakpoint at line ${line.line}` : `No breakpoint at line ${line.line}`);
}
