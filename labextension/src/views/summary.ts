/** Where the time goes, by engine; bytes and memory; what was found; the lines that cost most. */
import { DEFINITIONS, FIGURE_LABELS, HUE_LABELS, MEMORY_LABELS, NO_HUE } from '../_generated/schema';
import { drawCharts } from '../charts';
import { el, replace, setStyle } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import { toLine } from '../lines';
import { nameWidth } from '../name_width';
import { swatch } from '../swatch';
import type { Context, Finding, Hue, LaneTime, Run, View } from '../types';
import * as words from '../words';
import { hasPlace, ranked, severityIcon, sourceOf, toFinding } from './findings';

const LINES = 10;
const FINDINGS = 50;
/** Parts of a bar that are narrower than this share of it carry no text. */
const WORDY = 0.07;

/** A bar: an engine, or all DMA queues. */
interface Bar {
  readonly name: string;
  readonly hue: Hue;
  readonly time: LaneTime;
  /** Time before transfers in which none of several queues executes. */
  readonly waiting?: number;
  /** What the time is that nothing of it is said of. */
  readonly rest: string;
}

export function createSummary(context: Context): View {
  const element = el('section', { class: 'nki-summary', role: 'region', 'aria-label': 'Summary' });
  const copy = el(
    'button',
    { type: 'button', class: 'nki-text-button', on: { click: () => void copyText(context) } },
    'Copy as text',
  );
  const charts = chartsPart(context);
  const fill = (): void => {
    const { run } = context;
    replace(
      element,
      el('div', { class: 'nki-summary-top' }, timePart(run, copy), bytesPart(run)),
      findingsPart(context),
      linesPart(context),
      charts,
    );
  };
  fill();
  return { element, draw: () => undefined, reload: fill, dispose: () => undefined };
}

async function copyText({ run, speak }: Context): Promise<void> {
  try {
    await navigator.clipboard.writeText(timesText(run));
    speak('Copied');
  } catch {
    speak('The browser does not allow copying here');
  }
}

/** Where the time went, by lane and along the critical path, in picoseconds. */
export function timesText(run: Run): string {
  const lines = ['lane\trows\tbusy_ps\tslowed_ps\tcritical_ps\twaiting_ps\tempty_ps'];
  run.lanes.forEach(({ label }, index) => {
    const { rows, busy, critical, waits, empty } = run.laneTimes[index];
    const slowed = slowedOf(run.laneTimes[index]);
    const waiting = Object.values(waits).reduce((sum, time) => sum + time, 0);
    if (rows) lines.push([label, rows, busy, slowed, critical, waiting, empty].join('\t'));
  });
  lines.push('', 'critical path\tps');
  for (const [name, time] of Object.entries(run.path.work)) lines.push(`${words.engine(name)} works\t${time}`);
  for (const [name, time] of Object.entries(run.path.waits)) lines.push(`waits for ${words.reason(name)}\t${time}`);
  return `${lines.join('\n')}\n`;
}

function part(title: string, quiet: string, ...content: (Node | null)[]): HTMLElement {
  return el(
    'section',
    { class: 'nki-part', role: 'region', 'aria-label': title },
    el(
      'div',
      { class: 'nki-part-head' },
      el('h3', {}, title),
      quiet !== '' && el('span', { class: 'nki-quiet' }, quiet),
    ),
    ...content,
  );
}

// -- Charts ----------------------------------------------------------------------------------------------------------

/** Charts are drawn when somebody asks for them: their script is large. */
function chartsPart({ charts, speak }: Context): HTMLElement | null {
  if (charts === undefined) return null;
  const place = el('div', { class: 'nki-charts' });
  const said = el('p', { class: 'nki-quiet nki-charts-said', hidden: true });
  const show = (text: string): void => {
    said.textContent = text;
    said.hidden = text === '';
  };
  const draw = (): void => {
    button.disabled = true;
    show('Being drawn …');
    drawCharts(charts, place)
      .then(() => {
        button.hidden = true;
        show('');
        speak('Charts are drawn');
      })
      .catch((error: unknown) => {
        button.disabled = false;
        show(error instanceof Error ? error.message : String(error));
      });
  };
  const button = el('button', { type: 'button', class: 'nki-text-button', on: { click: draw } }, 'Show charts');
  const made = part(
    'Charts',
    'engines, HBM, memory, stalls, roofline, DMA sizes; linked with the timeline',
    said,
    place,
  );
  made.querySelector('.nki-part-head')?.append(button);
  return made;
}

// -- Time ------------------------------------------------------------------------------------------------------------

function timePart(run: Run, copy: HTMLElement): HTMLElement {
  const bars = barsOf(run);
  const rows = bars.map(bar => timeRow(bar, run.makespan));
  const legend = el(
    'div',
    { class: 'nki-legend' },
    ...(
      [
        ['nki-solid', FIGURE_LABELS.critical, DEFINITIONS.critical],
        ['nki-light', 'overlapped', DEFINITIONS.busy],
        ['nki-hatch', FIGURE_LABELS.waiting, DEFINITIONS.waiting],
        ['nki-empty', FIGURE_LABELS.empty, DEFINITIONS.empty],
        ['nki-key-slowed', `of it ${FIGURE_LABELS.slowed}`, DEFINITIONS.slowed],
      ] as const
    ).map(([look, text, title]) =>
      el('span', { title }, el('i', { class: `nki-key ${look}`, 'aria-hidden': 'true' }), text),
    ),
  );
  const made = part(
    'Where the time goes',
    `${format.time(run.makespan)} for each engine`,
    el('div', { class: 'nki-bars', role: 'list' }, ...rows),
    legend,
    pathPart(run),
  );
  setStyle(made, nameWidth(bars.map(({ name }) => name)));
  made.firstElementChild?.append(el('span', { class: 'nki-spacer' }), copy);
  return made;
}

/** Engines with instructions in their order, then DMA by core: of several queues, the time that any of them executes. */
function barsOf(run: Run): readonly Bar[] {
  const out: Bar[] = [];
  const queues = new Map<number, LaneTime[]>();
  run.lanes.forEach((lane, index) => {
    const time = run.laneTimes[index];
    if (!time.rows) return;
    if (lane.kind === 'dma') queues.set(lane.core, [...(queues.get(lane.core) ?? []), time]);
    else out.push({ name: lane.label, hue: lane.hue, time, rest: FIGURE_LABELS.empty });
  });
  for (const [core, times] of [...queues].sort(([one], [other]) => one - other)) {
    const name = run.cores.length > 1 ? `${HUE_LABELS.dma}, ${run.coreName(core)}` : HUE_LABELS.dma;
    if (times.length === 1) out.push({ name, hue: 'dma', time: times[0], rest: FIGURE_LABELS.empty });
    else out.push(together(run, core, name, times));
  }
  return out;
}

/** Queues work and wait side by side, so that only what all of them do together fits into the time of the run. */
function together(run: Run, core: number, name: string, queues: readonly LaneTime[]): Bar {
  const busy = run.dmaTime(core);
  const critical = Math.min(
    queues.reduce((sum, time) => sum + time.critical, 0),
    busy,
  );
  const rows = queues.reduce((sum, time) => sum + time.rows, 0);
  const waiting = run.dmaWaiting(core);
  return {
    name: `${name}, ${queues.length} queues`,
    hue: 'dma',
    time: { busy, critical, waits: {}, empty: run.makespan - busy - (waiting ?? 0), rows },
    waiting: waiting ?? 0,
    rest: waiting === null ? 'no transfer' : FIGURE_LABELS.empty,
  };
}

/** Picoseconds by which instructions of a lane take longer than their own work. */
function slowedOf({ slowed }: LaneTime): number {
  return Object.values(slowed ?? {}).reduce((sum, time) => sum + time, 0);
}

function timeRow({ name, hue, time, rest, waiting }: Bar, makespan: number): HTMLElement {
  const whole = Math.max(makespan, 1);
  const bar = el('div', { class: 'nki-bar' });
  const said: string[] = [];
  const add = (look: string, colour: Hue, amount: number, what: string, text: string): void => {
    const share = amount / whole;
    if (share <= 0) return;
    said.push(`${what} ${format.percent(share)}`);
    bar.append(
      el(
        'i',
        {
          class: `nki-bar-part ${look}`,
          style: {
            '--hue': `var(--nki-${colour})`,
            '--on': `var(--nki-on-${colour})`,
            width: `${(100 * share).toFixed(3)}%`,
          },
          title: `${what}: ${format.time(amount)}, ${format.percent(share)}`,
        },
        share >= WORDY && text !== '' && el('span', {}, text),
      ),
    );
  };
  add('nki-solid', hue, time.critical, 'critical', format.percent(time.critical / whole));
  add('nki-light', hue, time.busy - time.critical, 'overlapped', '');
  let first = true;
  for (const [reason, amount] of Object.entries(time.waits)) {
    const share = amount / whole;
    const text = first && share > 0.3 ? `waits for ${words.shortReason(reason)} ${format.percent(share)}` : '';
    add('nki-hatch', words.reasonHue(reason), amount, `waits for ${words.reason(reason)}`, text);
    first = false;
  }
  add('nki-hatch', hue, waiting ?? 0, FIGURE_LABELS.waiting, '');
  const slowed = slowedOf(time);
  if (slowed > 0) {
    const reasons = Object.keys(time.slowed ?? {})
      .map(words.reason)
      .join(', ');
    const what = `of it ${FIGURE_LABELS.slowed} by ${reasons}`;
    said.push(`${what} ${format.percent(slowed / whole)}`);
    const style = { left: `${(100 * (time.busy - slowed)) / whole}%`, width: `${(100 * slowed) / whole}%` };
    const told = `${what}: ${format.time(slowed)}, ${format.percent(slowed / whole)}`;
    bar.append(el('i', { class: 'nki-bar-slowed', style, title: told }));
  }
  if (time.empty > 0) said.push(`${rest} ${format.percent(time.empty / whole)}`);
  return el(
    'div',
    { class: 'nki-bar-row', role: 'listitem', 'aria-label': `${name}: ${said.join(', ')}` },
    swatch(hue),
    el('span', { class: 'nki-bar-name nki-ellipsis', title: name }, name),
    bar,
    el('span', { class: 'nki-bar-busy', title: DEFINITIONS.busy }, format.percent(time.busy / whole)),
  );
}

/** The critical path, work and waits: they add up to the whole. */
function pathPart(run: Run): HTMLElement | null {
  const whole = Math.max(run.makespan, 1);
  const rows = [
    ...Object.entries(run.path.work).map(([name, time]) => ({
      name: `${words.engine(name)} works`,
      hue: name as Hue,
      look: 'solid' as const,
      time,
    })),
    ...Object.entries(run.path.waits).map(([name, time]) => ({
      name: `waits for ${words.reason(name)}`,
      hue: words.reasonHue(name),
      look: 'hatch' as const,
      time,
    })),
  ].sort((one, other) => other.time - one.time);
  if (!rows.length) return null;
  const list = el('ol', { class: 'nki-path-list' });
  for (const { name, hue, look, time } of rows.slice(0, 6)) {
    list.append(
      el(
        'li',
        {},
        swatch(hue, look),
        el('span', { class: 'nki-ellipsis', title: name }, name),
        el('span', { class: 'nki-number' }, format.time(time)),
        el('span', { class: 'nki-number' }, format.percent(time / whole)),
      ),
    );
  }
  const rest = rows.slice(6).reduce((sum, row) => sum + row.time, 0);
  if (rest > 0)
    list.append(
      el(
        'li',
        {},
        el('i'),
        el('span', {}, `${rows.length - 6} more`),
        el('span', { class: 'nki-number' }, format.time(rest)),
        el('span', { class: 'nki-number' }, format.percent(rest / whole)),
      ),
    );
  return el('div', { class: 'nki-path' }, el('h4', {}, 'Critical path'), list);
}

// -- Bytes and memory --------------------------------------------------------------------------------------------------

function bytesPart(run: Run): HTMLElement {
  const list = el('dl', { class: 'nki-sums' });
  const add = (name: string, value: string, more = '', title = ''): void => {
    list.append(el('div', { title }, el('dt', {}, name), el('dd', {}, value), el('dd', { class: 'nki-quiet' }, more)));
  };
  for (const [name, label] of [
    ['hbm_read_bytes', 'Read from HBM'],
    ['hbm_write_bytes', 'Written to HBM'],
    ['dma_bytes', 'Moved by DMA'],
  ] as const) {
    const value = words.figure(run, name);
    if (value !== null) add(label, format.bytes(value), format.rate(value, run.makespan));
  }
  const flops = words.figure(run, 'flops');
  if (flops)
    add(
      'Arithmetic',
      `${format.shortCount(flops)} flop`,
      run.makespan > 0 ? `${format.significant(flops / run.makespan)} TFLOP/s` : '',
    );
  for (const [name, about] of [
    ['mfu', 'of the Tensor peak'],
    ['hfu', 'of the Tensor peak, all work'],
    ['mbu', 'of the HBM bandwidth'],
  ] as const) {
    const value = words.figure(run, name);
    if (value !== null) add(FIGURE_LABELS[name], format.percent(value), about, DEFINITIONS[name]);
  }
  return part('Bytes and memory', '', list, memoryBar(run, 'sbuf'), memoryBar(run, 'psum'));
}

/** The peak within the capacity, or beyond it. */
function memoryBar(run: Run, space: 'sbuf' | 'psum'): HTMLElement | null {
  const found = run.peak(space);
  const capacity = run.capacity[space];
  if (found === null) return null;
  const peak = found.bytes;
  const over = capacity > 0 && peak > capacity;
  const scale = Math.max(peak, capacity, 1);
  const bar = el(
    'div',
    { class: 'nki-bar nki-capacity', 'aria-hidden': 'true' },
    el('i', {
      class: 'nki-bar-part nki-used',
      style: { width: `${((100 * Math.min(peak, capacity || peak)) / scale).toFixed(2)}%` },
    }),
    over &&
      el('i', {
        class: 'nki-bar-part nki-beyond',
        style: { width: `${((100 * (peak - capacity)) / scale).toFixed(2)}%` },
      }),
  );
  const text = capacity ? format.bytesOf(peak, capacity) : format.bytes(peak);
  const about = over
    ? `${format.bytes(peak - capacity)} over`
    : capacity
      ? `${format.percent(peak / capacity)} at the peak`
      : 'at the peak';
  return el(
    'div',
    { class: 'nki-memory-peak', title: words.livePeak(run, found) },
    el(
      'div',
      { class: 'nki-peak-text' },
      el('b', {}, MEMORY_LABELS[space]),
      el('span', { class: over ? 'nki-over' : '' }, text),
      el(
        'span',
        { class: 'nki-quiet' },
        `live per partition, ${about}${run.cores.length > 1 ? `, ${run.coreName(found.core)}` : ''}`,
      ),
    ),
    bar,
  );
}

// -- Findings and lines ------------------------------------------------------------------------------------------------

function findingsPart(context: Context): HTMLElement {
  const found = ranked(context.run);
  if (!found.length) return part('Findings', '', el('p', { class: 'nki-quiet nki-part-text' }, 'Nothing was found.'));
  const list = el('ul', { class: 'nki-findings' });
  for (const finding of found.slice(0, FINDINGS)) list.append(findingRow(context, finding));
  const more = found.length - FINDINGS;
  if (more > 0) list.append(el('li', { class: 'nki-quiet' }, `and ${format.count(more)} more`));
  return part('Findings', format.count(found.length), list);
}

function findingRow(context: Context, finding: Finding): HTMLElement {
  const { run } = context;
  const file = run.sources.length > 1 ? `${format.fileName(finding.file)} ` : '';
  const isHere = hasPlace(run, finding);
  const place = `${file}line ${finding.line}`;
  return el(
    'li',
    { class: `nki-finding nki-finding-${finding.severity}` },
    el(
      'span',
      { class: 'nki-finding-mark', role: 'img', 'aria-label': finding.severity },
      icon(severityIcon(finding.severity), 14),
    ),
    el('span', { class: 'nki-code nki-quiet' }, finding.code),
    el(
      'div',
      { class: 'nki-finding-text' },
      el('b', {}, finding.message),
      finding.help !== '' && el('span', { class: 'nki-quiet' }, ` ${finding.help}`),
    ),
    finding.line > 0 &&
      (isHere
        ? el('button', { type: 'button', class: 'nki-link', on: { click: () => toFinding(context, finding) } }, place)
        : el(
            'span',
            { class: 'nki-quiet', title: finding.file },
            sourceOf(run, finding) < 0 ? `${format.fileName(finding.file)} line ${finding.line}` : place,
          )),
  );
}

function linesPart(context: Context): HTMLElement | null {
  const { run, store } = context;
  const lines = run.lines.filter(line => line.critical > 0 || line.busy > 0).slice(0, LINES);
  if (!lines.length) return null;
  const largest = Math.max(...lines.map(line => line.share), 1e-9);
  const rows = lines.map(line => {
    const hue = run.lanes[line.lane]?.hue ?? NO_HUE;
    const text = (run.sources[line.source]?.text.split(/\r\n|\r|\n/, line.line)[line.line - 1] ?? '').trim();
    const go = (): void => {
      store.set({ tab: 'explore' });
      toLine(run, store, line);
    };
    return el(
      'li',
      {},
      el('button', { type: 'button', class: 'nki-link', on: { click: go } }, `line ${line.line}`),
      el('span', { class: 'nki-code nki-ellipsis', title: text }, text),
      el(
        'span',
        { class: 'nki-line-bar', 'aria-hidden': 'true' },
        el('i', { style: { '--hue': `var(--nki-${hue})`, width: `${((100 * line.share) / largest).toFixed(1)}%` } }),
      ),
      el(
        'span',
        { class: 'nki-number', title: `${format.time(line.critical)} on the critical path` },
        format.percent(line.share),
      ),
      el('span', { class: 'nki-number nki-quiet' }, `${format.time(line.busy)} of work`),
      el('span', { class: 'nki-number nki-quiet' }, format.plural(line.rows, 'step')),
    );
  });
  return part('Lines that cost most', 'share of the critical path', el('ol', { class: 'nki-costly' }, ...rows));
}
