/** Where the difference is: on the critical path, by engine, by wait, in memory, and by line. */
import type { Change, ComparisonHeader, PlaceChange } from '../../_generated/schema';
import { HUES } from '../../_generated/schema';
import { el, replace, setAttribute, uniqueId } from '../../dom';
import * as format from '../../format';
import { rest, rove } from '../../roving';
import type { Hue } from '../../types';
import { reasonHue } from '../../words';
import { type CompareState, type CompareStore, TABLES, type TableName } from './state';
import { amount, change, difference, tone, WITHIN } from './texts';

export interface Tables {
  readonly element: HTMLElement;
  draw(state: CompareState): void;
}

const NAMES: Readonly<Record<TableName, string>> = {
  path: 'Critical path',
  engines: 'Engines',
  waits: 'Waits',
  memory: 'Memory',
};
const MOST_LINES = 40;

interface Item {
  readonly change: Change;
  readonly hue: Hue | '';
  readonly isWait: boolean;
  readonly label: string;
}

export function createTables(header: ComparisonHeader, store: CompareStore): Tables {
  const tabs = el('div', { class: 'nki-tabs', role: 'tablist', 'aria-label': 'Differences' });
  const panel = el('div', { class: 'nki-cmp-panel', role: 'tabpanel', id: uniqueId('difference') });
  const buttons = new Map<TableName, HTMLButtonElement>();
  for (const name of TABLES) {
    const on = { click: () => store.set({ table: name }), focus: () => store.set({ table: name }) };
    const tab = el(
      'button',
      { type: 'button', role: 'tab', class: 'nki-tab', 'aria-controls': panel.id, 'data-label': NAMES[name], on },
      NAMES[name],
    );
    buttons.set(name, tab);
    tabs.append(tab);
  }
  rove(tabs, '.nki-tab');
  const lines = header.same_kernel ? createLines(header, store) : null;
  let shown: TableName | null = null;
  return {
    element: el(
      'div',
      { class: 'nki-cmp-tables', 'data-lines': String(lines !== null) },
      el('section', { class: 'nki-cmp-table', 'aria-label': 'Where the difference is' }, tabs, panel),
      lines?.element,
    ),
    draw(state) {
      for (const [name, tab] of buttons) setAttribute(tab, 'aria-selected', String(name === state.table));
      const chosen = buttons.get(state.table);
      if (chosen) rest(tabs, '.nki-tab', chosen);
      if (shown !== state.table) replace(panel, ...content(header, state.table));
      shown = state.table;
      lines?.draw(state);
    },
  };
}

function content(header: ComparisonHeader, table: TableName): HTMLElement[] {
  switch (table) {
    case 'path': {
      const items = [
        ...header.work.map(item => ({ change: item, hue: hueOf(item.name), isWait: false, label: item.label })),
        ...header.waits.map(item => ({
          change: item,
          hue: reasonHue(item.name),
          isWait: true,
          label: `waits for ${item.label}`,
        })),
      ];
      const caption = `where ${format.timeDifference(difference(header.latency) ?? 0)} went: work on it, and what it waits for`;
      return [note(caption), bars(inOrder(items), header.latency)];
    }
    case 'engines': {
      const items = header.engines.flatMap(({ busy, waiting }) => [
        { change: busy, hue: hueOf(busy.name), isWait: false, label: busy.label },
        { change: waiting, hue: hueOf(waiting.name), isWait: true, label: `${waiting.label} waiting` },
      ]);
      return [
        note('time in which each executes, and in which it waits before it will'),
        bars(items.filter(isSome), null),
      ];
    }
    case 'waits': {
      const items = header.stalls.map(item => ({
        change: item,
        hue: reasonHue(item.name),
        isWait: true,
        label: item.label,
      }));
      return [note('what all lanes together wait for'), bars(inOrder(items), null)];
    }
    case 'memory':
      return [note('peaks, traffic and transfers'), plain(header.memory)];
  }
}

function note(text: string): HTMLElement {
  return el('p', { class: 'nki-quiet nki-cmp-caption' }, text);
}

function hueOf(name: string): Hue | '' {
  return (HUES as readonly string[]).includes(name) ? (name as Hue) : '';
}

function isSome({ change: { before, after } }: Item): boolean {
  return Boolean(before ?? 0) || Boolean(after ?? 0);
}

function inOrder(items: readonly Item[]): Item[] {
  const size = (item: Item): number => Math.abs(difference(item.change) ?? 0);
  return items.filter(isSome).sort((one, two) => size(two) - size(one));
}

/** Rows with a bar to the left for less, to the right for more. */
function bars(items: readonly Item[], total: Change | null): HTMLElement {
  if (items.length === 0) return el('p', { class: 'nki-quiet nki-pad' }, 'Nothing to compare.');
  const largest = Math.max(1, ...items.map(item => Math.abs(difference(item.change) ?? 0)));
  const head = el(
    'tr',
    {},
    el('th', { scope: 'col' }, el('span', { class: 'nki-cmp-hidden' }, 'What')),
    ...['A', 'B', 'change'].map(text => el('th', { scope: 'col', class: 'nki-cmp-count' }, text)),
    el('th', { class: 'nki-cmp-scale', 'aria-hidden': 'true' }, el('span', {}, 'less'), el('span', {}, 'more')),
  );
  const body = items.map(item =>
    el('tr', {}, ...cells(item), el('td', { class: 'nki-cmp-bars', 'aria-hidden': 'true' }, bar(item, largest))),
  );
  const foot =
    total === null
      ? []
      : [
          el(
            'tr',
            { class: 'nki-cmp-sum' },
            ...cells({ change: total, hue: '', isWait: false, label: 'Total' }, true),
            el('td', { class: 'nki-cmp-scale' }),
          ),
        ];
  return el('table', { class: 'nki-cmp-rows' }, head, ...body, ...foot);
}

function cells(item: Item, isTotal = false): HTMLElement[] {
  const { change: values, hue, isWait, label } = item;
  const swatch = el('i', {
    class: `nki-swatch ${hue === '' ? 'nki-cmp-none' : isWait ? 'nki-hatch' : 'nki-solid'}`,
    style: { '--hue': `var(--nki-${hue || 'sync'})` },
  });
  return [
    el('th', { scope: 'row', title: label }, swatch, el('span', {}, label)),
    el('td', { class: 'nki-cmp-count nki-quiet' }, amount(values.before, values.unit)),
    el('td', { class: 'nki-cmp-count' }, amount(values.after, values.unit)),
    changeCell(values, isTotal),
  ];
}

function changeCell(values: Change, isTotal = false): HTMLElement {
  const mark = values.within_error === true && !/^(0|–)$/.test(change(values));
  return el(
    'td',
    { class: `nki-cmp-count nki-cmp-change nki-cmp-${tone(values, isTotal) || 'same'}`, title: mark ? WITHIN : null },
    change(values),
    mark && el('span', { class: 'nki-quiet', 'aria-label': WITHIN }, ' ~'),
  );
}

function bar({ change: values, hue, isWait }: Item, largest: number): HTMLElement {
  const size = difference(values) ?? 0;
  const share = `${(50 * Math.abs(size)) / largest}%`;
  const look = `nki-cmp-delta ${isWait ? 'nki-hatch' : size > 0 ? 'nki-light' : 'nki-solid'}`;
  const style = {
    '--hue': `var(--nki-${hue || 'sync'})`,
    width: share,
    ...(size < 0 ? { right: '50%' } : { left: '50%' }),
  };
  return el('i', { class: look, style });
}

function plain(items: readonly Change[]): HTMLElement {
  const rows = items.map(item =>
    el(
      'tr',
      {},
      el('th', { scope: 'row' }, item.label),
      el('td', { class: 'nki-cmp-count nki-quiet' }, amount(item.before, item.unit)),
      el('td', { class: 'nki-cmp-count' }, amount(item.after, item.unit)),
      changeCell(item),
    ),
  );
  const head = ['', 'A', 'B', 'change'].map((text, place) =>
    el(place === 0 ? 'td' : 'th', { scope: place === 0 ? null : 'col', class: 'nki-cmp-count' }, text),
  );
  return el('table', { class: 'nki-cmp-rows nki-cmp-plain' }, el('tr', {}, ...head), ...rows);
}

/** Lines with their change on the critical path; one that is chosen stands out in both timelines. */
function createLines(header: ComparisonHeader, store: CompareStore): Tables {
  const numbered = header.lines.map((line, number) => ({ line, number }));
  const changed = numbered.filter(({ line }) => line.state !== 'same' || differs(line.critical) || differs(line.rows));
  const shown = changed.slice(0, MOST_LINES);
  const rows = new Map<number, HTMLElement>();
  const choose = (number: number): void =>
    store.set({ line: store.state.line === number ? -1 : number, selected: null });
  for (const { line, number } of shown)
    rows.set(
      number,
      lineRow(line, () => choose(number)),
    );
  const head = el(
    'tr',
    {},
    el('th', { scope: 'col', class: 'nki-cmp-number' }, 'line'),
    el('th', { scope: 'col' }),
    ...['A', 'B', 'change'].map(text => el('th', { scope: 'col', class: 'nki-cmp-count' }, text)),
  );
  const rest = changed.length - shown.length;
  return {
    element: el(
      'section',
      { class: 'nki-cmp-table nki-cmp-lines', 'aria-label': 'Lines' },
      el(
        'div',
        { class: 'nki-cmp-lines-head' },
        el('h3', {}, 'Lines'),
        el('span', { class: 'nki-quiet' }, 'largest changes on the critical path'),
      ),
      shown.length === 0
        ? el('p', { class: 'nki-quiet nki-pad' }, 'No line takes another time on the critical path.')
        : el('div', { class: 'nki-cmp-scroll' }, el('table', { class: 'nki-cmp-rows' }, head, ...rows.values())),
      rest > 0 && el('p', { class: 'nki-quiet nki-pad' }, `and ${format.plural(rest, 'more line')}`),
    ),
    draw(state) {
      for (const [number, row] of rows) {
        setAttribute(row, 'data-chosen', number === state.line);
        setAttribute(row.querySelector('button')!, 'aria-pressed', String(number === state.line));
      }
    },
  };
}

function differs(item: Change | undefined): boolean {
  return item !== undefined && item.before !== item.after;
}

function lineRow(line: PlaceChange, choose: () => void): HTMLElement {
  const isNowhere = line.file + line.other_file === '';
  const text = isNowhere ? 'what has no line' : line.other_text || line.text;
  const number = line.other_line || line.line || '';
  const state = { same: '', changed: 'edited', moved: 'moved', 'only before': 'only in A', 'only after': 'only in B' }[
    line.state
  ];
  const code = isNowhere
    ? el('span', { class: 'nki-quiet' }, text)
    : el('button', { type: 'button', class: 'nki-code nki-cmp-code', title: text }, text);
  if (isNowhere) return el('tr', {}, el('td'), el('td', {}, code, hiddenButton()), ...lineCells(line));
  const row = el(
    'tr',
    {},
    el('td', { class: 'nki-cmp-number' }, number),
    el(
      'td',
      {},
      el('div', { class: 'nki-cmp-line' }, code, Boolean(state) && el('span', { class: 'nki-cmp-state' }, state)),
    ),
    ...lineCells(line),
  );
  row.addEventListener('click', choose);
  return row;
}

/** Rows are alike for who walks through them by buttons. */
function hiddenButton(): HTMLElement {
  return el('button', { type: 'button', hidden: true, disabled: true });
}

function lineCells({ critical }: PlaceChange): HTMLElement[] {
  if (critical === undefined) return [el('td'), el('td'), el('td')];
  return [
    el('td', { class: 'nki-cmp-count nki-quiet' }, amount(critical.before, critical.unit)),
    el('td', { class: 'nki-cmp-count' }, amount(critical.after, critical.unit)),
    changeCell(critical),
  ];
}
