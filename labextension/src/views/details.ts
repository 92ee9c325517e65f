/** The current instruction in full: when, what it waited for, operands with addresses, neighbours by dependency. */
import { CONFIDENCES, EDGE_LABELS, MEMORY_LABELS, ROLE_LABELS } from '../_generated/schema';
import { el, replace } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { toLine } from '../lines';
import { swatch } from '../swatch';
import type { Context, Edge, Hue, Run, Site, TileView, View } from '../types';
import * as words from '../words';
import { bytesIn, isScattered, touched, type Touched } from './motion/access';
import { named, partitions } from './motion/text';

const EDGES = 4;
const EDGES_MORE = 200;

export function createDetails(context: Context): View {
  const { run, store } = context;
  const head = el('div', { class: 'nki-details-head' });
  const body = el('div', { class: 'nki-details-body' });
  const element = el(
    'section',
    { class: 'nki-details nki-panel', role: 'region', 'aria-label': 'Details', tabindex: -1 },
    head,
    body,
  );
  let drawn = -2;
  const draw = (): void => {
    const { step } = store.state;
    if (step === drawn) return;
    drawn = step;
    if (step < 0 || !run.has(step)) {
      replace(head, el('h3', {}, 'Details'));
      replace(body, el('p', { class: 'nki-quiet' }, step < 0 ? 'No instruction is selected.' : 'Not loaded yet.'));
      return;
    }
    replace(head, ...title(context, step));
    replace(body, facts(context, step), operands(run, step), neighbours(context, step));
  };
  draw();
  return {
    element,
    draw(_, changes) {
      if (changes.has('step')) draw();
    },
    reload() {
      drawn = -2;
      draw();
    },
    dispose: () => undefined,
  };
}

function title(context: Context, step: number): Node[] {
  const { run } = context;
  const place = step - run.rows.first;
  return [
    swatch(words.laneOf(run, step).hue),
    el('h3', { class: 'nki-code nki-ellipsis', title: run.op(step).name }, run.op(step).name),
    el(
      'span',
      { class: 'nki-quiet nki-ellipsis' },
      `#${format.ordinal(step)} · ${format.time(run.rows.duration[place])}`,
    ),
    el('span', { class: 'nki-spacer' }),
    el(
      'button',
      {
        type: 'button',
        class: 'nki-control',
        'aria-label': 'Copy details as text',
        title: 'Copy details as text',
        on: { click: () => void copy(context, asText(run, step)) },
      },
      icon('copy', 14),
    ),
  ];
}

async function copy({ speak }: Context, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    speak('Copied');
  } catch {
    speak('The browser does not allow copying here');
  }
}

/** Lines of the facts: a name, and text with links. */
function facts(context: Context, step: number): HTMLElement {
  const { run } = context;
  const list = el('dl', { class: 'nki-facts-list' });
  const add = (name: string, ...value: (Node | string)[]): void => {
    list.append(el('div', {}, el('dt', {}, name), el('dd', {}, ...value)));
  };
  const { rows } = run;
  const place = step - rows.first;
  const start = rows.start[place];
  const end = start + rows.duration[place];
  const lane = words.laneOf(run, step);
  add(
    'Runs',
    titled(`${format.time(start)} → ${format.time(end)}`, `${format.timeExact(start)} to ${format.timeExact(end)}`),
  );
  add('On', lane.label);
  if (rows.wait[place] > 0) add('Waited', ...waited(run, step));
  if (rows.held[place] > 0 && rows.pace[place] < 0.9995) {
    const slower = run.stalls[rows.held[place]];
    add('Slowed', `to ${format.percent(rows.pace[place])} of its pace by ${words.reason(slower)}`);
  }
  if (rows.ready[place] > end)
    add('Visible', titled(format.time(rows.ready[place]), format.timeExact(rows.ready[place])));
  add('Cost', `${format.timeExact(rows.duration[place])} · ${CONFIDENCES[rows.confidence[place]]}`);
  if (rows.bytes[place] > 0) add('Moves', moves(run, place));
  if (rows.work[place] > 0) add('Work', workOf(run, step));
  const site = run.siteOf(step);
  const iterations = run.iterations(step);
  if (site) add('Source', sourceLink(context, site), iterations.length ? ` · ${iterationText(run, step)}` : '');
  else if (iterations.length) add('Iteration', iterationText(run, step));
  if (rows.critical[place]) add('Path', 'on the critical path');
  const changed = words.change(run, step);
  if (changed) add('Compiler', changed);
  return list;
}

function titled(text: string, title: string): HTMLElement {
  return el('span', { title }, text);
}

function waited(run: Run, step: number): (Node | string)[] {
  const { rows } = run;
  const place = step - rows.first;
  const rest = rows.wait[place] - rows.setup[place];
  const out: (Node | string)[] = [];
  if (rest > 0) {
    const hue = run.stallHue(step, rows.stall[place]);
    out.push(hatched(hue, rest), ` for ${restWords(run, step)}`);
  }
  if (rows.setup[place] > 0) {
    const stall = rows.setupStall[place];
    if (out.length) out.push(', then ');
    out.push(hatched(run.stallHue(step, stall), rows.setup[place]), ` for ${words.reason(run.stalls[stall])}`);
  }
  return out;
}

function hatched(hue: Hue, time: number): HTMLElement {
  return el('span', { class: 'nki-no-wrap' }, swatch(hue, 'hatch'), ` ${format.time(time)}`);
}

function restWords(run: Run, step: number): string {
  return run.rows.stall[step - run.rows.first] > 0 ? words.waitedFor(run, step) : words.reason('none');
}

function moves(run: Run, place: number): string {
  const { bytes, duration } = run.rows;
  const size = format.bytes(bytes[place]);
  return duration[place] > 0 ? `${size} at ${format.rate(bytes[place], duration[place])}` : size;
}

function workOf(run: Run, step: number): string {
  return `${format.count(run.rows.work[step - run.rows.first])} ${run.op(step).workUnit}`.trimEnd();
}

function iterationText(run: Run, step: number): string {
  return run
    .iterations(step)
    .map(iteration => `${iteration.loop} = ${iteration.value}`)
    .join(', ');
}

function sourceLink({ run, store }: Context, site: Site): HTMLElement {
  const path = run.sources[site.source]?.path ?? '';
  return el(
    'button',
    {
      type: 'button',
      class: 'nki-link',
      title: `${path}, line ${site.line}`,
      on: { click: () => toLine(run, store, { source: site.source, line: site.line }) },
    },
    `line ${site.line}`,
  );
}

function operands(run: Run, step: number): HTMLElement | null {
  const accesses = run.accesses(step);
  if (!accesses.length) return null;
  const list = el('ul', { class: 'nki-operands', 'aria-label': 'Operands' });
  for (const access of accesses) {
    const item = touched(run, access.view);
    const name = named(item);
    list.append(
      el(
        'li',
        {},
        el('span', { class: 'nki-quiet' }, ROLE_LABELS[access.role]),
        el(
          'div',
          { class: 'nki-operand' },
          el('span', { class: 'nki-code nki-ellipsis', title: name }, name),
          el('span', { class: 'nki-code nki-quiet' }, shaped(item.view)),
        ),
        el('span', { class: 'nki-quiet nki-where-in' }, place(item)),
      ),
    );
  }
  return list;
}

function shaped(view: TileView): string {
  return `${view.dtype} ${format.shape(view.dims.map(([size]) => size))}`;
}

/** "SBUF 0x10000–0x13FFF, partitions 0–63": what the access touches. */
function place(item: Touched): string {
  const space = MEMORY_LABELS[item.buffer.space];
  const bytes = bytesIn(item);
  if (bytes === null || item.buffer.partition < 0) return space;
  const within = isScattered(item) ? 'within ' : '';
  return `${space} ${within}${format.addressRange(bytes.first, bytes.size)}, ${partitions(item)}`;
}

function neighbours(context: Context, step: number): HTMLElement {
  const { run } = context;
  return el(
    'div',
    { class: 'nki-edges' },
    edges(context, 'Waits for', '[', run.predecessors(step)),
    edges(context, 'Waited for by', ']', run.successors(step)),
  );
}

function edges(context: Context, name: string, key: string, found: readonly Edge[]): HTMLElement | null {
  if (!found.length) return null;
  const sorted = [...found].sort((one, other) => Number(other.binding) - Number(one.binding));
  const list = el('ul', { 'aria-label': name });
  const fill = (limit: number): void => {
    replace(list, ...sorted.slice(0, limit).map(edge => edgeRow(context, edge)));
    const more = sorted.length - limit;
    if (more <= 0) return;
    const show = el(
      'button',
      { type: 'button', class: 'nki-more', on: { click: () => fill(EDGES_MORE) } },
      `+ ${format.count(more)} more`,
    );
    list.append(el('li', {}, limit < EDGES_MORE ? show : `and ${format.count(more)} more`));
  };
  fill(EDGES);
  return el('div', {}, el('h4', {}, name, el('kbd', { 'aria-hidden': 'true' }, key)), list);
}

function edgeRow({ run, store }: Context, edge: Edge): HTMLElement {
  const { step } = edge;
  const known = run.has(step);
  const what = edge.kind === 'lane' ? 'next on its engine' : EDGE_LABELS[edge.kind];
  const label = known ? run.op(step).name : 'not loaded';
  return el(
    'li',
    {},
    known && swatch(words.laneOf(run, step).hue),
    el(
      'button',
      { type: 'button', class: 'nki-link nki-code', on: { click: () => store.select(step) } },
      `#${format.ordinal(step)} ${label}`,
    ),
    el('span', { class: 'nki-quiet nki-ellipsis', title: what }, edge.binding ? `${what}, decides` : what),
  );
}

/** The same with full precision, for a copy. */
function asText(run: Run, step: number): string {
  const { rows } = run;
  const at = step - rows.first;
  const lines = [
    `${run.op(step).name} #${step + 1} ${run.op(step).detail}`.trim(),
    `lane: ${words.laneOf(run, step).label}`,
    `start: ${format.timeExact(rows.start[at])}`,
    `duration: ${format.timeExact(rows.duration[at])} (${CONFIDENCES[rows.confidence[at]]})`,
    `visible: ${format.timeExact(rows.ready[at])}`,
  ];
  if (rows.wait[at] > 0) lines.push(`waited: ${format.timeExact(rows.wait[at])} for ${words.waitedFor(run, step)}`);
  const changed = words.change(run, step);
  if (changed) lines.push(`compiler model: ${changed}`);
  const site = run.siteOf(step);
  if (site) lines.push(`source: ${run.sources[site.source]?.path ?? ''}:${site.line}`);
  for (const iteration of run.iterations(step)) lines.push(`${iteration.loop}: ${iteration.value}`);
  for (const access of run.accesses(step)) {
    const item = touched(run, access.view);
    lines.push(`${ROLE_LABELS[access.role]}: ${named(item)} ${shaped(item.view)}, ${place(item)}`);
  }
  return `${lines.join('\n')}\n`;
}
