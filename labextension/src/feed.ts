/**
 * From messages to what is drawn: the first makes a run, those that follow bring rows of it. Where a run is too large
 * to be loaded whole, rows are asked for when a visualizer leaves the loaded ones.
 */

import { RANGE, WHOLE } from './_generated/schema';
import { createRun } from './run';
import type { LoadedRun } from './run';
import type { Host, State, Store } from './types';
import type { Visualizer } from './visualizer';
import { decode, WireError } from './wire';

export type Follow = (store: Store) => () => void;

interface Shown {
  readonly follow: Follow;
  store: Store | null;
  end: () => void;
}

/** Rows that come by themselves are shown together, so that views do not start anew with each message. */
const GATHER_MS = 300;

/** One run and the visualizers that show it. */
export class Feed {
  private run: LoadedRun | null = null;
  private failure = '';
  private readonly visualizers = new Map<Visualizer, Shown>();
  /** The one for which rows were asked that did not come yet. */
  private asker: Visualizer | null = null;
  private pending: ReturnType<typeof setTimeout> | undefined;

  /** `host` is null where all rows come by themselves. */
  constructor(private readonly host: Host | null) {}

  /** Show the run, present and future, in a visualizer; returns what ends that. `follow` hears of each new store and
   * returns what ends its listening. */
  attach(visualizer: Visualizer, follow: Follow = () => () => undefined): () => void {
    this.visualizers.set(visualizer, { follow, store: null, end: () => undefined });
    if (this.failure !== '') visualizer.setError(...titled(this.failure));
    else if (this.run !== null) this.show(visualizer, this.run);
    return () => {
      this.visualizers.get(visualizer)?.end();
      this.visualizers.delete(visualizer);
      if (this.asker === visualizer) this.asker = null;
    };
  }

  /** Take a message: the opening one of a run, or rows. What cannot be read is said on the page. */
  accept(bytes: ArrayBuffer | ArrayBufferView): void {
    try {
      const message = decode(bytes);
      const isNew = message.has('buffers');
      if (isNew) this.run = createRun(message);
      else this.run?.add(message);
      if (this.run === null) return;
      const asker = this.asker;
      this.asker = null;
      const { rows, steps } = this.run;
      if (isNew || asker !== null || rows.count === steps) this.showAll();
      else this.pending ??= setTimeout(() => this.showAll(), GATHER_MS);
      // Only who asked may ask on: of two that stand far apart, each would send the other's rows away.
      if (asker !== null) this.look(asker);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Say that so many bytes of what comes are there. */
  progress(read: number, total: number): void {
    if (this.run === null) for (const visualizer of this.visualizers.keys()) visualizer.setProgress(read, total);
  }

  /** Say why there is no run. */
  fail(error: unknown): void {
    this.failure = error instanceof WireError ? error.message : String(error);
    for (const visualizer of this.visualizers.keys()) visualizer.setError(...titled(this.failure));
  }

  private showAll(): void {
    clearTimeout(this.pending);
    this.pending = undefined;
    if (this.run !== null) for (const visualizer of this.visualizers.keys()) this.show(visualizer, this.run);
  }

  private show(visualizer: Visualizer, run: LoadedRun): void {
    visualizer.setRun(run);
    const shown = this.visualizers.get(visualizer);
    const { store } = visualizer;
    if (shown === undefined || store === null || store === shown.store) return;
    shown.end();
    const unfollow = shown.follow(store);
    const unlisten = store.listen((_, changes) => {
      if (changes.has('window') || changes.has('step')) this.look(visualizer);
    });
    shown.store = store;
    shown.end = () => {
      unfollow();
      unlisten();
    };
  }

  /** Ask for the rows that a visualizer shows and that are not there. */
  private look(visualizer: Visualizer): void {
    const state = visualizer.store?.state;
    if (this.host === null || this.run === null || this.asker !== null || state === undefined) return;
    const wanted = missing(this.run, state);
    if (wanted === null) return;
    this.asker = visualizer;
    this.host.requestSteps(wanted.first, wanted.count);
  }
}

/** The range of steps to load for what is shown; null where everything that is drawn row by row is there. */
export function missing(
  run: LoadedRun,
  state: Pick<State, 'window' | 'step'>,
): { first: number; count: number } | null {
  const { rows, steps } = run;
  if (run.coarse || steps <= WHOLE) return null; // it comes by itself
  const { from, to } = state.window;
  const lacksRows = !run.covers(from, to) && run.rowsBetween(from, to) <= RANGE / 2; // of more, sums are drawn
  const lacksStep = state.step >= 0 && !run.has(state.step);
  if (!lacksRows && !lacksStep) return null;
  const middle = lacksRows ? run.stepAt((from + to) / 2) : state.step;
  const first = Math.max(0, Math.min(middle - RANGE / 2, steps - RANGE));
  const count = Math.min(RANGE, steps - first);
  return first === rows.first && count === rows.count ? null : { first, count };
}

function titled(text: string): [string, string] {
  return ['This run cannot be shown', text];
}
