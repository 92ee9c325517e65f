/** What every engine does at the cursor: works on what and for how long, or waits for what; and what comes next. */
import { HUE_LABELS, NO_HUE } from '../_generated/schema';
import { el, replace } from '../dom';
import * as format from '../format';
import { after } from './timeline/bars';
import { swatch } from '../swatch';
import type { Context, Hue, Run, View } from '../types';
import * as words from '../words';

/** What a row says. */
interface Now {
  readonly look: 'work' | 'wait' | 'idle';
  readonly hue: Hue;
  /** The step that works, or that waits; -1: none. */
  readonly step: number;
  readonly what: string;
  readonly code: boolean;
  readonly then: string;
}

interface Row {
  readonly name: string;
  readonly hue: Hue;
  readonly lanes: readonly number[];
}

const IDLE: Now = { look: 'idle', hue: NO_HUE, step: -1, what: 'nothing queued', code: false, then: '' };

export function createEngines(context: Context): View {
  const { run, store } = context;
  const cores = run.cores.length > 1 ? ' nki-engine-cores' : '';
  const list = el('div', { class: `nki-engine-rows${cores}`, role: 'list' });
  const element = el(
    'section',
    { class: 'nki-engines nki-panel', role: 'region', 'aria-label': 'Engines now' },
    el(
      'div',
      { class: 'nki-panel-head' },
      el('h3', {}, 'Engines now'),
      el('span', { class: 'nki-spacer' }),
      el('span', { class: 'nki-quiet' }, 'next in queue'),
    ),
    list,
  );
  let rows = rowsOf(run);
  const draw = (): void => {
    const { time } = store.state;
    replace(list, ...rows.map(row => rowElement(context, row, now(run, row, time), next(run, row, time))));
  };
  draw();
  return {
    element,
    draw(_, changes) {
      if (changes.has('time') || changes.has('step')) draw();
    },
    reload() {
      rows = rowsOf(run);
      draw();
    },
    dispose: () => undefined,
  };
}

/** A row for each engine that has instructions, and one for all DMA queues of a core. */
function rowsOf(run: Run): readonly Row[] {
  const used = run.lanes.filter(lane => lane.kind === 'dma' || run.laneSteps(lane.id).length > 0);
  const cores = new Set(used.map(lane => lane.core));
  const queues = new Map<string, number[]>();
  const out: Row[] = [];
  for (const lane of used) {
    if (lane.kind !== 'dma') {
      out.push({ name: lane.label, hue: lane.hue, lanes: [lane.id] });
      continue;
    }
    if (!run.laneSteps(lane.id).length) continue;
    const name = cores.size > 1 ? `${HUE_LABELS.dma}, ${run.coreName(lane.core)}` : HUE_LABELS.dma;
    const found = queues.get(name);
    if (found) found.push(lane.id);
    else queues.set(name, [lane.id]);
  }
  for (const [name, lanes] of queues) out.push({ name, hue: 'dma', lanes });
  return out;
}

function rowElement({ run, store }: Context, row: Row, now: Now, after: number): HTMLElement {
  const text = el('span', { class: now.code ? 'nki-code nki-ellipsis' : 'nki-ellipsis', title: now.what }, now.what);
  const said = now.step >= 0 ? link(store, now.step, text) : text;
  return el(
    'div',
    { class: `nki-engine nki-engine-${now.look}`, role: 'listitem' },
    swatch(row.hue),
    el('span', { class: 'nki-engine-name', title: row.name }, row.name),
    now.look === 'wait' && swatch(now.hue, 'hatch'),
    said,
    now.then !== '' && el('span', { class: 'nki-engine-then' }, now.then),
    el('span', { class: 'nki-spacer' }),
    after >= 0 &&
      link(
        store,
        after,
        el('span', { class: 'nki-quiet nki-ellipsis', title: shortName(run, after) }, shortName(run, after)),
      ),
  );
}

function link(store: Context['store'], step: number, text: HTMLElement): HTMLElement {
  return el('button', { type: 'button', class: 'nki-bare', on: { click: () => store.select(step) } }, text);
}

function shortName(run: Run, step: number): string {
  return run.label(step) || run.op(step).name;
}

/** Of several queues, that with the transfer that ends first, else that which waits shortest. */
function now(run: Run, row: Row, time: number): Now {
  const all = row.lanes.map(lane => laneNow(run, lane, time));
  const working = all.filter(item => item.look === 'work');
  if (working.length > 1) {
    const [first] = working.sort((one, other) => left(run, one.step, time) - left(run, other.step, time));
    return { ...first, then: `${first.then}, ${working.length} in flight` };
  }
  return working[0] ?? all.find(item => item.look === 'wait') ?? IDLE;
}

function left(run: Run, step: number, time: number): number {
  const place = step - run.rows.first;
  return run.rows.start[place] + run.rows.duration[place] - time;
}

function laneNow(run: Run, lane: number, time: number): Now {
  const step = run.laneAt(lane, time);
  if (step >= 0 && left(run, step, time) > 0) {
    return {
      look: 'work',
      hue: run.lanes[lane].hue,
      step,
      what: run.lanes[lane].kind === 'dma' ? shortName(run, step) : run.op(step).name,
      code: true,
      then: `${format.time(left(run, step, time))} left`,
    };
  }
  const waiting = nextOf(run, lane, time);
  if (waiting < 0) return IDLE;
  const { rows } = run;
  const place = waiting - rows.first;
  const begin = rows.start[place] - rows.wait[place];
  if (rows.wait[place] <= 0 || begin > time) return IDLE;
  const isSetup = rows.start[place] - rows.setup[place] <= time;
  const stall = isSetup ? rows.setupStall[place] : rows.stall[place];
  const tile = isSetup ? '' : run.awaited(waiting);
  return {
    look: 'wait',
    hue: run.stallHue(waiting, stall),
    step: waiting,
    what: `waits ${tile || words.shortReason(run.stalls[stall])}`,
    code: false,
    then: format.time(rows.start[place] - time),
  };
}

/** The first step of a lane that starts after a time; -1: none. */
function nextOf(run: Run, lane: number, time: number): number {
  const steps = run.laneSteps(lane);
  const place = after(run, steps, time);
  return place < steps.length ? steps[place] : -1;
}

/** What comes next in a row: the earliest of its lanes. */
function next(run: Run, row: Row, time: number): number {
  let found = -1;
  for (const lane of row.lanes) {
    const step = nextOf(run, lane, time);
    if (step >= 0 && (found < 0 || step < found)) found = step;
  }
  return found;
}
