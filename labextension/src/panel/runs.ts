/** The runs of a notebook since the page was opened: those that its cells show, and earlier ones as long as there is room. */
import type { RunAbout } from '../_generated/schema';
import { MIME } from '../_generated/schema';
import { aboutRuns, savedRuns, type Bundle } from '../saved/runs';
import type { CellChange, CodeCell, NotebookPanel } from './jupyter';

/** Runs that the list has. */
export const LISTED = 50;
/** Runs that no cell shows any more and that can still be drawn; of older ones there is the picture. */
export const KEPT = 8;

export interface SessionRun {
  /** Counts from 1 on. */
  readonly number: number;
  readonly cell: string;
  /** "[3]", as beside the cell; '' where it was not run in this session. */
  prompt: string;
  readonly about: RunAbout | null;
  /** Its place among the runs of the output. */
  readonly index: number;
  /** The output, or its picture alone. */
  bundle: Bundle;
  /** Whether a cell shows it. */
  isShown: boolean;
}

/** While a user types, nothing is compared. */
const EDITED_MS = 300;

const WIDGET = 'application/vnd.jupyter.widget-view+json';

export class NotebookRuns {
  /** The oldest first. */
  runs: SessionRun[] = [];
  private count = 0;
  private readonly ends = new Map<CodeCell, () => void>();
  private readonly listeners = new Set<(latest: SessionRun | null) => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private editing: ReturnType<typeof setTimeout> | undefined;
  private readonly changedCells = new Set<CodeCell>();

  /** `tellEdits` hears that texts of cells may have changed. */
  constructor(
    readonly notebook: NotebookPanel,
    private readonly tellEdits: () => void = () => undefined,
  ) {
    const { cells } = notebook.context.model;
    cells.changed.connect(this.watch);
    this.watch();
  }

  get latest(): SessionRun | null {
    return this.runs.at(-1) ?? null;
  }

  /** The runs that a cell shows, in order. */
  ofCell(cell: string): readonly SessionRun[] {
    return this.runs.filter(run => run.cell === cell && run.isShown);
  }

  /** The run of the same kernel before one; null: it is the first. */
  before(run: SessionRun): SessionRun | null {
    const earlier = this.runs.slice(0, this.runs.indexOf(run));
    return earlier.findLast(other => other.about !== null && other.about.kernel === run.about?.kernel) ?? null;
  }

  /** The texts of all code cells. */
  sources(): readonly string[] {
    return this.cells().map(cell => cell.sharedModel.getSource());
  }

  /** Hear of new runs, and of runs that no cell shows any more. Returns what ends it. */
  listen(listener: (latest: SessionRun | null) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  dispose(): void {
    clearTimeout(this.timer);
    clearTimeout(this.editing);
    this.notebook.context.model.cells.changed.disconnect(this.watch);
    for (const end of this.ends.values()) end();
    this.ends.clear();
    this.listeners.clear();
    this.runs = [];
  }

  private cells(): readonly CodeCell[] {
    const all = [...this.notebook.context.model.cells] as unknown as CodeCell[];
    return all.filter(cell => cell.type === 'code');
  }

  private readonly watch = (): void => {
    const cells = this.cells();
    for (const [cell, end] of this.ends)
      if (!cells.includes(cell)) {
        end();
        this.ends.delete(cell);
        for (const run of this.ofCell(cell.id)) run.isShown = false;
      }
    const added = cells.filter(cell => !this.ends.has(cell));
    for (const cell of added) {
      const look = (): void => this.later(cell);
      const changed = (_: unknown, change: CellChange): void => {
        if (change.executionCountChange) this.number(cell, change.executionCountChange.newValue ?? null);
        if (change.sourceChange) this.edited();
      };
      cell.outputs?.changed.connect(look);
      cell.sharedModel.changed.connect(changed);
      this.ends.set(cell, () => {
        cell.outputs?.changed.disconnect(look);
        cell.sharedModel.changed.disconnect(changed);
      });
    }
    // Of a notebook that is opened the cell that was run last is the last, wherever it stands.
    const inOrder = [...added].sort((one, other) => (one.executionCount ?? 0) - (other.executionCount ?? 0));
    const hasNew = inOrder.map(cell => this.take(cell)).some(Boolean);
    if (hasNew) this.tell();
    this.edited();
  };

  /** The number of a cell comes when it has run. */
  private number(cell: CodeCell, count: number | null): void {
    if (count === null) return;
    for (const run of this.ofCell(cell.id)) run.prompt = `[${count}]`;
    this.tell();
  }

  private edited(): void {
    clearTimeout(this.editing);
    this.editing = setTimeout(() => this.tellEdits(), EDITED_MS);
  }

  /** Outputs come one after the other, and what is cleared is filled again at once. */
  private later(cell: CodeCell): void {
    this.changedCells.add(cell);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const hasNew = [...this.changedCells].map(one => this.take(one)).some(Boolean);
      this.changedCells.clear();
      if (hasNew) this.tell();
    });
  }

  /** Take what a cell shows; whether anything is other than before. */
  private take(cell: CodeCell): boolean {
    const before = this.ofCell(cell.id);
    const outputs = Array.from({ length: cell.outputs?.length ?? 0 }, (_, at) => cell.outputs!.get(at).data);
    const seen = outputs.flatMap(bundle => aboutRuns(bundle).map((about, index) => ({ bundle, about, index })));
    const isSame =
      seen.length === before.length &&
      seen.every(({ bundle, index }, at) => keyOf(bundle, index) === keyOf(before[at].bundle, before[at].index));
    if (isSame) return false;
    for (const run of before) run.isShown = false;
    const prompt = cell.executionCount ? `[${cell.executionCount}]` : '';
    for (const one of seen) {
      this.count += 1;
      this.runs.push({ ...one, number: this.count, cell: cell.id, prompt, isShown: true });
    }
    this.forget();
    return true;
  }

  private forget(): void {
    while (this.runs.length > LISTED) {
      const oldest = this.runs.findIndex(run => !run.isShown);
      this.runs.splice(Math.max(oldest, 0), 1);
    }
    const hidden = this.runs.filter(run => !run.isShown && MIME in run.bundle);
    for (const run of hidden.slice(0, -KEPT)) run.bundle = { 'image/png': run.bundle['image/png'] };
    // A widget is closed by its kernel when it has to.
  }

  private tell(): void {
    for (const listener of [...this.listeners]) listener(this.latest);
  }
}

/** What tells the runs of one output from those of another one. */
function keyOf(bundle: Bundle, index: number): unknown {
  const widget = bundle[WIDGET] as { readonly model_id?: unknown } | undefined;
  return MIME in bundle ? savedRuns(bundle)[index]?.message : (widget?.model_id ?? null);
}

export { WIDGET };
