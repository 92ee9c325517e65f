/** The panel NKI: the last run of a notebook, or one that is pinned, in a place of its own. */
import { MIME } from '../_generated/schema';
import { el, replace, setAttribute, setText } from '../dom';
import { icon } from '../icons';
import type { Place } from '../place/place';
import { SavedOutput } from '../saved/output';
import { pictureOf } from '../saved/runs';
import type { Lumino, LuminoModule, Renderer } from './jupyter';
import { createRunList } from './list';
import { WIDGET, type NotebookRuns, type SessionRun } from './runs';

/** The run that a panel stays with: a cell, and a number among the runs that it shows. */
export interface Pin {
  readonly cell: string;
  readonly at: number;
}

export interface PanelOptions {
  readonly pin: Pin | null;
  readonly place: Place | null;
  /** Something that is to be restored is other than before. */
  readonly changed: () => void;
}

export class RunPanel {
  readonly node = el('div', { class: 'nki-panel-content nki-root' });
  private readonly host = el('div', { class: 'nki-panel-host nki-fills-parent' });
  private readonly list = createRunList(run => this.choose(run));
  private readonly title = el('span', { class: 'nki-ellipsis' });
  private readonly pinButton: HTMLButtonElement;
  private readonly listButton: HTMLButtonElement;
  private runs: NotebookRuns | null = null;
  private end: () => void = () => undefined;
  private shown: SessionRun | null = null;
  private pinned: Pin | null;
  private place: Place | null;
  private output: SavedOutput | null = null;
  private renderer: Renderer | null = null;

  constructor(
    private readonly lumino: LuminoModule,
    private readonly options: PanelOptions,
  ) {
    this.pinned = options.pin;
    this.place = options.place;
    const button = (name: 'pin' | 'list', label: string, click: () => void): HTMLButtonElement =>
      el(
        'button',
        { type: 'button', class: 'nki-panel-button', title: label, 'aria-pressed': 'false', on: { click } },
        icon(name, 14),
        el('span', {}),
      );
    this.pinButton = button('pin', '', () => this.togglePin());
    this.listButton = button('list', 'List the runs of the session', () => this.toggleList());
    const bar = el(
      'div',
      { class: 'nki-panel-bar', role: 'toolbar', 'aria-label': 'Panel' },
      this.pinButton,
      this.title,
      el('span', { class: 'nki-spacer' }),
      this.listButton,
    );
    this.list.element.hidden = true;
    this.node.append(bar, el('div', { class: 'nki-panel-body' }, this.list.element, this.host));
    this.mark();
  }

  get pin(): Pin | null {
    return this.pinned;
  }

  get cell(): string {
    return this.shown?.cell ?? '';
  }

  /** Where the user is in the run that is shown. */
  currentPlace(): Place | null {
    return this.output?.place() ?? this.place;
  }

  /** Show runs of a notebook from now on; null: it is closed, what is shown stays. */
  attach(runs: NotebookRuns | null): void {
    this.end();
    this.runs = runs;
    this.end = runs?.listen(() => this.follow()) ?? ((): void => undefined);
    if (runs !== null) this.follow();
  }

  /** Show a run, and stay with it if it is not the last; at a place if one is given. */
  choose(run: SessionRun, place: Place | null = null): void {
    const { runs } = this;
    if (runs === null) return;
    this.place = place;
    this.pinned = run === runs.latest ? null : pinOf(runs, run);
    this.show(run);
    this.options.changed();
  }

  dispose(): void {
    this.end();
    this.clear();
  }

  private togglePin(): void {
    if (this.runs === null || this.shown === null) return;
    this.pinned = this.pinned === null ? pinOf(this.runs, this.shown) : null;
    this.follow();
    this.options.changed();
  }

  private toggleList(): void {
    this.list.element.hidden = !this.list.element.hidden;
    this.mark();
  }

  /** Show what is to be shown now. */
  private follow(): void {
    const { runs, pinned } = this;
    if (runs === null) return;
    const wanted = pinned === null ? runs.latest : (runs.ofCell(pinned.cell)[pinned.at] ?? this.shown);
    if (wanted !== null && wanted !== this.shown) this.show(wanted);
    else this.mark();
  }

  private show(run: SessionRun): void {
    const last = this.shown;
    this.clear();
    this.shown = run;
    const place = this.place ?? undefined;
    this.place = null;
    if (run.isShown || MIME in run.bundle) this.draw(run, place, last);
    else this.drawPicture(run);
    this.mark();
  }

  private draw(run: SessionRun, place: Place | undefined, last: SessionRun | null): void {
    const { bundle, index } = run;
    if (MIME in bundle) {
      const isOfOutput = last !== null && last.cell === run.cell && run === this.runs?.latest;
      const chosen = (at: number): void => this.moved(bundle, at);
      // After a run again the tab that was looked at is in front, as in the cell.
      const options = { fills: true, chosen, ...(place && { place }), ...(!isOfOutput && { index }) };
      this.output = new SavedOutput(bundle, options);
      replace(this.host, this.output.node);
      void this.output.open();
      return;
    }
    const renderer = this.runs?.notebook.content.rendermime.createRenderer(WIDGET);
    if (renderer === undefined) return;
    this.renderer = renderer;
    this.lumino.Widget.attach(renderer, this.host);
    void renderer
      .renderModel({ data: bundle, metadata: {}, trusted: true, setData: () => undefined })
      .catch(() => undefined); // it went before it was drawn
  }

  /** The old ones have nothing else. */
  private drawPicture({ bundle }: SessionRun): void {
    const picture = pictureOf(bundle);
    replace(
      this.host,
      el(
        'figure',
        { class: 'nki-panel-picture' },
        el('figcaption', {}, 'Of this run the picture is kept. Run the cell again to step through it.'),
        picture !== '' && el('img', { src: picture, alt: 'Timeline of the run' }),
      ),
    );
  }

  /** Another tab of the same output was chosen. */
  private moved(bundle: SessionRun['bundle'], index: number): void {
    const run = this.runs?.runs.find(one => one.bundle === bundle && one.index === index);
    if (run === undefined || run === this.shown) return;
    this.shown = run;
    if (this.pinned !== null && this.runs !== null) this.pinned = pinOf(this.runs, run);
    this.mark();
    this.options.changed();
  }

  private clear(): void {
    this.output?.dispose();
    this.output = null;
    if (this.renderer !== null) {
      if (this.renderer.isAttached) this.lumino.Widget.detach(this.renderer);
      this.renderer.dispose();
      this.renderer = null;
    }
    replace(this.host);
  }

  private mark(): void {
    const { shown, pinned, runs } = this;
    const isPinned = pinned !== null;
    setAttribute(this.pinButton, 'aria-pressed', String(isPinned));
    this.pinButton.disabled = shown === null;
    this.pinButton.title = isPinned
      ? 'Pinned: a click follows the last run of the notebook again'
      : 'Follows the last run of the notebook: a click stays with this one';
    setText(this.pinButton.querySelector('span')!, isPinned ? 'Pinned' : 'Last run');
    const where = [shown?.prompt && `cell ${shown.prompt}`, runs?.notebook.title.label].filter(Boolean).join(' · ');
    const gone = shown !== null && !shown.isShown ? ' · an earlier run' : '';
    setText(this.title, `${where}${gone}`);
    const count = runs?.runs.length ?? 0;
    setText(this.listButton.querySelector('span')!, count === 1 ? '1 run' : `${count} runs`);
    setAttribute(this.listButton, 'aria-pressed', String(!this.list.element.hidden));
    if (!this.list.element.hidden) this.list.draw(runs, shown);
    if (shown === null && this.host.childElementCount === 0)
      replace(this.host, el('p', { class: 'nki-quiet nki-pad' }, 'Run a cell with a kernel: its run is drawn here.'));
  }
}

function pinOf(runs: NotebookRuns, run: SessionRun): Pin {
  return { cell: run.cell, at: Math.max(0, runs.ofCell(run.cell).indexOf(run)) };
}

/** The Lumino widget around a panel. */
export function widgetOf(lumino: LuminoModule, panel: RunPanel, id: string): Lumino {
  class NkiPanel extends lumino.Widget {
    /** Lumino takes what is closed out of the page and leaves it alive. */
    override onCloseRequest(message: unknown): void {
      super.onCloseRequest(message);
      this.dispose();
    }

    override dispose(): void {
      if (!this.isDisposed) panel.dispose();
      super.dispose();
    }
  }
  const widget = new NkiPanel();
  widget.id = id;
  Object.assign(widget.title, { label: 'NKI', closable: true, iconClass: 'nki-lab-icon jp-Icon' });
  widget.addClass('nki-lab-panel');
  widget.node.append(panel.node);
  return widget;
}
