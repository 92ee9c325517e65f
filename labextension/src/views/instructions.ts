/** All instructions as a table: filtered, sorted, with the selection in sight. */
import { NO_INSTRUCTIONS } from '../_generated/schema';
import { el, setAttribute, setText, uniqueId } from '../dom';
import { HELP, SYNTAX } from '../filter';
import * as format from '../format';
import { icon } from '../icons';
import { nameWidth } from '../name_width';
import { chosen, sorted } from '../sorting';
import type { Column, Sort } from '../sorting';
import type { Changes, Context, State, View } from '../types';
import { createVirtual } from '../virtual';
import type { Virtual } from '../virtual';
import { instructionRow, instructionsText } from './instruction_row';

const ROW = 24;
/** More than this would not fit into a spreadsheet, and hardly on a clipboard. */
const COPIED = 100_000;

interface Heading {
  readonly name: string;
  readonly sort?: Column;
  readonly class: string;
}

const HEADINGS: readonly Heading[] = [
  { name: '#', sort: 'step', class: 'nki-c-step' },
  { name: 'Engine', sort: 'lane', class: 'nki-c-engine' },
  { name: 'Instruction', sort: 'op', class: 'nki-c-op' },
  { name: 'Writes ← reads', class: 'nki-c-operands' },
  { name: 'Start', sort: 'start', class: 'nki-c-start' },
  { name: 'Runs', sort: 'duration', class: 'nki-c-runs' },
  { name: 'Waited', sort: 'wait', class: 'nki-c-waited' },
  { name: 'Critical', sort: 'critical', class: 'nki-c-critical' },
  { name: 'Line', sort: 'line', class: 'nki-c-line' },
];

const BY: Readonly<Record<Column, string>> = {
  step: 'in order of start',
  lane: 'by engine',
  op: 'by instruction',
  start: 'by start',
  duration: 'by duration',
  wait: 'by wait',
  critical: 'critical ones first',
  line: 'by line',
};

export interface InstructionsView extends View {
  /** Put the keyboard into the filter. */
  search(): void;
}

export function createInstructions(context: Context): InstructionsView {
  return new Instructions(context);
}

class Instructions implements InstructionsView {
  readonly element: HTMLElement;
  /** Steps in the table's order; null stands for all loaded ones in their own. */
  private order: Uint32Array | null = null;
  private sort: Sort = { column: 'step', up: true };
  private longest: number;
  private readonly input: HTMLInputElement;
  private readonly said = el('span', { class: 'nki-quiet nki-no-wrap' });
  private readonly foot = el('div', { class: 'nki-table-foot', role: 'status' });
  private readonly heads: readonly HTMLElement[];
  private readonly virtual: Virtual;

  constructor(private readonly context: Context) {
    this.longest = this.longestDuration();
    this.input = el('input', {
      type: 'search',
      class: 'nki-filter',
      placeholder: SYNTAX,
      'aria-label': 'Filter instructions',
      title: HELP,
      spellcheck: 'false',
      autocomplete: 'off',
      on: { input: () => context.store.set({ query: this.input.value }), keydown: event => this.keyInFilter(event) },
    });
    this.heads = HEADINGS.map(heading => headCell(heading, column => this.sortBy(column)));
    this.virtual = this.createTable();
    const copy = (): void => void this.copyAll();
    const bar = el(
      'div',
      { class: 'nki-panel-head nki-table-bar' },
      el('h3', {}, 'Instructions'),
      this.said,
      el('span', { class: 'nki-spacer' }),
      el('label', { class: 'nki-filter-box' }, icon('search', 13), this.input),
      el('button', { type: 'button', class: 'nki-text-button', on: { click: copy } }, 'Copy'),
    );
    const lanes = this.context.run.lanes.map(lane => lane.label);
    this.element = el(
      'section',
      { class: 'nki-instructions', role: 'region', 'aria-label': 'Instructions', style: nameWidth(lanes) },
      bar,
      this.virtual.element,
      this.foot,
    );
    this.apply();
  }

  private createTable(): Virtual {
    const { store } = this.context;
    const ids = uniqueId('row');
    const virtual = createVirtual({
      rowHeight: ROW,
      class: 'nki-table',
      head: el('div', { class: 'nki-table-head nki-row', role: 'row', 'aria-rowindex': 1 }, ...this.heads),
      attributes: { role: 'grid', 'aria-label': 'Instructions', 'aria-colcount': HEADINGS.length },
      render: index => instructionRow(this.context, this.stepAt(index), index, this.longest, `${ids}-${index}`),
      update: (row, index) => setAttribute(row, 'aria-selected', this.stepAt(index) === store.state.step),
    });
    virtual.element.addEventListener('keydown', event => this.keyInTable(event));
    virtual.element.addEventListener('copy', event => {
      if (!getSelection()?.isCollapsed) return;
      event.preventDefault();
      event.clipboardData?.setData('text/plain', instructionsText(this.context.run, [store.state.step]));
    });
    virtual.element.addEventListener('scroll', () => this.describe(), { passive: true });
    return virtual;
  }

  draw(_: State, changes: Changes): void {
    if (changes.has('query') || changes.has('found')) this.apply();
    if (changes.has('step') || changes.has('tab')) this.toSelection();
    if (changes.has('tab') || changes.has('layout')) this.describe();
  }

  reload(): void {
    this.longest = this.longestDuration();
    this.apply();
  }

  search(): void {
    this.input.focus();
    this.input.select();
  }

  dispose(): void {
    this.virtual.dispose();
  }

  private get count(): number {
    return this.order?.length ?? this.context.run.rows.count;
  }

  private stepAt(index: number): number {
    return this.order?.[index] ?? this.context.run.rows.first + index;
  }

  private indexOf(step: number): number {
    const { run } = this.context;
    if (this.order) return this.order.indexOf(step);
    return run.has(step) ? step - run.rows.first : -1;
  }

  private longestDuration(): number {
    let longest = 1;
    for (const duration of this.context.run.rows.duration) if (duration > longest) longest = duration;
    return longest;
  }

  /** Show what the search found, sorted anew; while it is under way, what was there before. */
  private apply(): void {
    const { query, found } = this.context.store.state;
    if (this.input.value !== query) this.input.value = query;
    const problem = found?.problem ?? '';
    setAttribute(this.input, 'aria-invalid', problem !== '');
    if (found === null) this.settle(null);
    else if (problem !== '') this.describe(problem);
    else if (found.progress < 1) setText(this.foot, `Searching, ${format.percent(found.progress)}`);
    else this.settle(found.steps);
  }

  private settle(found: Uint32Array | null): void {
    this.order = sorted(this.context.run, found, this.sort);
    this.virtual.setCount(this.count);
    this.toSelection();
    this.describe();
  }

  private sortBy(column: Column): void {
    this.sort = chosen(this.sort, column);
    HEADINGS.forEach((heading, index) => {
      if (!heading.sort) return;
      const direction = this.sort.up ? 'ascending' : 'descending';
      this.heads[index].setAttribute('aria-sort', heading.sort === column ? direction : 'none');
    });
    this.apply();
  }

  private toSelection(): void {
    const index = this.indexOf(this.context.store.state.step);
    if (index >= 0) this.virtual.reveal(index);
    this.virtual.update();
    setAttribute(this.virtual.element, 'aria-activedescendant', this.virtual.rowAt(index)?.id);
  }

  /** How many there are, in which order, and which are in sight. */
  private describe(problem = ''): void {
    const { count } = this;
    const total = this.context.run.rows.count;
    const amount = count === total ? format.count(total) : `${format.count(count)} of ${format.count(total)}`;
    setText(this.said, `${amount}, ${BY[this.sort.column]}`);
    const { first, end } = this.virtual.inSight();
    const last = Math.max(end, first + 1);
    const none = total ? 'No instruction matches.' : NO_INSTRUCTIONS;
    setText(this.foot, problem || (count ? `${format.range(first + 1, last)} of ${format.count(count)}` : none));
    this.foot.classList.toggle('nki-problem', problem !== '');
    this.virtual.element.setAttribute('aria-rowcount', String(count + 1));
  }

  private keyInTable(event: KeyboardEvent): void {
    const { fits } = this.virtual.inSight();
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -fits, PageDown: fits }[event.key];
    const end = { Home: 0, End: this.count - 1 }[event.key];
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if ((by === undefined && end === undefined) || !plain || !this.count) return;
    event.preventDefault();
    event.stopPropagation();
    const { store } = this.context;
    const target = end ?? Math.max(this.indexOf(store.state.step), 0) + (by ?? 0);
    store.select(this.stepAt(Math.min(Math.max(target, 0), this.count - 1)));
  }

  /** Enter goes to the first match, Escape empties the filter, then leaves it. */
  private keyInFilter(event: KeyboardEvent): void {
    if (event.key !== 'Enter' && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    const { store } = this.context;
    if (event.key === 'Escape' && this.input.value !== '') {
      store.set({ query: '' });
      return;
    }
    if (event.key === 'Enter' && this.count && this.indexOf(store.state.step) < 0) store.select(this.stepAt(0));
    this.virtual.element.focus();
  }

  private async copyAll(): Promise<void> {
    const { run, speak } = this.context;
    const steps = Array.from({ length: Math.min(this.count, COPIED) }, (_, index) => this.stepAt(index));
    try {
      await navigator.clipboard.writeText(instructionsText(run, steps));
      speak(`${format.plural(steps.length, 'row')} copied`);
    } catch {
      speak('The browser does not allow copying here');
    }
  }
}

function headCell({ name, sort, class: column }: Heading, choose: (column: Column) => void): HTMLElement {
  if (!sort) return el('span', { class: column, role: 'columnheader' }, name);
  const click = (): void => choose(sort);
  return el(
    'span',
    { class: column, role: 'columnheader', 'aria-sort': sort === 'step' ? 'ascending' : 'none' },
    el('button', { type: 'button', class: 'nki-sort', title: `Sort by ${sort}`, on: { click } }, name),
  );
}
