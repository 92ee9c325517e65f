/** The card of what the pointer is on. */
import { el, replace, setStyle } from '../../dom';
import * as format from '../../format';
import type { Child } from '../../dom';
import { CONFIDENCES, HUE_LABELS } from '../../_generated/schema';
import { WORKS } from '../../run/path';
import { isForATile } from '../../run/words';
import type { Access, Run } from '../../types';
import { laneOf, reason, shortReason, waitedFor } from '../../words';
import type { Bar, Wait } from './bars';
import type { Box, Figure } from './figure';
import type { Hit } from './hit';
import { loopCard } from './loop_card';
import { touching } from './bars';
import type { Piece } from './path';
import { timeOf } from './zoom';

export interface Card {
  readonly element: HTMLElement;
  /** Shows what was hit beside `anchor`, a box in the coordinates of `host`; false if there is nothing to say. */
  show(figure: Figure, hit: Hit, anchor: Box, host: HTMLElement): boolean;
  hide(): void;
}

export function createCard(): Card {
  // What it says of an instruction is in the accessible tree; it never takes the pointer.
  const element = el('div', { class: 'nki-tl-card', 'aria-hidden': 'true', hidden: true });
  return {
    element,
    show(figure, hit, anchor, host) {
      const content = contentOf(figure, hit);
      if (content === null) {
        element.hidden = true;
        return false;
      }
      replace(element, ...content);
      element.hidden = false;
      place(element, anchor, host);
      return true;
    },
    hide() {
      element.hidden = true;
    },
  };
}

/** Below the box; where that leaves the host, beside it, on the side where there is room. */
function place(element: HTMLElement, anchor: Box, host: HTMLElement): void {
  const { width, height } = element.getBoundingClientRect();
  const spot = spotFor({ width, height }, anchor, { width: host.clientWidth, height: host.clientHeight });
  setStyle(element, { left: `${Math.round(spot.x)}px`, top: `${Math.round(spot.y)}px` });
}

interface Size {
  readonly width: number;
  readonly height: number;
}

const GAP = 10;
const MARGIN = 4;

/** Where a card goes that is to leave its anchor uncovered, as far as the room allows. */
export function spotFor(card: Size, anchor: Box, room: Size): { x: number; y: number } {
  const below = anchor.y + anchor.height + GAP;
  const fits = below + card.height <= room.height - MARGIN;
  const right = anchor.x + (fits ? Math.min(anchor.width, 4 * GAP) : anchor.width) + GAP;
  const x = right + card.width <= room.width - MARGIN ? right : anchor.x - card.width - GAP;
  const y = fits ? below : room.height - MARGIN - card.height;
  return {
    x: Math.min(Math.max(MARGIN, x), Math.max(MARGIN, room.width - card.width - MARGIN)),
    y: Math.max(MARGIN, y),
  };
}

function contentOf(figure: Figure, hit: Hit): Child[] | null {
  const { run } = figure;
  if (hit.kind === 'bar')
    return hit.bar.count === 1 ? rowCard(run, hit.bar.step) : blockCard(figure, hit.lane, hit.bar);
  if (hit.kind === 'wait') return waitCard(run, hit.wait);
  if (hit.kind === 'loop') return loopCard(run, hit.cell);
  if (hit.kind === 'column') return columnCard(figure, hit);
  return hit.kind === 'path' ? pathCard(run, hit.piece) : null;
}

/** A piece of the critical path: its row, or what the run waits for there. */
function pathCard(run: Run, piece: Piece): Child[] | null {
  if (piece.reason === WORKS) return rowCard(run, piece.step);
  const { reason: number, from, to, step } = piece;
  const name = run.stalls[number] ?? 'none';
  const length = to - from;
  const swatch = el('i', { class: 'nki-tl-swatch', style: { background: `var(--nki-${piece.hue})` } });
  const tile = piece.count === 1 && isForATile(name) ? run.awaited(step) : '';
  const share = format.percent(length / Math.max(1, run.makespan));
  const title = `Critical path waits ${format.time(length)}`;
  return [
    el('div', { class: 'nki-tl-card-head' }, swatch, el('b', {}, title), el('span', {}, `${share} of the run`)),
    fact(piece.count === 1 ? 'For' : 'Mostly for', el('b', {}, reason(name)), tile && `, ${tile}`),
    fact('From', `${format.time(from)} → ${format.time(to)}`),
    fact('Then', code(run.op(step).name), ` ${run.label(step)}`, ` on ${laneOf(run, step).label}`),
  ];
}

function head(run: Run, step: number, name: string, after: string): HTMLElement {
  const swatch = el('i', { class: 'nki-tl-swatch', style: { background: `var(--nki-${laneOf(run, step).hue})` } });
  return el('div', { class: 'nki-tl-card-head' }, swatch, el('b', {}, name), el('span', {}, after));
}

export function fact(name: string, ...value: Child[]): HTMLElement {
  return el('div', { class: 'nki-tl-card-fact' }, el('span', {}, name), el('span', {}, ...value));
}

function code(text: string): HTMLElement {
  return el('code', {}, text);
}

/** One instruction. */
export function rowCard(run: Run, step: number): Child[] | null {
  if (!run.has(step)) return null;
  const { start, duration, wait, row, confidence, pace, held, first } = run.rows;
  const at = step - first;
  const op = run.op(step);
  const end = start[at] + duration[at];
  const content: Child[] = [head(run, step, op.name, `#${format.ordinal(row[at])}`)];
  if (op.detail !== '') content.push(el('div', { class: 'nki-tl-card-detail' }, code(op.detail)));
  content.push(
    fact('Runs', `${format.time(duration[at])} · ${format.time(start[at])} → ${format.time(end)}`),
    wait[at] > 0 ? fact('Waited', `${format.time(wait[at])} for `, el('b', {}, waitedFor(run, step))) : null,
    operands(
      run,
      'Writes',
      run.accesses(step).filter(access => access.role !== 'read'),
    ),
    operands(
      run,
      'Reads',
      run.accesses(step).filter(access => access.role !== 'write'),
    ),
    fact('Cost', `${format.time(pace[at] * duration[at])} · ${CONFIDENCES[confidence[at]]}`),
    slowedBy(run, (1 - pace[at]) * duration[at], held[at]),
    whereOf(run, step),
    step === run.fault
      ? el(
          'div',
          { class: 'nki-tl-card-fault' },
          run.faultAfter ? 'The run failed after this instruction.' : 'The run failed here.',
        )
      : null,
  );
  return content;
}

/** What made it longer than its own work, if that is half a nanosecond or more. */
function slowedBy(run: Run, time: number, held: number): HTMLElement | null {
  if (held === 0 || time < 500) return null;
  return fact('Slowed', `${format.time(time)} by ${shortReason(run.stalls[held] ?? 'none')}`);
}

const OPERANDS = 3;

function operands(run: Run, name: string, accesses: readonly Access[]): HTMLElement | null {
  if (accesses.length === 0) return null;
  const views = accesses.slice(0, OPERANDS).map(access => {
    const view = run.view(access.view);
    const sizes = view.dims.map(([size]) => size);
    return `${run.buffers[view.buffer]?.name ?? '?'} ${view.dtype} ${format.shape(sizes)}`;
  });
  const more = accesses.length > OPERANDS ? [`+ ${accesses.length - OPERANDS}`] : [];
  return fact(name, code([...views, ...more].join(' · ')));
}

function whereOf(run: Run, step: number): HTMLElement | null {
  const site = run.siteOf(step);
  if (site === null) return null;
  const iterations = run.iterations(step).map(iteration => `${iteration.loop} = ${iteration.value}`);
  return fact('Source', [`line ${site.line}`, ...(iterations.length > 0 ? [iterations.join(', ')] : [])].join(' · '));
}

/** Several rows that are too narrow for bars of their own. */
function blockCard(figure: Figure, lane: number, bar: Bar): Child[] {
  const { run } = figure;
  const { start, duration, first } = run.rows;
  const from = start[bar.step - first];
  const to = start[bar.last - first] + duration[bar.last - first];
  return [
    head(run, bar.step, format.plural(bar.count, 'instruction'), `${format.time(to - from)} from ${format.time(from)}`),
    fact('Busy', format.percent(bar.busy)),
    lane < 0 ? null : longestFact(run, lane, from, to),
  ];
}

function waitCard(run: Run, wait: Wait): Child[] {
  const { start, wait: waits, setup, first } = run.rows;
  const at = wait.step - first;
  const name = laneOf(run, wait.step).label;
  const why = waitedFor(run, wait.step);
  const swatch = el('i', {
    class: 'nki-tl-swatch',
    style: { background: `var(--nki-${run.stallHue(wait.step, wait.stall)})` },
  });
  const own =
    setup[at] > 0 ? `${format.time(setup[at])} for ${reason(run.stalls[run.rows.setupStall[at]] ?? 'none')}` : '';
  return [
    el('div', { class: 'nki-tl-card-head' }, swatch, el('b', {}, `${name} waits ${format.time(waits[at])}`)),
    fact('For', el('b', {}, why)),
    own === '' ? null : fact('Of it', own),
    fact('From', `${format.time(start[at] - waits[at])} → ${format.time(start[at])}`),
    fact('Then', code(run.op(wait.step).name), ` ${run.label(wait.step)}`),
  ];
}

function columnCard(figure: Figure, hit: Hit & { kind: 'column' }): Child[] | null {
  const { run, scale } = figure;
  const found = hit.strip.kind === 'lane' ? figure.lanes.get(hit.strip) : figure.dma.get(hit.strip);
  const sums = found?.columns?.sums;
  if (!sums) return null;
  const at = Math.min(sums.count - 1, Math.max(0, Math.floor((hit.column / scale.width) * sums.count)));
  const lane = run.lanes[hit.lane];
  const name = hit.strip.kind === 'dma' ? HUE_LABELS.dma : lane.label;
  const from = timeOf(scale, hit.column);
  const stall = run.stalls[sums.cause[at]] ?? 'none';
  const waiting = sums.waiting[at] > 0 ? `mostly waiting for ${shortReason(stall)}` : 'no waiting';
  const swatch = el('i', { class: 'nki-tl-swatch', style: { background: `var(--nki-${lane.hue})` } });
  return [
    el(
      'div',
      { class: 'nki-tl-card-head' },
      el('b', {}, format.time(from)),
      el('span', {}, `1 px = ${format.time(sums.width)}`),
    ),
    el(
      'div',
      {},
      swatch,
      ` ${name} ${format.percent(Math.min(1, sums.busy[at] / sums.width))} busy · ${format.count(sums.rows[at])} merged`,
    ),
    el('div', {}, waiting),
    hit.strip.kind === 'lane' ? longestFact(run, hit.lane, from, from + sums.width) : null,
  ];
}

/** So many rows are looked at for the longest one. */
const LOOKED_AT = 20_000;

/** The longest row of a lane within a time; -1: none. */
export function longest(run: Run, lane: number, from: number, to: number): number {
  const steps = run.laneSteps(lane);
  const [begin, end] = touching(run, steps, from, to);
  let best = -1;
  for (let at = begin; at < Math.min(end, begin + LOOKED_AT); at++) {
    const step = steps[at];
    if (best < 0 || run.rows.duration[step - run.rows.first] > run.rows.duration[best - run.rows.first]) best = step;
  }
  return best;
}

function longestFact(run: Run, lane: number, from: number, to: number): HTMLElement | null {
  const step = longest(run, lane, from, to);
  if (step < 0) return null;
  const site = run.siteOf(step);
  const line = site === null ? '' : ` · line ${site.line}`;
  return fact('Longest', code(run.op(step).name), ` ${format.time(run.rows.duration[step - run.rows.first])}${line}`);
}
