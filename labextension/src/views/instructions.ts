/** All instructions as a table: filtered, sorted, with the selection in sight. */
import { el, setAttribute, setText, uniqueId } from '../dom';
import { HELP, SYNTAX, parseFilter } from '../filter';
import * as format from '../format';
import { icon } from '../icons';
import { swatch } from '../swatch';
import type { Context, Run, View } from '../types';
import { createVirtual } from '../virtual';
import * as words from '../words';

const ROW = 24;
/** Rows that are filtered before the page may draw again. */
const SLICE = 40_000;
/** More than this would not fit into a spreadsheet, and hardly on a clipboard. */
const COPIED = 100_000;
const BAR = 84;

type Column = 'step' | 'lane' | 'op' | 'start' | 'duration' | 'wait' | 'critical' | 'line';

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

export interface InstructionsView extends View {
  /** Put the keyboard into the filter. */
  search(): void;
}

export function createInstructions(context: Context): InstructionsView {
  const { run, store } = context;
  /** Steps in the table's order; null stands for all loaded ones in their own. */
  let order: Uint32Array | null = null;
  let sort: { column: Column; up: boolean } = { column: 'step', up: true };
  let longest = longestOf(run);
  let work = 0;
  let wanted = '';
  const count = (): number => order?.length ?? run.rows.count;
  const stepAt = (index: number): number => order?.[index] ?? run.rows.first + index;
  const indexOf = (step: number): number => {
    if (order) return order.indexOf(step);
    return run.has(step) ? step - run.rows.first : -1;
  };
  const ids = uniqueId('row');
  const input = el('input', {
    type: 'search',
    class: 'nki-filter',
    placeholder: SYNTAX,
    'aria-label': 'Filter instructions',
    title: HELP,
    spellcheck: 'false',
    autocomplete: 'off',
    on: { input: () => apply(), keydown: event => inFilter(event) },
  });
  const said = el('span', { class: 'nki-quiet' });
  const foot = el('div', { class: 'nki-table-foot', role: 'status' });
  const heads = HEADINGS.map(heading => headCell(heading, () => sortBy(heading.sort)));
  const virtual = createVirtual({
    rowHeight: ROW,
    class: 'nki-table',
    head: el('div', { class: 'nki-table-head nki-row', role: 'row', 'aria-rowindex': 1 }, ...heads),
    attributes: { role: 'grid', 'aria-label': 'Instructions', 'aria-colcount': HEADINGS.length },
    render: index => tableRow(context, stepAt(index), index, longest, `${ids}-${index}`),
    update: (row, index) => setAttribute(row, 'aria-selected', stepAt(index) === store.state.step),
  });
  virtual.element.addEventListener('keydown', event => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -virtual.inSight().fits, PageDown: virtual.inSight().fits }[
      event.key
    ];
    const end = { Home: 0, End: count() - 1 }[event.key];
    if ((by === undefined && end === undefined) || event.ctrlKey || event.metaKey || event.altKey || !count()) return;
    event.preventDefault();
    event.stopPropagation();
    const target = end ?? Math.max(indexOf(store.state.step), 0) + (by ?? 0);
    store.select(stepAt(Math.min(Math.max(target, 0), count() - 1)));
  });
  virtual.element.addEventListener('copy', event => {
    if (!getSelection()?.isCollapsed) return;
    event.preventDefault();
    event.clipboardData?.setData('text/plain', asText(run, [store.state.step]));
  });
  const element = el(
    'section',
    { class: 'nki-instructions', role: 'region', 'aria-label': 'Instructions' },
    el(
      'div',
      { class: 'nki-panel-head nki-table-bar' },
      el('h3', {}, 'Instructions'),
      said,
      el('span', { class: 'nki-spacer' }),
      el('label', { class: 'nki-filter-box' }, icon('search', 13), input),
      el('button', { type: 'button', class: 'nki-text-button', on: { click: () => void copyAll() } }, 'Copy'),
    ),
    virtual.element,
    foot,
  );

  /** Enter goes to the first match, Escape empties the filter, then leaves it. */
  const inFilter = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === 'Escape' && input.value !== '') {
      input.value = '';
      apply();
      return;
    }
    if (event.key === 'Enter' && count() && indexOf(store.state.step) < 0) store.select(stepAt(0));
    virtual.element.focus();
  };
  const describe = (problem = ''): void => {
    const total = run.rows.count;
    setText(
      said,
      order && count() !== total
        ? `${format.count(count())} of ${format.count(total)}`
        : `${format.count(total)}, in order of start`,
    );
    if (sort.column !== 'step') setText(said, `${format.count(count())}, by ${sort.column}`);
    const { first, fits } = virtual.inSight();
    const last = Math.min(first + fits, count());
    const shown = count()
      ? `${format.range(first + 1, Math.max(last, first + 1))} of ${format.count(count())}`
      : 'No instruction matches.';
    setText(foot, problem || (count() || total ? shown : 'No instruction was recorded.'));
    foot.classList.toggle('nki-problem', problem !== '');
    virtual.element.setAttribute('aria-rowcount', String(count() + 1));
  };
  const settle = (found: Uint32Array | null): void => {
    order = sorted(run, found, sort);
    virtual.setCount(count());
    toSelection();
    describe();
  };
  const toSelection = (): void => {
    const index = indexOf(store.state.step);
    if (index >= 0) virtual.reveal(index);
    virtual.update();
    const row = index >= 0 ? virtual.rowAt(index) : null;
    setAttribute(virtual.element, 'aria-activedescendant', row?.id);
  };
  const apply = (): void => {
    clearTimeout(work);
    const text = input.value;
    wanted = text;
    const { problem, accepts } = parseFilter(run, text);
    setAttribute(input, 'aria-invalid', problem !== '');
    if (problem) {
      describe(problem);
      return;
    }
    if (!accepts) {
      settle(null);
      return;
    }
    const found: number[] = [];
    let place = 0;
    const slice = (): void => {
      const end = Math.min(place + SLICE, run.rows.count);
      for (; place < end; place += 1) if (accepts(run.rows.first + place)) found.push(run.rows.first + place);
      if (place < run.rows.count) {
        setText(foot, `Searching, ${format.percent(place / run.rows.count)}`);
        work = window.setTimeout(slice);
      } else settle(Uint32Array.from(found));
    };
    slice();
  };
  const sortBy = (column: Column | undefined): void => {
    if (!column) return;
    sort = {
      column,
      up: sort.column === column ? !sort.up : column !== 'duration' && column !== 'wait' && column !== 'critical',
    };
    HEADINGS.forEach((heading, index) => {
      if (heading.sort)
        heads[index].setAttribute(
          'aria-sort',
          heading.sort === column ? (sort.up ? 'ascending' : 'descending') : 'none',
        );
    });
    apply();
  };
  const copyAll = async (): Promise<void> => {
    const steps = Array.from({ length: Math.min(count(), COPIED) }, (_, index) => stepAt(index));
    try {
      await navigator.clipboard.writeText(asText(run, steps));
      context.speak(`${format.plural(steps.length, 'row')} copied`);
    } catch {
      context.speak('The browser does not allow copying here');
    }
  };
  virtual.element.addEventListener('scroll', () => describe(), { passive: true });
  settle(null);
  return {
    element,
    draw(_, changes) {
      if (changes.has('step') || changes.has('tab')) toSelection();
      if (changes.has('tab') || changes.has('layout')) describe();
    },
    reload() {
      longest = longestOf(run);
      input.value = wanted;
      apply();
    },
    search() {
      input.focus();
      input.select();
    },
    dispose() {
      clearTimeout(work);
      virtual.dispose();
    },
  };
}

function headCell({ name, sort, class: column }: Heading, click: () => void): HTMLElement {
  if (!sort) return el('span', { class: column, role: 'columnheader' }, name);
  return el(
    'span',
    { class: column, role: 'columnheader', 'aria-sort': sort === 'step' ? 'ascending' : 'none' },
    el('button', { type: 'button', class: 'nki-sort', title: `Sort by ${sort}`, on: { click } }, name),
  );
}

function longestOf(run: Run): number {
  let longest = 1;
  for (const duration of run.rows.duration) if (duration > longest) longest = duration;
  return longest;
}

function tableRow(context: Context, step: number, index: number, longest: number, id: string): HTMLElement {
  const { run, store } = context;
  const { rows } = run;
  const place = step - rows.first;
  const lane = words.laneOf(run, step);
  const duration = rows.duration[place];
  const width = duration > 0 ? Math.max(2, (BAR * duration) / longest) : 0;
  const cell = (column: string, ...content: (Node | string | null)[]): HTMLElement =>
    el('span', { class: column, role: 'gridcell' }, ...content);
  const op = run.op(step);
  return el(
    'div',
    {
      id,
      class: step === run.fault ? 'nki-row nki-row-fault' : 'nki-row',
      role: 'row',
      'aria-rowindex': index + 2,
      on: {
        click: () => store.select(step),
        dblclick: () => store.set({ tab: 'explore' }),
      },
    },
    cell('nki-c-step', format.ordinal(step)),
    cell('nki-c-engine', swatch(lane.hue), lane.label),
    el('span', { class: 'nki-c-op nki-code', role: 'gridcell', title: `${op.name} ${op.detail}` }, op.name),
    cell('nki-c-operands nki-code', operandText(run, step)),
    el(
      'span',
      { class: 'nki-c-start', role: 'gridcell', title: format.timeExact(rows.start[place]) },
      format.time(rows.start[place]),
    ),
    cell(
      'nki-c-runs',
      el('span', { title: format.timeExact(duration) }, format.time(duration)),
      el('i', { class: 'nki-run-bar', style: { '--hue': `var(--nki-${lane.hue})`, width: `${width.toFixed(1)}px` } }),
    ),
    cell('nki-c-waited', ...waited(run, step)),
    cell(
      'nki-c-critical',
      rows.critical[place] ? el('span', { role: 'img', 'aria-label': 'critical' }, icon('critical', 12)) : null,
    ),
    cell('nki-c-line', String(run.siteOf(step)?.line ?? '')),
  );
}

function operandText(run: Run, step: number): string {
  const names = (write: boolean): string =>
    [
      ...new Set(
        run
          .accesses(step)
          .filter(access => (access.role === 'read') !== write)
          .map(access => run.buffers[run.view(access.view).buffer].name),
      ),
    ].join(', ');
  const [written, read] = [names(true), names(false)];
  return read ? `${written || '–'} ← ${read}` : written;
}

function waited(run: Run, step: number): (Node | string)[] {
  const { rows } = run;
  const place = step - rows.first;
  if (rows.wait[place] <= 0) return [el('span', { class: 'nki-quiet' }, '–')];
  const rest = rows.wait[place] - rows.setup[place];
  const stall = rest > 0 ? rows.stall[place] : rows.setupStall[place];
  const tile = rest > 0 ? run.awaited(step) : '';
  const text = `${format.time(rows.wait[place])} for ${tile || words.shortReason(run.stalls[stall])}`;
  return [
    swatch(run.stallHue(step, stall), 'hatch'),
    el('span', { class: 'nki-ellipsis', title: words.waitedFor(run, step) }, text),
  ];
}

/** Steps in a column's order; null for all in their own. Equal ones stay in the order of steps. */
function sorted(run: Run, found: Uint32Array | null, sort: { column: Column; up: boolean }): Uint32Array | null {
  if (sort.column === 'step' && sort.up) return found;
  const steps = found?.slice() ?? Uint32Array.from({ length: run.rows.count }, (_, place) => run.rows.first + place);
  const { rows } = run;
  const { first } = rows;
  const sign = sort.up ? 1 : -1;
  const key = keyOf(run, sort.column);
  const keys = Float64Array.from({ length: rows.count }, (_, place) => key(place));
  return steps.sort((one, other) => sign * (keys[one - first] - keys[other - first]) || one - other);
}

function keyOf(run: Run, column: Column): (place: number) => number {
  const { rows } = run;
  switch (column) {
    case 'step':
      return place => place;
    case 'lane':
      return place => rows.lane[place];
    case 'op':
      return alphabetical(run);
    case 'line':
      return place => run.siteOf(rows.first + place)?.line ?? 0;
    case 'start':
    case 'duration':
    case 'wait':
    case 'critical':
      return place => rows[column][place];
  }
}

/** The rank of an instruction's name. */
function alphabetical(run: Run): (place: number) => number {
  const { rows } = run;
  const names = new Map<number, string>();
  for (let place = 0; place < rows.count; place += 1) {
    if (!names.has(rows.op[place])) names.set(rows.op[place], run.op(rows.first + place).name);
  }
  const ranked = [...new Set(names.values())].sort();
  const ranks = new Map([...names].map(([op, name]) => [op, ranked.indexOf(name)]));
  return place => ranks.get(rows.op[place]) ?? 0;
}

/** Rows for a spreadsheet, with full precision. */
function asText(run: Run, steps: readonly number[]): string {
  const { rows } = run;
  const lines = ['step\tengine\tinstruction\toperands\tstart_ps\tduration_ps\twait_ps\twaited_for\tcritical\tline'];
  for (const step of steps) {
    if (!run.has(step)) continue;
    const place = step - rows.first;
    lines.push(
      [
        step + 1, words.laneOf(run, step).label, run.op(step).name, operandText(run, step), rows.start[place],
        rows.duration[place], rows.wait[place], words.waitedFor(run, step), rows.critical[place],
        run.siteOf(step)?.line ?? '',
      ].join('\t'), // prettier-ignore
    );
  }
  return `${lines.join('\n')}\n`;
}
