/** The source: what each line costs, where the cursor stands, what was found; a click leads to a line's steps. */
import { el, replace, setText, uniqueId } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { nearestStep, nextAtLine, toLine } from '../lines';
import { cut, highlight } from '../python';
import type { Piece } from '../python';
import type { Context, Finding, LineShare, State, View } from '../types';
import { createVirtual } from '../virtual';
import type { Virtual } from '../virtual';
import { findingsByLine, severityIcon } from './findings';

const ROW = 19;
/** Widest bar of the margin, in pixels. */
const BAR = 40;

/** What is drawn of one source. */
interface Listing {
  readonly lines: readonly (readonly Piece[])[];
  readonly findings: ReadonlyMap<number, readonly Finding[]>;
  readonly shares: ReadonlyMap<number, LineShare>;
}

export function createSource(context: Context): View {
  const { run, store } = context;
  const listings = new Map<number, Listing>();
  const largest = Math.max(0, ...run.lines.map(line => line.share));
  let shown = store.state.line?.source ?? firstSource(context);

  const listing = (): Listing => {
    let found = listings.get(shown);
    if (!found) {
      found = {
        lines: highlight(run.sources[shown]?.text ?? ''),
        findings: findingsByLine(run, shown),
        shares: new Map(run.lines.filter(line => line.source === shown).map(line => [line.line, line])),
      };
      listings.set(shown, found);
    }
    return found;
  };
  const ids = uniqueId('line');
  const choose = el('select', {
    class: 'nki-file',
    'aria-label': 'Source file',
    on: {
      change: () => {
        shown = Number(choose.value);
        open();
      },
    },
  });
  run.sources.forEach((source, index) =>
    choose.append(el('option', { value: index, title: source.path }, format.fileName(source.path))),
  );
  const virtual: Virtual = createVirtual({
    rowHeight: ROW,
    class: 'nki-code-lines',
    attributes: { role: 'grid', 'aria-label': 'Source lines', 'aria-multiselectable': 'false' },
    render: index => lineRow(context, listing(), shown, index + 1, largest, `${ids}-${index + 1}`),
    update: (row, index) => markRow(row, context, shown, index + 1),
  });
  virtual.element.addEventListener('keydown', event => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -15, PageDown: 15 }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const line = Math.min(Math.max((store.state.line?.line ?? 0) + by, 1), listing().lines.length);
    toLine(run, store, { source: shown, line });
  });
  const foot = el('div', { class: 'nki-source-foot' });
  const empty = el('p', { class: 'nki-quiet nki-pad' });
  const element = el(
    'section',
    { class: 'nki-source nki-panel', role: 'region', 'aria-label': 'Source' },
    el(
      'div',
      { class: 'nki-panel-head' },
      el('h3', {}, 'Source'),
      run.sources.length > 1
        ? choose
        : el('span', { class: 'nki-quiet nki-ellipsis' }, format.fileName(run.sources[0]?.path ?? '')),
      el('span', { class: 'nki-spacer' }),
      el('span', { class: 'nki-quiet nki-no-wrap' }, 'share of critical path'),
    ),
    empty,
    virtual.element,
    foot,
  );
  const open = (): void => {
    const { lines } = listing();
    const text = run.sources[shown]?.text ?? '';
    empty.hidden = text !== '';
    virtual.element.hidden = text === '';
    setText(empty, run.sources.length ? 'The text of this file was not recorded.' : 'No source was recorded.');
    choose.value = String(shown);
    virtual.element.setAttribute('aria-rowcount', String(lines.length));
    const widest = lines.reduce((most, pieces) => Math.max(most, lengthOf(pieces)), 0);
    virtual.element.style.setProperty('--columns', String(widest));
    virtual.setCount(text ? lines.length : 0);
  };
  const toCurrent = (state: State): void => {
    const { line } = state;
    if (!line) return;
    if (line.source !== shown) {
      shown = line.source;
      open();
    }
    virtual.reveal(line.line - 1);
  };
  const draw = (state: State): void => {
    toCurrent(state);
    virtual.update();
    const row = state.line && virtual.rowAt(state.line.line - 1);
    if (row) virtual.element.setAttribute('aria-activedescendant', row.id);
    else virtual.element.removeAttribute('aria-activedescendant');
    replace(foot, ...footer(context, listing()));
  };
  open();
  draw(store.state);
  return {
    element,
    draw(state, changes) {
      if (['line', 'step', 'breakpoints', 'layout', 'panel', 'tab'].some(name => changes.has(name as keyof State)))
        draw(state);
    },
    reload: () => virtual.refresh(),
    dispose: () => virtual.dispose(),
  };
}

/** The first source with a line that costs something. */
function firstSource({ run }: Context): number {
  return run.lines.length ? run.lines[0].source : 0;
}

function lengthOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.text.length, 0);
}

/** One line; it is used by the pinned lines too. */
export function lineRow(
  { run, store }: Context,
  { lines, findings, shares }: Listing,
  source: number,
  line: number,
  largest: number,
  id: string,
): HTMLElement {
  const found = findings.get(line)?.[0];
  const share = shares.get(line);
  return el(
    'div',
    {
      id,
      class: 'nki-line',
      role: 'row',
      'aria-rowindex': line,
      on: { click: () => choose({ run, store } as Context, source, line) },
    },
    el(
      'span',
      { class: 'nki-line-number', role: 'rowheader' },
      found
        ? el(
            'span',
            { class: `nki-mark nki-mark-${found.severity}`, title: `${found.code} ${found.message}` },
            icon(severityIcon(found.severity), 11),
          )
        : null,
      String(line),
    ),
    el('span', { class: 'nki-line-share', role: 'gridcell' }, ...shareBar({ run } as Context, share, largest)),
    el('span', { class: 'nki-line-text', role: 'gridcell' }, ...textOf(lines[line - 1] ?? [], found)),
  );
}

/** The first click goes to the step nearest to the cursor, further ones to the line's next steps. */
function choose({ run, store }: Context, source: number, line: number): void {
  const { state } = store;
  const same = state.line?.source === source && state.line.line === line;
  const next = same ? nextAtLine(run, state.step, { source, line }, 1) : nearestStep(run, state, { source, line });
  if (next >= 0) store.select(next);
  store.set({ line: { source, line } });
}

function shareBar({ run }: Context, share: LineShare | undefined, largest: number): (Node | null)[] {
  if (!share || share.share < 0.0005) return [];
  const hue = run.lanes[share.lane]?.hue ?? 'sync';
  const width = Math.max(1, (BAR * share.share) / Math.max(largest, 1e-9));
  const bar = el('i', {
    class: 'nki-share-bar',
    style: { '--hue': `var(--nki-${hue})`, width: `${width.toFixed(1)}px` },
  });
  const text = share.share < 0.005 ? '< 1 %' : `${Math.round(100 * share.share)} %`;
  const title = `${format.time(share.critical)} on the critical path, ${format.time(share.busy)} of work`;
  return [bar, el('span', { title }, text)];
}

function textOf(pieces: readonly Piece[], found: Finding | undefined): Node[] {
  if (!found) return pieces.map(piece => el('span', { class: `nki-py-${piece.kind}` }, piece.text));
  const end = found.end_line > found.line ? Number.MAX_SAFE_INTEGER : Math.max(found.end_column, found.column + 1);
  return cut(pieces, found.column, end).map(piece =>
    el(
      'span',
      { class: `nki-py-${piece.kind}${piece.marked ? ` nki-squiggle nki-squiggle-${found.severity}` : ''}` },
      piece.text,
    ),
  );
}

function markRow(row: HTMLElement, { store }: Context, source: number, line: number): void {
  const { state } = store;
  const current = state.line?.source === source && state.line.line === line;
  if ((row.getAttribute('aria-selected') === 'true') !== current) row.setAttribute('aria-selected', String(current));
  row.classList.toggle('nki-breakpoint', state.breakpoints.has(`${source}:${line}`));
}

/** What is found at the line, else how often it ran and what it costs. */
function footer(context: Context, { findings, shares }: Listing): (Node | null)[] {
  const { run, store } = context;
  const { line } = store.state;
  if (!line) return [];
  const found = findings.get(line.line)?.[0];
  const steps = run.stepsAtLine(line.source, line.line).length;
  const share = shares.get(line.line);
  const go = (by: 1 | -1): void => {
    const step = nextAtLine(run, store.state.step, line, by);
    if (step >= 0) store.select(step);
    store.set({ line });
  };
  const said = [steps ? format.plural(steps, 'step') : 'no steps'];
  if (share && share.critical > 0) said.push(`${format.percent(share.share)} of the critical path`);
  const row = el(
    'div',
    { class: 'nki-source-line' },
    el('b', {}, `Line ${line.line}`),
    el('span', { class: 'nki-quiet nki-ellipsis' }, said.join(' · ')),
    el('span', { class: 'nki-spacer' }),
    steps > 1 && stepButton('previous', 'Previous step of this line', () => go(-1)),
    steps > 1 && stepButton('next', 'Next step of this line', () => go(1)),
  );
  const about = found
    ? el(
        'p',
        { class: `nki-about nki-about-${found.severity}`, title: found.help },
        icon(severityIcon(found.severity), 12),
        el('span', {}, el('b', {}, found.code), ` ${found.message}`),
      )
    : null;
  return [row, about];
}

function stepButton(picture: 'previous' | 'next', label: string, click: () => void): HTMLElement {
  return el(
    'button',
    { type: 'button', class: 'nki-control', 'aria-label': label, title: label, on: { click } },
    icon(picture, 12),
  );
}

/** The line of the cursor between its neighbours, for layouts that show no source otherwise. */
export function createPinned(context: Context): View {
  const { run, store } = context;
  const element = el('section', { class: 'nki-pinned', role: 'region', 'aria-label': 'Source at the cursor' });
  const texts = new Map<number, readonly (readonly Piece[])[]>();
  const largest = Math.max(0, ...run.lines.map(line => line.share));
  const draw = (): void => {
    const { line } = store.state;
    if (!line) {
      replace(element);
      return;
    }
    let lines = texts.get(line.source);
    if (!lines) texts.set(line.source, (lines = highlight(run.sources[line.source]?.text ?? '')));
    const shares = new Map(run.lines.filter(item => item.source === line.source).map(item => [item.line, item]));
    const listing = { lines, shares, findings: findingsByLine(run, line.source) };
    const around = [line.line - 1, line.line, line.line + 1].filter(item => item > 0 && item <= (lines?.length ?? 0));
    const rows = around.map(item => {
      const row = lineRow(context, listing, line.source, item, largest, uniqueId('pinned'));
      row.removeAttribute('role');
      row.removeAttribute('aria-rowindex');
      for (const cell of row.children) cell.removeAttribute('role');
      markRow(row, context, line.source, item);
      row.removeAttribute('aria-selected');
      if (item === line.line) row.setAttribute('aria-current', 'true');
      return row;
    });
    replace(element, ...rows);
  };
  draw();
  return {
    element,
    draw(_, changes) {
      if (changes.has('line') || changes.has('breakpoints') || changes.has('layout')) draw();
    },
    dispose: () => undefined,
  };
}
