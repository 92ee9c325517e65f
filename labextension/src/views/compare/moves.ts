/** Commands of a comparison: what keys and the pointer do. */
import { el } from '../../dom';
import { firstFrom } from '../../run/search';
import type { Run, Span } from '../../types';
import { laneOf } from '../../words';
import { anchorOf, NOTCH, panned, zoomed } from '../timeline/zoom';
import { type Comparison, other, type Side, SIDES } from './message';
import type { CompareState, CompareStore, Picked } from './state';
import { TABLES } from './state';
import type { Runs } from './times';
import { type Aligned, ALIGNMENTS, followed, limited, wholeOf, windowFor } from './windows';

export interface Moves {
  /** Show a window of the earlier run, within what there is. */
  show(window: Span): void;
  /** Select an instruction, and move the window so that it is seen. */
  select(picked: Picked): void;
  /** What a key does; false: nothing. */
  press(key: string): boolean;
  /** One step back from what is open or selected; false: there is nothing. */
  back(): boolean;
}

interface Options {
  readonly comparison: Comparison;
  readonly runs: Runs;
  readonly store: CompareStore;
  readonly aligned: () => Aligned;
  readonly lineOf: (picked: Picked) => number;
  readonly openKeys: () => void;
}

/** Keys as the list shows them. */
export const KEYS: readonly (readonly [string, string])[] = [
  ['W S', 'zoom in, out'],
  ['A D', 'pan left, right'],
  ['F', 'fit the selection, again: both runs'],
  ['← →', 'instruction before, after'],
  [', .', 'the same on one lane'],
  ['↑ ↓', 'lane above, below; beyond the last one the other run'],
  ['X', 'the same instruction in the other run'],
  ['N P', 'next, previous instruction that the other run does not have'],
  ['1 2 3', 'align by start, iteration, line'],
  ['R', 'scale: same, relative'],
  ['T', 'next table of differences'],
  ['E', 'edits of the source'],
  ['?', 'this list'],
];

export function keyDialog(): HTMLDialogElement {
  const close = el('button', { type: 'button', class: 'nki-text-button' }, 'Close');
  const rows = [...KEYS, ['Esc', 'one step back, twice: leave'] as const].map(([keys, does]) =>
    el('div', {}, el('dt', {}, ...keys.split(' ').map(key => el('kbd', {}, key))), el('dd', {}, does)),
  );
  const dialog = el(
    'dialog',
    { class: 'nki-keys', 'aria-label': 'Keys' },
    el('div', { class: 'nki-keys-head' }, el('h3', {}, 'Keys'), el('span', { class: 'nki-spacer' }), close),
    el('dl', {}, ...rows),
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}

export function createMoves(options: Options): Moves {
  const { comparison, runs, store, aligned } = options;
  const whole = (): Span => wholeOf(aligned().spans, store.state.scaling);
  const show = (window: Span): void => store.set({ window: limited(window, whole()) });
  const startOf = ({ side, step }: Picked): number => runs[side].rows.start[step - runs[side].rows.first];
  const endOf = (picked: Picked): number =>
    startOf(picked) + runs[picked.side].rows.duration[picked.step - runs[picked.side].rows.first];
  const windowOf = (side: Side): Span =>
    side === 'before' ? store.state.window : followed(store.state.window, aligned());
  const windowAt = (side: Side, time: number, at: number): Span => {
    const { window } = store.state;
    if (side === 'after') return windowFor(time, at, window, aligned());
    const from = time - at * (window.to - window.from);
    return { from, to: from + window.to - window.from };
  };
  const select = (picked: Picked): void => {
    const run = runs[picked.side];
    if (picked.step < 0 || picked.step >= run.steps) return;
    const line = options.lineOf(picked);
    if (!run.has(picked.step)) {
      store.set({ selected: picked, line });
      return;
    }
    const seen = windowOf(picked.side);
    const isSeen = startOf(picked) >= seen.from && endOf(picked) <= seen.to;
    const window = isSeen ? store.state.window : limited(windowAt(picked.side, startOf(picked), 0.35), whole());
    store.set({ selected: picked, line, window });
  };
  /** What keys start from: the selection, else the first instruction that is seen; null where nothing is loaded. */
  const current = (): Picked | null => {
    const picked = store.state.selected ?? { side: 'before', step: firstSeen(runs.before, windowOf('before')) };
    return runs[picked.side].has(picked.step) ? picked : null;
  };
  const step = (by: number): void => {
    const picked = current();
    if (picked !== null) select({ ...picked, step: store.state.selected ? picked.step + by : picked.step });
  };
  const along = (by: number): void => {
    const picked = current();
    if (picked === null) return;
    const { side, step } = picked;
    const steps = runs[side].laneSteps(laneOf(runs[side], step).id);
    const next = steps[firstFrom(steps, step) + by];
    if (next !== undefined) select({ side, step: next });
  };
  const across = (by: number): void => {
    const picked = current();
    if (picked === null) return;
    const lanes = (side: Side): number[] =>
      runs[side].lanes.filter(lane => runs[side].laneSteps(lane.id).length > 0).map(lane => lane.id);
    const mine = lanes(picked.side);
    let side = picked.side;
    let place = mine.indexOf(laneOf(runs[side], picked.step).id) + by;
    if (place < 0 || place >= mine.length) {
      const next = SIDES[SIDES.indexOf(side) + by];
      if (next === undefined) return;
      side = next;
      place = by > 0 ? 0 : lanes(side).length - 1;
    }
    const lane = lanes(side)[place];
    if (lane === undefined) return;
    const time = side === picked.side ? startOf(picked) : windowOf(side).from;
    const at = runs[side].laneAt(lane, time);
    select({ side, step: at >= 0 ? at : (runs[side].laneSteps(lane)[0] ?? -1) });
  };
  const mate = (): void => {
    const { selected } = store.state;
    if (selected === null) return;
    const step = comparison.partner(selected.side, selected.step);
    if (step >= 0) select({ side: other(selected.side), step });
  };
  const alone = (by: 1 | -1): void => {
    const picked = store.state.selected;
    const side = picked?.side ?? (comparison.alone.after.length > 0 ? 'after' : 'before');
    const steps = comparison.alone[side];
    const at = firstFrom(steps, picked === null ? 0 : picked.step + (by > 0 ? 1 : 0)) - (by < 0 ? 1 : 0);
    const found = steps[at];
    if (found !== undefined) select({ side, step: found });
    else if (by > 0 && side === 'before' && comparison.alone.after.length > 0)
      select({ side: 'after', step: comparison.alone.after[0] });
  };
  const fit = (): void => {
    const { selected, window } = store.state;
    const all = limited(whole(), whole());
    if (selected === null || !runs[selected.side].has(selected.step)) {
      show(all);
      return;
    }
    const wide = Math.max(endOf(selected) - startOf(selected), 1) * 4;
    const middle = (startOf(selected) + endOf(selected)) / 2;
    const from =
      selected.side === 'before' ? middle - wide / 2 : windowFor(middle, 0.5, { from: 0, to: wide }, aligned()).from;
    const close = limited({ from, to: from + wide }, whole());
    show(Math.abs(close.to - close.from - (window.to - window.from)) < 1 ? all : close);
  };
  const zoom = (factor: number): void => {
    const { window, selected } = store.state;
    const at = selected?.side === 'before' && runs.before.has(selected.step) ? startOf(selected) : -1;
    show(zoomed(window, anchorOf(window, at), factor));
  };
  const pan = (share: number): void => {
    const { window } = store.state;
    show(panned(window, share * (window.to - window.from)));
  };
  const commands: Readonly<Record<string, () => void>> = {
    w: () => zoom(1 / NOTCH),
    s: () => zoom(NOTCH),
    a: () => pan(-0.1),
    d: () => pan(0.1),
    f: fit,
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    ',': () => along(-1),
    '.': () => along(1),
    ArrowUp: () => across(-1),
    ArrowDown: () => across(1),
    x: mate,
    n: () => alone(1),
    p: () => alone(-1),
    1: () => align(0),
    2: () => align(1),
    3: () => align(2),
    r: () => store.set({ scaling: store.state.scaling === 'same' ? 'relative' : 'same' }),
    t: () => store.set({ table: TABLES[(TABLES.indexOf(store.state.table) + 1) % TABLES.length] }),
    e: () => store.set({ edits: !store.state.edits && comparison.header.edits.length > 0 }),
    '?': options.openKeys,
  };
  const align = (number: number): void => {
    const alignment = ALIGNMENTS[number];
    const isThere = [true, comparison.iterations.length > 0, comparison.lines.count > 0][number];
    if (isThere) store.set({ alignment });
  };
  return {
    show,
    select,
    press(key) {
      const command = commands[key.length === 1 ? key.toLowerCase() : key];
      command?.();
      return command !== undefined;
    },
    back: () => stepBack(store),
  };
}

function stepBack(store: CompareStore): boolean {
  const { hover, selected, line, edits } = store.state;
  const change: Partial<CompareState> | null =
    hover !== null
      ? { hover: null }
      : selected !== null
        ? { selected: null, line: -1 }
        : line >= 0
          ? { line: -1 }
          : edits
            ? { edits: false }
            : null;
  if (change !== null) store.set(change);
  return change !== null;
}

/** The first loaded step within a window. */
function firstSeen(run: Run, window: Span): number {
  const { start, first, count } = run.rows;
  return Math.min(first + firstFrom(start, window.from), first + count - 1);
}
