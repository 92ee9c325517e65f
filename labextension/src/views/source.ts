/** The source: what each line costs, where the cursor stands, what was found; a click leads to a line's steps. */
import { el, replace, setAttribute, setText, uniqueId } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { nextAtLine, toLine } from '../lines';
import type { Changes, Context, Finding, State, View } from '../types';
import { createVirtual } from '../virtual';
import type { Virtual } from '../virtual';
import { severityIcon } from './findings';
import type { Listing } from './source_line';
import { createListings, markLine, sourceLine } from './source_line';

const ROW = 19;
const PAGE = 15;
/** A kernel of this many lines has all of them on the page once they were seen. */
const KEPT = 400;
/** What of the state is drawn here. */
const DRAWN: readonly (keyof State)[] = ['line', 'step', 'breakpoints', 'layout', 'panel', 'tab', 'away', 'edited'];

export function createSource(context: Context): View {
  return new SourceView(context);
}

class SourceView implements View {
  readonly element: HTMLElement;
  private readonly listings: (source: number) => Listing;
  private shown: number;
  private readonly choice: HTMLSelectElement;
  private readonly foot = el('div', { class: 'nki-source-foot' });
  private readonly empty = el('p', { class: 'nki-quiet nki-pad' });
  private readonly edited = el(
    'p',
    { class: 'nki-source-edited', hidden: true },
    icon('information', 12),
    'This is the source that ran. Its cell has changed since.',
  );
  private readonly virtual: Virtual;

  constructor(private readonly context: Context) {
    const { run, store } = context;
    this.listings = createListings(run);
    this.shown = store.state.line?.source ?? run.lines[0]?.source ?? 0;
    this.choice = this.createChoice();
    this.virtual = this.createLines();
    const path = run.sources[0]?.path ?? '';
    const name = el('span', { class: 'nki-quiet nki-ellipsis', title: path }, format.fileName(path));
    const head = el(
      'div',
      { class: 'nki-panel-head' },
      el('h3', {}, 'Source'),
      run.sources.length > 1 ? this.choice : name,
      el('span', { class: 'nki-spacer' }),
      el('span', { class: 'nki-quiet nki-no-wrap' }, 'share of critical path'),
    );
    this.element = el(
      'section',
      { class: 'nki-source nki-panel', role: 'region', 'aria-label': 'Source' },
      head,
      this.edited,
      this.empty,
      this.virtual.element,
      this.foot,
    );
    this.open();
    this.refresh(store.state);
  }

  draw(state: State, changes: Changes): void {
    if (DRAWN.some(name => changes.has(name))) this.refresh(state);
  }

  reload(): void {
    this.virtual.refresh();
    this.refresh(this.context.store.state);
  }

  dispose(): void {
    this.virtual.dispose();
  }

  private get listing(): Listing {
    return this.listings(this.shown);
  }

  private createChoice(): HTMLSelectElement {
    const options = this.context.run.sources.map(({ path }, index) =>
      el('option', { value: index, title: path }, format.fileName(path)),
    );
    const choice = el('select', { class: 'nki-file', 'aria-label': 'Source file' }, ...options);
    choice.addEventListener('change', () => {
      this.shown = Number(choice.value);
      this.open();
    });
    return choice;
  }

  private createLines(): Virtual {
    const ids = uniqueId('line');
    const virtual = createVirtual({
      rowHeight: ROW,
      kept: KEPT,
      class: 'nki-code-lines',
      attributes: { role: 'grid', 'aria-label': 'Source lines' },
      render: index => sourceLine(this.context, this.listing, index + 1, `${ids}-${index + 1}`),
      update: (row, index) => {
        setAttribute(row, 'aria-selected', String(markLine(row, this.context, this.shown, index + 1)));
      },
    });
    virtual.element.addEventListener('keydown', event => this.key(event));
    return virtual;
  }

  private key(event: KeyboardEvent): void {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -PAGE, PageDown: PAGE }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const { run, store } = this.context;
    const line = (store.state.line?.line ?? 0) + by;
    toLine(run, store, { source: this.shown, line: Math.min(Math.max(line, 1), this.listing.lines.length) });
  }

  /** Show another file. */
  private open(): void {
    const { run } = this.context;
    const { lines } = this.listing;
    const isThere = (run.sources[this.shown]?.text ?? '') !== '';
    this.empty.hidden = isThere;
    this.virtual.element.hidden = !isThere;
    setText(this.empty, run.sources.length ? 'The text of this file was not recorded.' : 'No source was recorded.');
    this.choice.value = String(this.shown);
    this.virtual.element.setAttribute('aria-rowcount', String(lines.length));
    const widths = lines.map(pieces => pieces.reduce((sum, piece) => sum + piece.text.length, 0));
    this.virtual.element.style.setProperty(
      '--columns',
      String(widths.reduce((most, width) => Math.max(most, width), 0)),
    );
    this.virtual.setCount(isThere ? lines.length : 0);
  }

  private refresh({ line, edited }: State): void {
    if (line && line.source !== this.shown) {
      this.shown = line.source;
      this.open();
    }
    this.edited.hidden = !edited.has(this.shown);
    if (line) this.virtual.reveal(line.line - 1);
    this.virtual.update();
    const row = line ? this.virtual.rowAt(line.line - 1) : null;
    setAttribute(this.virtual.element, 'aria-activedescendant', row?.id);
    replace(this.foot, ...footer(this.context, this.listing));
  }
}

/** How often the line ran and what it costs, and what was found there. */
function footer(context: Context, { findings, shares }: Listing): (Node | null)[] {
  const { run, store } = context;
  const { line } = store.state;
  if (!line) return [];
  const steps = run.stepsAtLine(line.source, line.line).length;
  const share = shares.get(line.line);
  const said = [steps ? format.plural(steps, 'step') : 'no steps'];
  if (share && share.critical > 0) said.push(`${format.percent(share.share)} of the critical path`);
  const text = said.join(' · ');
  const go = (by: 1 | -1) => (): void => {
    const step = nextAtLine(run, store.state.step, line, by);
    if (step >= 0) store.select(step);
    store.set({ line });
  };
  const found = findings.get(line.line)?.[0];
  return [
    el(
      'div',
      { class: 'nki-source-line' },
      el('b', {}, `Line ${line.line}`),
      el('span', { class: 'nki-quiet nki-ellipsis', title: text }, text),
      el('span', { class: 'nki-spacer' }),
      steps > 1 && stepButton('previous', 'Previous step of this line', go(-1)),
      steps > 1 && stepButton('next', 'Next step of this line', go(1)),
    ),
    found ? about(found) : null,
  ];
}

function about({ severity, code, message, help }: Finding): HTMLElement {
  return el(
    'p',
    { class: `nki-about nki-about-${severity}`, title: help },
    icon(severityIcon(severity), 12),
    el('span', {}, el('b', {}, code), ` ${message}`),
  );
}

function stepButton(picture: 'previous' | 'next', label: string, click: () => void): HTMLElement {
  const look = { type: 'button', class: 'nki-control', 'aria-label': label, title: label };
  return el('button', { ...look, on: { click } }, icon(picture, 12));
}
