/** A row of the table of instructions, and the same as text. */
import { el } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { swatch } from '../swatch';
import type { Context, Run } from '../types';
import * as words from '../words';

const BAR = 84;

/** The row of a step, at place `index` of the table; `longest` is the duration with the longest bar. */
export function instructionRow(
  context: Context,
  step: number,
  index: number,
  longest: number,
  id: string,
): HTMLElement {
  const { run, store } = context;
  const select = (): void => store.select(step);
  const open = (): void => store.set({ tab: 'explore' });
  const row = el('div', {
    id,
    class: 'nki-row',
    role: 'row',
    'aria-rowindex': index + 2,
    on: { click: select, dblclick: open },
  });
  if (step === run.fault && !run.faultAfter) row.classList.add('nki-row-fault');
  if (run.change(step).origin === 'left out') row.classList.add('nki-row-out');
  row.append(...cells(run, step, longest));
  return row;
}

function cells(run: Run, step: number, longest: number): HTMLElement[] {
  const { rows } = run;
  const place = step - rows.first;
  const lane = words.laneOf(run, step);
  const duration = rows.duration[place];
  const width = duration > 0 ? Math.max(2, (BAR * duration) / longest) : 0;
  const op = run.op(step);
  const changed = words.change(run, step);
  const isOut = run.change(step).origin === 'left out';
  return [
    cell('nki-c-step', format.ordinal(step)),
    cell('nki-c-engine', swatch(lane.hue), el('span', { class: 'nki-ellipsis', title: lane.label }, lane.label)),
    titled('nki-c-op nki-code', op.name, [`${op.name} ${op.detail}`, changed].filter(Boolean).join('; ')),
    titled('nki-c-operands nki-code', operandText(run, step)),
    titled('nki-c-start', format.time(rows.start[place]), format.timeExact(rows.start[place])),
    cell(
      'nki-c-runs',
      el('span', { title: isOut ? changed : format.timeExact(duration) }, isOut ? '–' : format.time(duration)),
      el('i', { class: 'nki-run-bar', style: { '--hue': `var(--nki-${lane.hue})`, width: `${width.toFixed(1)}px` } }),
    ),
    cell('nki-c-waited', ...waited(run, step)),
    cell('nki-c-critical', ...(rows.critical[place] ? [criticalMark()] : [])),
    cell('nki-c-line', String(run.siteOf(step)?.line ?? '')),
  ];
}

function cell(column: string, ...content: (Node | string)[]): HTMLElement {
  return el('span', { class: column, role: 'gridcell' }, ...content);
}

function titled(column: string, text: string, title = text): HTMLElement {
  return el('span', { class: column, role: 'gridcell', title }, text);
}

function criticalMark(): HTMLElement {
  return el('span', { role: 'img', 'aria-label': 'critical' }, icon('critical', 12));
}

/** "qk[3] ← q[1], k[3]". */
function operandText(run: Run, step: number): string {
  const names = (write: boolean): string => {
    const chosen = run.accesses(step).filter(access => (access.role !== 'read') === write);
    return [...new Set(chosen.map(access => run.buffers[run.view(access.view).buffer].name))].join(', ');
  };
  const [written, read] = [names(true), names(false)];
  return read ? `${written || '–'} ← ${read}` : written;
}

function waited(run: Run, step: number): Node[] {
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

/** Rows for a spreadsheet, with full precision. */
export function instructionsText(run: Run, steps: readonly number[]): string {
  const { rows } = run;
  const lines = ['step\tengine\tinstruction\toperands\tstart_ps\tduration_ps\twait_ps\twaited_for\tcritical\tline'];
  for (const step of steps) {
    if (!run.has(step)) continue;
    const place = step - rows.first;
    const { start, duration, wait, critical } = rows;
    const what = [step + 1, words.laneOf(run, step).label, run.op(step).name, operandText(run, step)];
    const times = [start[place], duration[place], wait[place], words.waitedFor(run, step)];
    lines.push([...what, ...times, critical[place], run.siteOf(step)?.line ?? ''].join('\t'));
  }
  return `${lines.join('\n')}\n`;
}
