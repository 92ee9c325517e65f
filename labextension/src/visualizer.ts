/** The visualizer: one run in one element. */
import colours from './_generated/colours.css';
import { el, replace } from './dom';
import type { Explorer } from './explore';
import { createExplorer, everything, layoutOf } from './explore';
import { DOCK, DRAWN, editedSources, hasPanels, hearCells, tellHost } from './host';
import { bindKeys, keyList } from './keys';
import { tellLines } from './line_event';
import layoutStyle from './layout/layout.css';
import { createFitting } from './layout/fitting';
import { rememberedFolds } from './layout/parts';
import { createScreen } from './layout/screen';
import { createLive } from './live';
import type { ChartsHost } from './charts';
import { createKeeping, type Keeping } from './place/keeping';
import { placeOf, type Place } from './place/place';
import type { Action, Skeleton } from './states';
import { notice, skeleton } from './states';
import type { OwnedStore } from './store';
import { createStore, whole } from './store';
import { useStyle } from './styles';
import headerStyle from './header.css';
import panelStyle from './panels.css';
import runningStyle from './running.css';
import shellStyle from './shell.css';
import summaryStyle from './summary.css';
import tableStyle from './table.css';
import tokens from './tokens.css';
import { palette, watchTheme } from './tokens';
import type { Context, Palette, Run, Span, Store, ValuesHost } from './types';
import { spoken } from './words';

const STYLES = {
  colours,
  tokens,
  shell: shellStyle,
  header: headerStyle,
  panels: panelStyle,
  running: runningStyle,
  table: tableStyle,
  summary: summaryStyle,
  layout: layoutStyle,
};

/** How long a recording may take to open before a skeleton stands for it. */
const PATIENCE_MS = 150;
const RUNNING = 'The timeline follows as soon as its times are known.';

/** What changes how much room the views have. */
const FITTED = ['layout', 'folded', 'away', 'full', 'low', 'tab', 'panel', 'expanded', 'showCritical'] as const;

export interface VisualizerOptions {
  /** Where the focus goes when Escape is pressed twice; else the notebook cell around the visualizer. */
  readonly leave?: () => void;
  /** Where the values of tiles come from. */
  readonly values?: ValuesHost;
  /** Where the charts of the summary come from. */
  readonly charts?: ChartsHost;
  /** Whether it opens where its predecessor in the same cell was left, or at a place that is given. */
  readonly place?: Place | 'kept';
  /** Its number among those that take turns in the element. */
  readonly spot?: number;
  /** What stands above everything. */
  readonly above?: HTMLElement;
  /** Whether it fills its element, which has a height of its own. */
  readonly fills?: boolean;
}

export interface Visualizer {
  /** Null while there is no run. */
  readonly store: Store | null;
  /** Show a run. The present one, if it got more or other rows, keeps its state. */
  setRun(run: Run): void;
  /** How much of a recording has been read, in bytes; `total` 0: unknown. */
  setProgress(read: number, total: number): void;
  /** Show an error in place of everything. */
  setError(title: string, text: string): void;
  /** Say something above the views, such as that the kernel is gone; '' takes it away. */
  setNotice(title: string, text?: string, actions?: readonly Action[]): void;
  /** Where its user is; null without a run. */
  place(): Place | null;
  /** Show above the views that the run is not over; Escape calls `cancel` where it has nothing else to do. */
  setRunning(bar: HTMLElement, cancel: () => void): void;
  /** Show this for as long as there is no run. */
  setGrowing(element: HTMLElement): void;
  /** Tell up to which picosecond what is drawn is done; null: no part of it is told from the others. */
  setDoneUntil(time: number | null): void;
  dispose(): void;
}

/** Show a run in `root`, or that it is being opened where it is null. */
export function mount(root: HTMLElement, run: Run | null, options: VisualizerOptions = {}): Visualizer {
  return new Mounted(root, run, options);
}

class Mounted implements Visualizer {
  private run: Run | null = null;
  private owned: OwnedStore | null = null;
  private explorer: Explorer | null = null;
  private waiting: Skeleton | null = null;
  private colours: Palette | null = null;
  private readonly frame: HTMLElement;
  private readonly body = el('div', { class: 'nki-body' });
  private readonly note = el('div', { class: 'nki-note', hidden: true });
  private readonly running = el('div', { hidden: true });
  private cancel: (() => void) | null = null;
  private growing: HTMLElement | null = null;
  private doneUntil: number | null = null;
  private readonly live = createLive();
  private readonly keys = keyList();
  private readonly ends: (() => void)[] = [];
  private endRun: (() => void)[] = [];
  private patience = 0;
  /** The width for which the views were drawn last. */
  private width = -1;
  /** What the timeline showed before it was drawn for paper. */
  private unprinted: Span | null = null;
  private readonly fitting;
  private readonly screen;
  private readonly keeping: Keeping | null;
  /** The texts of the notebook's cells; null where nobody told them. */
  private cells: readonly string[] | null = null;

  constructor(
    private readonly root: HTMLElement,
    run: Run | null,
    private readonly options: VisualizerOptions,
  ) {
    this.style();
    this.frame = el(
      'section',
      { class: 'nki-visualizer', role: 'region', 'aria-label': 'Run', tabindex: -1 },
      ...(options.above ? [options.above] : []),
      this.running,
      this.note,
      this.body,
      this.live.element,
      this.keys,
    );
    root.classList.add('nki-root');
    root.append(this.frame);
    this.ends.push(watchTheme(root, theme => this.themed(theme)));
    const observer = new ResizeObserver(() => this.resized());
    observer.observe(root);
    this.ends.push(whenPrinted(printing => this.printed(printing)));
    this.ends.push(() => observer.disconnect());
    this.keeping = options.place
      ? createKeeping(root, options.place === 'kept' ? null : options.place, options.spot ?? 0)
      : null;
    this.fitting = createFitting(root, this.frame, {
      fills: () => this.isFilling() || this.owned?.state.full === true,
      lower: low => this.owned?.set({ low }),
    });
    this.screen = createScreen(root, () => this.owned?.set({ full: false }));
    this.ends.push(
      () => this.fitting.dispose(),
      () => this.screen.dispose(),
      hearCells(root, cells => {
        this.cells = cells;
        this.tellEdits();
      }),
    );
    if (run) this.setRun(run);
    else this.patience = window.setTimeout(() => this.showSkeleton(), PATIENCE_MS);
  }

  get store(): Store | null {
    return this.owned;
  }

  setRun(run: Run): void {
    if (run === this.run && this.owned && this.explorer) {
      this.explorer.reload();
      this.owned.adopt(run, true);
      this.keeping?.look(run, this.owned);
      return;
    }
    this.clear();
    this.run = run;
    const store = createStore(run);
    store.set({
      theme: this.palette().theme,
      layout: this.layout(),
      away: rememberedFolds(),
      ...(this.cancel !== null && { doneUntil: this.doneUntil }),
    });
    this.frame.dataset.layout = store.state.layout;
    this.frame.setAttribute('aria-label', `Run of ${run.kernel || 'kernel'}`);
    const speak = (text: string): void => this.live.speak(text);
    const { values, charts } = this.options;
    const dock =
      hasPanels() && !this.isFilling()
        ? (): void => {
            store.set({ full: false });
            tellHost(this.root, DOCK, this.place());
          }
        : null;
    const context: Context = { run, store, palette: () => this.palette(), speak, values, charts, dock };
    const explorer = createExplorer(context, () => this.keys.showModal());
    this.owned = store;
    this.explorer = explorer;
    this.keeping?.look(run, store);
    replace(this.body, ...explorer.elements);
    explorer.draw(store.state, everything(store.state));
    this.fitting.fit();
    tellHost(this.root, DRAWN);
    this.tellEdits();
    this.width = this.root.clientWidth;
    this.endRun.push(
      store.listen((state, changes) => {
        const focused = this.frame.contains(document.activeElement);
        this.frame.dataset.layout = state.layout;
        if (changes.has('full')) this.screen.fill(state.full);
        explorer.draw(state, changes);
        if (FITTED.some(name => changes.has(name))) this.fitting.fit();
        // What had the focus may have been replaced; the keys are to go on working.
        if (focused && !this.hasFocus()) this.frame.focus({ preventScroll: true });
        if (focused && changes.has('step') && !state.playing && state.step >= 0) speak(spoken(run, state.step));
      }),
      tellLines(this.frame, run, store),
      bindKeys({
        root: this.frame,
        commands: explorer.commands,
        stepBack: () => this.stepBack(),
        leave: () => this.leave(),
      }),
    );
  }

  setProgress(read: number, total: number): void {
    if (this.run || this.growing) return;
    if (!this.waiting && !this.patience) this.showSkeleton();
    this.waiting?.progress(read, total);
  }

  setError(title: string, text: string): void {
    this.clear();
    replace(this.body, notice('error', title, text));
  }

  setNotice(title: string, text = '', actions: readonly Action[] = []): void {
    this.note.hidden = title === '';
    replace(this.note, title === '' ? null : notice('information', title, text, actions));
  }

  place(): Place | null {
    return this.run && this.owned ? placeOf(this.run, this.owned.state) : null;
  }

  setRunning(bar: HTMLElement, cancel: () => void): void {
    this.cancel = cancel;
    this.running.hidden = false;
    this.frame.dataset.running = '';
    replace(this.running, bar);
    if (!this.run) this.showSkeleton();
  }

  setGrowing(element: HTMLElement): void {
    if (this.growing === element) return;
    this.growing = element;
    if (!this.run) this.showSkeleton();
  }

  setDoneUntil(time: number | null): void {
    this.doneUntil = time;
    this.owned?.set({ doneUntil: time });
  }

  dispose(): void {
    this.clear();
    for (const end of this.ends) end();
    this.live.dispose();
    this.frame.remove();
    this.root.classList.remove('nki-root', 'nki-fills');
  }

  private clear(): void {
    clearTimeout(this.patience);
    this.patience = 0;
    this.waiting = null;
    if (this.run && this.owned) this.keeping?.leave(this.run, this.owned);
    for (const end of this.endRun) end();
    this.endRun = [];
    this.explorer?.dispose();
    this.owned?.dispose();
    this.explorer = null;
    this.owned = null;
    this.run = null;
    this.unprinted = null;
    replace(this.body);
  }

  private showSkeleton(): void {
    clearTimeout(this.patience);
    this.patience = 0;
    if (this.growing) {
      this.waiting = null;
      replace(this.body, this.growing);
      return;
    }
    this.waiting = skeleton(this.cancel === null ? 'Opening recording' : RUNNING);
    replace(this.body, this.waiting.element);
  }

  private style(): void {
    for (const [name, css] of Object.entries(STYLES)) useStyle(name, css, this.root);
  }

  /** The colours of the page. An element that is in no page has none: what it gives is not kept. */
  private palette(): Palette {
    if (this.colours) return this.colours;
    const found = palette(this.root);
    if (this.root.isConnected) this.colours = found;
    return found;
  }

  private themed(theme: 'light' | 'dark'): void {
    this.colours = null;
    this.owned?.set({ theme });
  }

  private layout(): ReturnType<typeof layoutOf> {
    // Before it is laid out, an element has no width: most pages are wide.
    return layoutOf(this.root.clientWidth || 1200);
  }

  private resized(): void {
    // JupyterLab fills outputs before it attaches them, and detaches those that are scrolled out of sight. Without a
    // page there are no style sheets, and the next page may have others: then everything is drawn again.
    if (!this.root.isConnected) this.colours = null;
    if (!this.root.clientWidth) this.width = -1;
    if (!this.owned || !this.explorer || !this.root.clientWidth) return;
    const isRestyled = this.colours === null;
    const width = this.root.clientWidth;
    if (!isRestyled && width === this.width) return;
    this.width = width;
    if (isRestyled) {
      this.style();
      this.arrived();
    }
    const layout = this.layout();
    const isSame = layout === this.owned.state.layout;
    this.owned.set({ layout, theme: this.palette().theme });
    const { state } = this.owned;
    if (isRestyled) this.explorer.draw(state, everything(state));
    else if (isSame) this.explorer.draw(state, new Set<'layout'>(['layout']));
  }

  /** Whether it fills its element. What draws widgets makes their elements before they are anywhere. */
  private isFilling(): boolean {
    const fills = this.options.fills ?? this.root.closest('.nki-lab-panel') !== null;
    this.root.classList.toggle('nki-fills', fills);
    return fills;
  }

  /** It got into a page, which may know more of it. */
  private arrived(): void {
    if (this.run && this.owned) this.keeping?.look(this.run, this.owned);
    tellHost(this.root, DRAWN);
  }

  private tellEdits(): void {
    if (this.cells === null || !this.run || !this.owned) return;
    const edited = editedSources(this.run, this.cells);
    const { edited: known } = this.owned.state;
    if (edited.size !== known.size || [...edited].some(source => !known.has(source))) this.owned.set({ edited });
  }

  /**
   * Paper is not as wide as the window, and nobody can zoom on it: the whole run is drawn for it, at once, and then for
   * the window again what was there.
   */
  private printed(printing: boolean): void {
    if (printing) this.root.dataset.nkiPrint = '';
    else delete this.root.dataset.nkiPrint;
    if (!this.run || !this.owned || !this.explorer || !this.root.clientWidth) return;
    if (printing) this.unprinted ??= this.owned.state.window;
    const window = printing ? whole(this.run) : this.unprinted;
    if (!printing) this.unprinted = null;
    this.owned.set({ layout: this.layout(), ...(window && { window }) });
    const { state } = this.owned;
    this.frame.dataset.layout = state.layout;
    this.explorer.draw(state, everything(state));
  }

  /** One step back from what is open or selected. */
  private stepBack(): boolean {
    const store = this.owned;
    if (this.keys.open) {
      this.keys.close();
      return true;
    }
    if (!store) return this.stop();
    const { hover, selected, tile, area, query, searching, full } = store.state;
    if (hover.step >= 0 || hover.tile >= 0) store.set({ hover: { step: -1, tile: -1 } });
    else if (selected >= 0 || tile >= 0) store.set({ selected: -1, tile: -1 });
    else if (area) store.set({ area: null });
    else if (searching || query !== '') store.set({ searching: false, query: '' });
    else if (full) store.set({ full: false });
    else return this.stop();
    return true;
  }

  /** Stop a run that is not over; false if there is none. */
  private stop(): boolean {
    this.cancel?.();
    return this.cancel !== null;
  }

  /** Whether the focus is on something in sight: browsers take it from what was hidden only later. */
  private hasFocus(): boolean {
    const active = document.activeElement;
    return active !== null && this.frame.contains(active) && active.closest('[hidden]') === null;
  }

  private leave(): void {
    if (this.options.leave) {
      this.options.leave();
      return;
    }
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.root.closest<HTMLElement>('.jp-Cell')?.focus();
  }
}

/** Calls back before and after the page is printed. Returns what ends it. */
function whenPrinted(callback: (printing: boolean) => void): () => void {
  const before = (): void => callback(true);
  const after = (): void => callback(false);
  window.addEventListener('beforeprint', before);
  window.addEventListener('afterprint', after);
  return () => {
    window.removeEventListener('beforeprint', before);
    window.removeEventListener('afterprint', after);
  };
}
