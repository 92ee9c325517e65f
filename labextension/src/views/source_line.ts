/** One line of source: its number, marks, share of the critical path, and text. */
import { NO_HUE } from '../_generated/schema';
import { el } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { nearestStep, nextAtLine } from '../lines';
import { cut, highlight } from '../python';
import type { Piece } from '../python';
import type { Context, Finding, LineShare, Run } from '../types';
import { findingsByLine, severityIcon } from './findings';

/** Widest bar of the margin, in pixels. */
const BAR = 40;

/** What is drawn of one source. */
export interface Listing {
  readonly source: number;
  readonly lines: readonly (readonly Piece[])[];
  readonly findings: ReadonlyMap<number, readonly Finding[]>;
  readonly shares: ReadonlyMap<number, LineShare>;
  /** The largest share of a line of the run: its bar is the longest. */
  readonly largest: number;
}

/** Listings of a run's sources, each made when it is first asked for. */
export function createListings(run: Run): (source: number) => Listing {
  const made = new Map<number, Listing>();
  const largest = Math.max(0, ...run.lines.map(line => line.share));
  return source => {
    let listing = made.get(source);
    if (!listing) {
      const shares = run.lines.filter(line => line.source === source);
      listing = {
        source,
        lines: highlight(run.sources[source]?.text ?? ''),
        findings: findingsByLine(run, source),
        shares: new Map(shares.map(share => [share.line, share])),
        largest,
      };
      made.set(source, listing);
    }
    return listing;
  };
}

export function sourceLine(context: Context, listing: Listing, line: number, id: string): HTMLElement {
  const found = listing.findings.get(line)?.[0];
  const pieces = listing.lines[line - 1] ?? [];
  return el(
    'div',
    {
      id,
      class: 'nki-line',
      role: 'row',
      'aria-rowindex': line,
      on: { click: () => choose(context, listing.source, line) },
    },
    el('span', { class: 'nki-line-number', role: 'rowheader' }, found ? mark(found) : null, String(line)),
    el('span', { class: 'nki-line-share', role: 'gridcell' }, ...shareBar(context.run, listing, line)),
    el('span', { class: 'nki-line-text', role: 'gridcell' }, ...textOf(pieces, found)),
  );
}

/** Whether a line is that of the cursor, and has a breakpoint. */
export function markLine(row: HTMLElement, { store }: Context, source: number, line: number): boolean {
  const { state } = store;
  const current = state.line?.source === source && state.line.line === line;
  row.classList.toggle('nki-breakpoint', state.breakpoints.has(`${source}:${line}`));
  return current;
}

/** The first click goes to the step nearest to the cursor, further ones to the line's next steps. */
function choose({ run, store }: Context, source: number, line: number): void {
  const { state } = store;
  const same = state.line?.source === source && state.line.line === line;
  const next = same ? nextAtLine(run, state.step, { source, line }, 1) : nearestStep(run, state, { source, line });
  if (next >= 0) store.select(next);
  store.set({ line: { source, line } });
}

function mark({ severity, code, message }: Finding): HTMLElement {
  const title = `${code} ${message}`;
  return el('span', { class: `nki-mark nki-mark-${severity}`, title }, icon(severityIcon(severity), 11));
}

function shareBar(run: Run, { shares, largest }: Listing, line: number): HTMLElement[] {
  const found = shares.get(line);
  if (!found || found.share < 0.0005) return [];
  const hue = run.lanes[found.lane]?.hue ?? NO_HUE;
  const width = `${Math.max(1, (BAR * found.share) / Math.max(largest, 1e-9)).toFixed(1)}px`;
  const text = format.percent(found.share);
  const title = `${format.time(found.critical)} on the critical path, ${format.time(found.busy)} of work`;
  return [
    el('i', { class: 'nki-share-bar', style: { '--hue': `var(--nki-${hue})`, width } }),
    el('span', { title }, text),
  ];
}

function textOf(pieces: readonly Piece[], found: Finding | undefined): HTMLElement[] {
  if (!found) return pieces.map(piece => el('span', { class: `nki-py-${piece.kind}` }, piece.text));
  const end = found.end_line > found.line ? Number.MAX_SAFE_INTEGER : Math.max(found.end_column, found.column + 1);
  return cut(pieces, found.column, end).map(({ kind, text, marked }) => {
    const squiggle = marked ? ` nki-squiggle nki-squiggle-${found.severity}` : '';
    return el('span', { class: `nki-py-${kind}${squiggle}` }, text);
  });
}
