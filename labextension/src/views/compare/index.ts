/** Two runs drawn over one another: what changed, and where the time went. */
import colours from '../../_generated/colours.css';
import { el, replace } from '../../dom';
import { missing } from '../../feed';
import headerStyle from '../../header.css';
import * as format from '../../format';
import { createLive } from '../../live';
import panelStyle from '../../panels.css';
import { createRun, type LoadedRun } from '../../run';
import shellStyle from '../../shell.css';
import { notice, type Skeleton, skeleton } from '../../states';
import { useStyle } from '../../styles';
import summaryStyle from '../../summary.css';
import tokens from '../../tokens.css';
import { palette, watchTheme } from '../../tokens';
import type { Palette } from '../../types';
import { decode, WireError } from '../../wire';
import { spoken } from '../../words';
import css from './compare.css';
import { createEdits, createHead } from './head';
import { type Comparison, other, readComparison, type Side, SIDES } from './message';
import { createMoves, keyDialog, type Moves } from './moves';
import { onPointer } from './pointer';
import { type CompareState, type CompareStore, type Picked, samePick } from './state';
import { createTables } from './tables';
import { createTimes, type Times } from './times';
import { followed, limited, wholeOf } from './windows';

const STYLES = {
  colours,
  tokens,
  shell: shellStyle,
  header: headerStyle,
  panels: panelStyle,
  summary: summaryStyle,
  compare: css,
};
const PATIENCE_MS = 150;
/** Rows that come by themselves are shown together. */
const GATHER_MS = 300;
const TWICE_MS = 700;
const SUPPRESS = 'data-lm-suppress-shortcuts';

/** What a message is of. */
export type Part = 'comparison' | Side;

export interface ComparisonHost {
  /** Ask for rows of a run that is too large to be sent whole. */
  requestSteps(side: Side, first: number, count: number): void;
}

export interface ComparisonViewer {
  /** Take a message: the comparison, the opening one of a run, or rows. What cannot be read is said on the page. */
  accept(part: Part, bytes: ArrayBuffer | ArrayBufferView): void;
  progress(read: number, total: number): void;
  fail(error: unknown): void;
  /** The state, for tests and hosts; null while there is nothing. */
  readonly store: CompareStore | null;
  select(picked: Picked): void;
  dispose(): void;
}

export function mountComparison(root: HTMLElement, host: ComparisonHost | null = null): ComparisonViewer {
  return new Mounted(root, host);
}

class Mounted implements ComparisonViewer {
  store: CompareStore | null = null;
  private readonly runs: Partial<Record<Side, LoadedRun>> = {};
  private message: ArrayBuffer | ArrayBufferView | null = null;
  private readonly frame: HTMLElement;
  private readonly body = el('div', { class: 'nki-body' });
  private readonly live = createLive();
  private readonly keys = keyDialog();
  private readonly ends: (() => void)[] = [];
  private colours: Palette | null = null;
  private times: Times | null = null;
  private moves: Moves | null = null;
  private comparison: Comparison | null = null;
  private waiting: Skeleton | null = null;
  private patience = 0;
  private pending: ReturnType<typeof setTimeout> | undefined;
  private readonly asked = new Set<Side>();
  private escaped = -Infinity;

  constructor(
    private readonly root: HTMLElement,
    private readonly host: ComparisonHost | null,
  ) {
    this.frame = el(
      'section',
      { class: 'nki-visualizer nki-cmp', role: 'region', 'aria-label': 'Comparison', tabindex: -1 },
      this.body,
      this.live.element,
      this.keys,
    );
    for (const [name, sheet] of Object.entries(STYLES)) useStyle(name, sheet, root);
    root.classList.add('nki-root');
    root.append(this.frame);
    this.ends.push(watchTheme(root, () => this.themed()));
    const observer = new ResizeObserver(() => this.resized());
    observer.observe(root);
    this.ends.push(() => observer.disconnect());
    const suppress = (event: KeyboardEvent): void => this.suppress(event);
    window.addEventListener('keydown', suppress, true);
    this.ends.push(() => window.removeEventListener('keydown', suppress, true));
    this.frame.addEventListener('keydown', event => this.press(event));
    this.patience = window.setTimeout(() => this.showSkeleton(), PATIENCE_MS);
  }

  accept(part: Part, bytes: ArrayBuffer | ArrayBufferView): void {
    try {
      if (part === 'comparison') this.message = bytes;
      else this.take(part, bytes);
      if (this.times === null) this.open();
    } catch (error) {
      this.fail(error);
    }
  }

  private take(side: Side, bytes: ArrayBuffer | ArrayBufferView): void {
    const message = decode(bytes);
    const run = this.runs[side];
    if (message.has('buffers')) {
      if (run === undefined) this.runs[side] = createRun(message);
      return;
    }
    if (run === undefined) return;
    run.add(message);
    const wasAsked = this.asked.delete(side);
    const isWhole = run.rows.count === run.steps;
    clearTimeout(this.pending);
    if (wasAsked || isWhole) this.times?.redraw();
    else this.pending = setTimeout(() => this.times?.redraw(), GATHER_MS);
  }

  progress(read: number, total: number): void {
    if (this.times === null) this.waiting?.progress(read, total);
  }

  fail(error: unknown): void {
    clearTimeout(this.patience);
    this.close();
    replace(
      this.body,
      notice('error', 'This comparison cannot be shown', error instanceof WireError ? error.message : String(error)),
    );
  }

  select(picked: Picked): void {
    this.moves?.select(picked);
  }

  dispose(): void {
    clearTimeout(this.patience);
    clearTimeout(this.pending);
    this.close();
    for (const end of this.ends) end();
    this.live.dispose();
    this.frame.remove();
    this.root.classList.remove('nki-root');
  }

  private close(): void {
    this.times?.dispose();
    this.times = null;
    this.store = null;
  }

  /** When both runs and what belongs together are there. */
  private open(): void {
    const { before, after } = this.runs;
    if (this.message === null || before === undefined || after === undefined) return;
    clearTimeout(this.patience);
    const runs = { before, after };
    const comparison = readComparison(this.message, { before: before.steps, after: after.steps });
    this.comparison = comparison;
    const spans = { before: before.makespan, after: after.makespan };
    const listeners: ((state: CompareState, last: CompareState) => void)[] = [];
    const store = createStore(comparison, spans, (state, last) => {
      for (const listener of listeners) listener(state, last);
    });
    const times = createTimes({ comparison, runs, store, palette: () => this.palette() });
    const openKeys = (): void => this.keys.showModal();
    const moves = createMoves({
      comparison,
      runs,
      store,
      aligned: () => times.aligned(),
      lineOf: picked => times.lineOf(picked),
      openKeys,
    });
    const head = createHead(comparison, runs, store, openKeys);
    const edits = createEdits(comparison.header);
    const tables = createTables(comparison.header, store);
    listeners.push((state, last) => {
      head.draw(state);
      tables.draw(state);
      edits.hidden = !state.edits;
      times.draw();
      this.look();
      if (!samePick(state.selected, last.selected)) this.speak(state.selected);
    });
    this.ends.push(onPointer(times, moves, store));
    [this.store, this.times, this.moves] = [store, times, moves];
    this.frame.setAttribute('aria-label', `Comparison of ${before.kernel || 'kernel'} and ${after.kernel || 'kernel'}`);
    replace(this.body, head.element, edits, times.element, legend(comparison), tables.element);
    head.draw(store.state);
    tables.draw(store.state);
    this.layout();
    times.redraw();
  }

  private speak(picked: Picked | null): void {
    if (picked === null || this.comparison === null) return;
    const told = ({ side, step }: Picked): string => {
      const run = this.runs[side];
      return run === undefined ? '' : `${side === 'before' ? 'A' : 'B'}: ${spoken(run, step)}`;
    };
    const step = this.comparison.partner(picked.side, picked.step);
    const mate = { side: other(picked.side), step };
    this.live.speak(`${told(picked)}; ${step < 0 ? 'the other run does not have it' : told(mate)}`);
  }

  /** Ask for the rows of large runs that are shown and not there. */
  private look(): void {
    const { store, times, host } = this;
    if (host === null || store === null || times === null) return;
    for (const side of SIDES) {
      const run = this.runs[side];
      if (run === undefined || this.asked.has(side)) continue;
      const { window, selected } = store.state;
      const shown = side === 'before' ? window : followed(window, times.aligned());
      const step =
        selected === null
          ? -1
          : selected.side === side
            ? selected.step
            : (this.comparison?.partner(selected.side, selected.step) ?? -1);
      const wanted = missing(run, { window: shown, step });
      if (wanted === null) continue;
      this.asked.add(side);
      host.requestSteps(side, wanted.first, wanted.count);
    }
  }

  private palette(): Palette {
    if (this.colours) return this.colours;
    const found = palette(this.root);
    if (this.root.isConnected) this.colours = found;
    return found;
  }

  private themed(): void {
    this.colours = null;
    this.times?.redraw();
  }

  private resized(): void {
    if (!this.root.isConnected) this.colours = null;
    if (!this.root.clientWidth) return;
    for (const [name, sheet] of Object.entries(STYLES)) useStyle(name, sheet, this.root);
    this.layout();
    if (this.colours === null) this.times?.redraw();
  }

  private layout(): void {
    const width = this.root.clientWidth || 1200;
    this.frame.dataset.layout = width < 760 ? 'narrow' : width < 1000 ? 'medium' : 'wide';
  }

  private showSkeleton(): void {
    this.waiting = skeleton();
    replace(this.body, this.waiting.element);
  }

  /** Before JupyterLab's own listener: plain keys are kept from it. */
  private suppress(event: KeyboardEvent): void {
    if (!this.frame.contains(event.target as Node)) return;
    if (isPlain(event)) this.frame.setAttribute(SUPPRESS, 'true');
    else this.frame.removeAttribute(SUPPRESS);
  }

  private press(event: KeyboardEvent): void {
    if (!isPlain(event)) return;
    event.stopPropagation();
    if (event.defaultPrevented || this.moves === null) return;
    const target = event.target as Element;
    if (event.key === 'Escape') {
      event.preventDefault();
      const again = event.timeStamp - this.escaped < TWICE_MS;
      this.escaped = event.timeStamp;
      if (this.keys.open) this.keys.close();
      else if (again || !this.moves.back()) this.leave();
      return;
    }
    if (target.closest('dialog')) return;
    if (target.matches('button') && /^(Enter| )$/.test(event.key)) return;
    if (this.moves.press(event.key)) event.preventDefault();
  }

  private leave(): void {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.root.closest<HTMLElement>('.jp-Cell')?.focus();
  }
}

function isPlain(event: KeyboardEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing;
}

function createStore(
  comparison: Comparison,
  spans: Readonly<Record<Side, number>>,
  listen: (state: CompareState, last: CompareState) => void,
): CompareStore {
  const whole = wholeOf(spans, 'same');
  let state: CompareState = {
    window: limited(whole, whole),
    alignment: comparison.iterations.length > 0 ? 'iteration' : 'start',
    scaling: 'same',
    selected: null,
    hover: null,
    line: -1,
    table: 'path',
    edits: false,
  };
  return {
    get state() {
      return state;
    },
    set(change) {
      const last = state;
      state = { ...state, ...change };
      if (change.scaling !== undefined && change.scaling !== last.scaling)
        state = { ...state, window: limited(state.window, wholeOf(spans, state.scaling)) };
      listen(state, last);
    },
  };
}

function legend({ header }: Comparison): HTMLElement {
  const item = (look: string, text: string): HTMLElement =>
    el('span', { class: 'nki-cmp-key' }, el('i', { class: look }), text);
  const counts =
    header.same_kernel && header.only_before + header.only_after > 0
      ? `${format.count(header.paired)} in both, ${format.count(header.only_before)} only in A, ${format.count(header.only_after)} only in B`
      : header.same_kernel
        ? `${format.plural(header.paired, 'instruction')} in both`
        : '';
  return el(
    'div',
    { class: 'nki-cmp-legend' },
    item('nki-cmp-key-work', 'working'),
    item('nki-cmp-key-wait', 'waiting, in the colour of what it waits for'),
    item('nki-cmp-key-critical', 'on the critical path'),
    header.only_before + header.only_after > 0 && header.same_kernel && item('nki-cmp-key-alone', 'only in this run'),
    el('span', { class: 'nki-spacer' }),
    counts,
  );
}
