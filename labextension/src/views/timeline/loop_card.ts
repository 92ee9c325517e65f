/** Words about loops: their names in the gutter, the card of an iteration, the list for who does not see them. */
import { FIGURE_LABELS } from '../../_generated/schema';
import { el, type Child } from '../../dom';
import * as format from '../../format';
import type { Loop, Run } from '../../types';
import { fact } from './card';
import type { LoopCell } from './loop_rows';
import type { LoopStrip } from './strips';

/** So many variables of a row are named. */
const NAMED = 3;

/** "for i", "for i, j, … (5)". */
export function loopsWord({ loops }: LoopStrip): string {
  const names = [...new Set(loops.map(loop => loop.variable).filter(name => name !== ''))];
  if (names.length === 0) return loops.length > 1 ? 'loops' : 'loop';
  const more = names.length > NAMED ? `, … (${names.length})` : '';
  return `for ${names.slice(0, NAMED).join(', ')}${more}`;
}

/** The loop that takes most time. */
export function mainLoop({ loops }: LoopStrip): Loop | null {
  return loops.reduce<Loop | null>(
    (best, loop) => (best === null || loop.mean * loop.iterations > best.mean * best.iterations ? loop : best),
    null,
  );
}

/** "64 iterations, 4 of them warm-up; initiation interval 1.44 µs, mean 1.48 µs ± 0.41 µs; 2 outliers". */
export function loopText(run: Run, loop: Loop): string {
  const times = loop.executions > 1 ? ` in ${format.plural(loop.executions, 'execution')}` : '';
  const line = loop.line > 0 ? `, line ${loop.line}` : '';
  const device = loop.kind === 'device' ? ' on the device' : '';
  const place = run.coreName(loop.core);
  const parts = [
    `Loop over ${loop.variable || 'nothing named'}${device}${line}${place === '' ? '' : `, ${place}`}: ` +
      `${format.plural(loop.iterations, 'iteration')}${times}`,
    `${FIGURE_LABELS.initiation} ${format.time(loop.interval)}, mean ${format.time(loop.mean)} ± ${format.time(loop.spread)}`,
  ];
  if (loop.iterations > 1)
    parts.push(
      loop.steady
        ? `steady after ${format.plural(loop.warm_up, 'iteration')} of ${FIGURE_LABELS.warm_up}`
        : `no ${FIGURE_LABELS.steady}`,
    );
  if (loop.outliers > 0) parts.push(format.plural(loop.outliers, 'outlier'));
  return parts.join('; ');
}

const TOLD = 6;

export function loopsTitle({ loops }: LoopStrip, run: Run): string {
  const told = loops.slice(0, TOLD).map(loop => loopText(run, loop));
  return [...told, ...(loops.length > TOLD ? [`+ ${loops.length - TOLD} more`] : [])].join('\n');
}

/** An iteration, or some that follow each other. */
export function loopCard(run: Run, cell: LoopCell): Child[] | null {
  const track = run.loopTrack;
  if (track === null) return null;
  const facts = track.facts(cell.first);
  const { loop } = facts;
  if (cell.count > 1) {
    const values = `${loop.variable} = ${facts.value} … ${track.facts(cell.last).value}`;
    return [
      head(format.plural(cell.count, 'iteration'), values),
      cell.outliers > 0 ? fact('Of them', format.plural(cell.outliers, 'outlier')) : null,
      ...figures(loop),
    ];
  }
  const place = `${format.count(facts.place + 1)} of ${format.count(loop.iterations)}`;
  const state = cell.first === loop.representative ? `${facts.state}, ${FIGURE_LABELS.representative}` : facts.state;
  return [
    head(`${loop.variable} = ${facts.value}`, place),
    fact('Interval', el('b', {}, format.time(facts.interval)), ` · ${state}`),
    fact('Runs', `${format.time(facts.end - facts.begin)} · ${format.time(facts.begin)} → ${format.time(facts.end)}`),
    fact('Has', format.plural(facts.rows, 'instruction')),
    ...figures(loop),
  ];
}

function head(name: string, after: string): HTMLElement {
  return el('div', { class: 'nki-tl-card-head' }, el('b', {}, name), el('span', {}, after));
}

function figures(loop: Loop): Child[] {
  if (loop.iterations < 2) return [loop.line > 0 ? fact('Source', `line ${loop.line}`) : null];
  const steady = loop.steady ? `after ${format.plural(loop.warm_up, 'iteration')} of warm-up` : 'never reached';
  return [
    fact(
      'Loop',
      `${format.time(loop.interval)} an iteration · mean ${format.time(loop.mean)} ± ${format.time(loop.spread)}`,
    ),
    fact('Steady', loop.outliers > 0 ? `${steady} · ${format.plural(loop.outliers, 'outlier')}` : steady),
    fact(
      'Source',
      `${loop.line > 0 ? `line ${loop.line}` : 'unknown'}${loop.kind === 'device' ? ' · on the device' : ''}`,
    ),
  ];
}
