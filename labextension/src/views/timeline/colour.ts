/** What colour a row has: that of its lane, or of its op, line or tensor, of which the eight largest have a tint. */
import { labelOn } from '../../tokens';
import type { ColourBy, Palette, Rows, Run } from '../../types';

export interface Colouring {
  /** Colour of a loaded row. */
  readonly of: (step: number) => string;
  /** Colour of a label on it. */
  readonly on: (colour: string) => string;
  /** What the tints stand for; empty where hue says the engine. */
  readonly keys: readonly Key[];
}

export interface Key {
  readonly label: string;
  readonly colour: string;
}

/** Number of a row's class, by size, or -1: one of the others. */
interface Classes {
  readonly of: (step: number) => number;
  readonly labels: readonly string[];
}

const OTHERS = -1;

export function colouring(run: Run, by: ColourBy, palette: Palette): Colouring {
  if (by === 'engine') return byEngine(run, palette);
  const classes = classesOf(run, by, palette.tints.length);
  const colours = classes.labels.map((_, number) => palette.tints[number] ?? palette.faint);
  return {
    of: step => colours[classes.of(step)] ?? palette.faint,
    on: labelOn,
    keys: classes.labels.map((label, number) => ({ label, colour: colours[number] })),
  };
}

function byEngine(run: Run, palette: Palette): Colouring {
  const colours = run.lanes.map(lane => palette.hue[lane.hue]);
  const labels = new Map(run.lanes.map(lane => [palette.hue[lane.hue], palette.onHue[lane.hue]]));
  const { lane, first } = run.rows;
  return {
    of: step => colours[lane[step - first]] ?? palette.faint,
    on: colour => labels.get(colour) ?? palette.bg,
    keys: [],
  };
}

const known = new WeakMap<Rows, Map<ColourBy, Classes>>();

function classesOf(run: Run, by: Exclude<ColourBy, 'engine'>, count: number): Classes {
  let ofRun = known.get(run.rows);
  if (ofRun === undefined) known.set(run.rows, (ofRun = new Map<ColourBy, Classes>()));
  let classes = ofRun.get(by);
  if (classes === undefined) {
    const makers = { op: byOp, line: byLine, tensor: byTensor };
    ofRun.set(by, (classes = makers[by](run, count)));
  }
  return classes;
}

/** The names with the largest sums, largest first. */
function largest(sums: ReadonlyMap<string, number>, count: number): string[] {
  const names = [...sums].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  return names.slice(0, count).map(([name]) => name);
}

/** By busy time of each op's name. */
function byOp(run: Run, count: number): Classes {
  const { op, duration, first } = run.rows;
  const times: number[] = [];
  const samples: number[] = [];
  for (let place = 0; place < run.rows.count; place++) {
    const id = op[place];
    times[id] = (times[id] ?? 0) + duration[place];
    samples[id] ??= place + first;
  }
  const sums = new Map<string, number>();
  const names: string[] = [];
  samples.forEach((step, id) => {
    const name = run.op(step).name;
    names[id] = name;
    sums.set(name, (sums.get(name) ?? 0) + times[id]);
  });
  const labels = largest(sums, count);
  const numbers = names.map(name => labels.indexOf(name));
  return { of: step => numbers[op[step - first]] ?? OTHERS, labels };
}

/** By share of the critical path, as `run.lines` has them. */
function byLine(run: Run, count: number): Classes {
  const top = run.lines.slice(0, count);
  const numbers = new Map<number, number>();
  const { site, first } = run.rows;
  const find = (id: number): number => {
    const place = id < 0 ? null : run.site(id);
    return place === null ? OTHERS : top.findIndex(one => one.source === place.source && one.line === place.line);
  };
  return {
    of: step => {
      const id = site[step - first];
      let number = numbers.get(id);
      if (number === undefined) numbers.set(id, (number = find(id)));
      return number;
    },
    labels: top.map(one => `line ${one.line}`),
  };
}

const NEVER_WRITTEN = new Set(['input', 'const']);

/** By bytes of all buffers of a name that rows write; k[0] and k[1] are both k. */
function byTensor(run: Run, count: number): Classes {
  const sums = new Map<string, number>();
  const bases = run.buffers.map(buffer => baseName(buffer.name));
  run.buffers.forEach((buffer, at) => {
    if (NEVER_WRITTEN.has(buffer.kind)) return;
    const base = bases[at];
    sums.set(base, (sums.get(base) ?? 0) + Math.max(1, buffer.partitionBytes * buffer.partitions));
  });
  const labels = largest(sums, count);
  const numbers = bases.map(base => labels.indexOf(base));
  return { of: step => numbers[writtenBuffer(run, step)] ?? OTHERS, labels };
}

function baseName(name: string): string {
  return name.replace(/\[.*$/s, '').replace(/[ _]\d+$/, '');
}

/** The buffer that a row writes; if it writes none, the first that it reads; -1: it has none. */
export function writtenBuffer(run: Run, step: number): number {
  const accesses = run.accesses(step);
  const access = accesses.find(one => one.role !== 'read') ?? accesses[0];
  return access === undefined ? -1 : run.view(access.view).buffer;
}
