/** Panels of runs in JupyterLab: the command that opens them, what they follow, and that they come back with the page. */
import { useStyle } from '../styles';
import { CELLS, DOCK, DRAWN, offerPanels } from '../host';
import type { Commands, Palette } from '../lab/commands';
import type { Place } from '../place/place';
import { isPlace, storable } from '../place/stored';
import colours from '../_generated/colours.css';
import tokens from '../tokens.css';
import shell from '../shell.css';
import header from '../header.css';
import { watchTheme } from '../tokens';
import type { Lumino, LuminoModule, NotebookPanel, Notebooks, Restorer, Shell, WidgetTracker } from './jupyter';
import { RunPanel, widgetOf, type Pin } from './panel';
import style from './panel.css';
import { NotebookRuns, type SessionRun } from './runs';

const COMMAND = 'nki-lab:panel';
const NAMESPACE = 'nki-lab-panel';
/** A panel tells JupyterLab where its user is, when he rests. */
const SAVE_MS = 1000;
const SIDES: Readonly<Record<string, string>> = { right: 'split-right', below: 'split-bottom', tab: 'tab-after' };

/** What a panel is restored from. */
interface Given {
  readonly path?: unknown;
  readonly pin?: unknown;
  readonly place?: unknown;
  readonly id?: unknown;
}

export interface PanelServices {
  readonly app: { readonly commands: Commands; readonly shell: Shell };
  readonly notebooks: Notebooks;
  readonly palette: Palette | null;
  readonly restorer: Restorer | null;
  readonly settings: () => Readonly<Record<string, unknown>>;
  readonly lumino: LuminoModule;
  readonly Tracker: (new (options: object) => WidgetTracker<Lumino>) | undefined;
}

interface Open {
  readonly id: string;
  readonly panel: RunPanel;
  readonly widget: Lumino;
  path: string;
}

export function addPanels(services: PanelServices): void {
  new Panels(services).start();
}

class Panels {
  private readonly open = new Map<Lumino, Open>();
  private readonly runs = new Map<NotebookPanel, NotebookRuns>();
  private readonly tracker: WidgetTracker<Lumino> | null;
  private count = 0;
  private saving: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly services: PanelServices) {
    const { Tracker } = services;
    this.tracker = Tracker === undefined ? null : new Tracker({ namespace: NAMESPACE });
  }

  start(): void {
    const { app, notebooks, palette, restorer } = this.services;
    for (const [name, css] of Object.entries({ colours, tokens, shell, header, 'run-panel': style }))
      useStyle(name, css);
    offerPanels();
    app.commands.addCommand(COMMAND, {
      label: 'Open the Panel',
      caption: 'Draw the last run of the notebook in a panel of its own',
      iconClass: 'nki-lab-icon',
      isEnabled: () => notebooks.currentWidget !== null,
      execute: (given: Given) => this.execute(given),
    });
    palette?.addItem({ command: COMMAND, category: 'NKI' });
    const add = (notebook: NotebookPanel): void => void this.add(notebook);
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, notebook) => add(notebook));
    document.addEventListener(DOCK, event => this.dock(event as CustomEvent<Place | null>));
    document.addEventListener(DRAWN, event => this.tellCells(event.target as HTMLElement));
    window.addEventListener('pagehide', () => this.save());
    if (restorer !== null && this.tracker !== null)
      void restorer.restore(this.tracker, {
        command: COMMAND,
        args: (widget: Lumino) => this.argumentsOf(widget),
        name: (widget: Lumino) => widget.id,
      });
  }

  /** Open a panel for the current notebook, or that of the arguments; one that follows it already comes to the front. */
  private execute({ path, pin, place, id }: Given): void {
    const { notebooks } = this.services;
    const isRestored = typeof path === 'string';
    const file = isRestored ? path : notebooks.currentWidget?.context.path;
    if (file === undefined) return;
    const following = [...this.open.values()].find(one => one.path === file && one.panel.pin === null);
    if (!isRestored && following !== undefined) {
      this.services.app.shell.activateById(following.id);
      return;
    }
    const made = this.make(
      file,
      isPin(pin) ? pin : null,
      isPlace(place) ? place : null,
      typeof id === 'string' ? id : '',
    );
    if (!isRestored) this.services.app.shell.activateById(made.id);
  }

  private make(path: string, pin: Pin | null, place: Place | null, id: string): Open {
    const { app, lumino, settings } = this.services;
    this.count += 1;
    const name =
      id !== '' && ![...this.open.values()].some(one => one.id === id) ? id : `nki-panel-${Date.now()}-${this.count}`;
    const panel = new RunPanel(lumino, { pin, place, changed: () => this.saveSoon() });
    const widget = widgetOf(lumino, panel, name);
    widget.title.caption = path;
    const made = { id: name, panel, widget, path };
    this.open.set(widget, made);
    const ends = [watchTheme(panel.node, () => undefined)];
    for (const event of ['pointerup', 'keyup']) panel.node.addEventListener(event, () => this.saveSoon());
    whenDisposed(widget, () => {
      this.open.delete(widget);
      for (const end of ends) end();
    });
    const notebook = this.notebookOf(path);
    const chosen = settings()['panel.side'];
    const side = SIDES[typeof chosen === 'string' ? chosen : 'right'] ?? SIDES.right;
    app.shell.add(
      widget,
      'main',
      notebook === null ? { activate: false } : { mode: side, ref: notebook.id, activate: false },
    );
    void this.tracker?.add(widget);
    if (notebook !== null) panel.attach(this.runs.get(notebook) ?? null);
    return made;
  }

  private async add(notebook: NotebookPanel): Promise<void> {
    await notebook.context.ready;
    if (notebook.isDisposed === true) return;
    const runs = new NotebookRuns(notebook, () => this.tellEdits(notebook));
    this.runs.set(notebook, runs);
    runs.listen(() => this.opened(notebook, runs));
    for (const one of this.of(notebook)) one.panel.attach(runs);
    notebook.context.pathChanged.connect((_, path) => {
      for (const one of this.open.values())
        if (this.runs.get(notebook) === runs && one.path === before) one.path = path;
      before = path;
      this.saveSoon();
    });
    let before = notebook.context.path;
    notebook.disposed.connect(() => {
      for (const one of this.of(notebook)) one.panel.attach(null);
      this.runs.delete(notebook);
      runs.dispose();
    });
    this.tellEdits(notebook);
  }

  /** A kernel ran: where the user wants that, its panel opens by itself. */
  private opened(notebook: NotebookPanel, runs: NotebookRuns): void {
    const wants = this.services.settings()['panel.opens'] === true;
    if (wants && runs.latest?.prompt === '' && this.of(notebook).length === 0)
      this.make(notebook.context.path, null, null, '');
  }

  private dock(event: CustomEvent<Place | null>): void {
    const from = event.target as HTMLElement;
    const found = this.find(from);
    if (found === null) return;
    const { runs, run } = found;
    const { path } = runs.notebook.context;
    const one =
      [...this.open.values()].find(({ path: of, panel }) => of === path && panel.pin === null) ??
      this.make(path, null, null, '');
    one.panel.choose(run, event.detail);
    this.services.app.shell.activateById(one.id);
  }

  /** The run that a visualizer in a notebook draws. */
  private find(from: HTMLElement): { runs: NotebookRuns; run: SessionRun } | null {
    for (const [notebook, runs] of this.runs) {
      if (!notebook.node.contains(from)) continue;
      const cell = notebook.content.widgets.find(({ node }) => node.contains(from));
      const id = cell?.model.id ?? '';
      const shown = runs.ofCell(id);
      const outputs = [...(cell?.node.querySelectorAll('.nki-saved, .nki-root:not(.nki-saved .nki-root)') ?? [])];
      const output = outputs.findIndex(node => node.contains(from));
      const tabs = [...(outputs[output]?.querySelectorAll('.nki-run-tab') ?? [])];
      const tab = Math.max(
        0,
        tabs.findIndex(one => one.getAttribute('aria-selected') === 'true'),
      );
      const bundles = [...new Set(shown.map(run => run.bundle))];
      const run = shown.find(one => one.bundle === bundles[output] && one.index === tab) ?? shown.at(-1);
      if (run !== undefined) return { runs, run };
    }
    return null;
  }

  private notebookOf(path: string): NotebookPanel | null {
    return [...this.runs.keys()].find(notebook => notebook.context.path === path) ?? null;
  }

  private of(notebook: NotebookPanel): readonly Open[] {
    return [...this.open.values()].filter(one => one.path === notebook.context.path);
  }

  /** Tell the visualizers of a notebook what its cells are now. */
  private tellEdits(notebook: NotebookPanel): void {
    const roots = [notebook.node, ...this.of(notebook).map(one => one.widget.node)];
    for (const root of roots)
      for (const drawn of root.querySelectorAll<HTMLElement>('.nki-root')) this.tellCells(drawn);
  }

  private tellCells(drawn: HTMLElement): void {
    const one = [...this.open.values()].find(({ widget }) => widget.node.contains(drawn));
    const notebook = one ? this.notebookOf(one.path) : [...this.runs.keys()].find(({ node }) => node.contains(drawn));
    const runs = notebook ? this.runs.get(notebook) : undefined;
    if (runs !== undefined) drawn.dispatchEvent(new CustomEvent(CELLS, { detail: runs.sources() }));
  }

  private argumentsOf(widget: Lumino): object {
    const one = this.open.get(widget);
    if (one === undefined) return {};
    return { path: one.path, pin: one.panel.pin, place: storable(one.panel.currentPlace()), id: one.id };
  }

  private saveSoon(): void {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_MS);
  }

  private save(): void {
    for (const widget of this.open.keys()) void this.tracker?.save(widget);
  }
}

function isPin(value: unknown): value is Pin {
  const pin = value as Pin | null;
  return typeof pin === 'object' && pin !== null && typeof pin.cell === 'string' && Number.isInteger(pin.at);
}

function whenDisposed(widget: Lumino, then: () => void): void {
  const { disposed } = widget as Lumino & { readonly disposed?: { connect(slot: () => void): boolean } };
  disposed?.connect(then);
}
