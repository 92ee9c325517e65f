/** What the instructions' filter says: "engine:tensor waited>500ns critical k[3]". */
import type { Run } from './types';
import { laneOf, waitedFor } from './words';

export interface Filter {
  /** Why a part of it is not understood; '' if all is. */
  readonly problem: string;
  /** Null where everything passes. */
  readonly accepts: ((step: number) => boolean) | null;
}

type Test = (step: number) => boolean;

const UNITS: Readonly<Record<string, number>> = { ps: 1, ns: 1e3, us: 1e6, µs: 1e6, μs: 1e6, ms: 1e9, s: 1e12 };
export const SYNTAX = 'engine:tensor waited>500ns';
export const HELP =
  'Words match instructions and tiles. engine:, op:, tile: and for: match a part of a name; line:17; critical; ' +
  'waited, runs and start take < or > and a time.';

/** Understand a filter. All its parts must hold. */
export function parseFilter(run: Run, text: string): Filter {
  const tests: Test[] = [];
  for (const part of text.trim().split(/\s+/)) {
    if (!part) continue;
    const test = testOf(run, part.toLowerCase());
    if (typeof test === 'string') return { problem: test, accepts: null };
    tests.push(test);
  }
  return { problem: '', accepts: tests.length ? step => tests.every(test => test(step)) : null };
}

function testOf(run: Run, part: string): Test | string {
  if (part === 'critical') return step => run.rows.critical[step - run.rows.first] === 1;
  const compared = /^(waited|runs|start)([<>])(.*)$/.exec(part);
  if (compared) return comparison(run, compared[1], compared[2], compared[3]);
  const named = /^(engine|op|tile|for|line):(.*)$/.exec(part);
  if (!named) return anyName(run, part);
  const [, field, value] = named;
  switch (field) {
    case 'engine':
      return byLane(run, value);
    case 'op':
      return byOp(run, value);
    case 'line':
      return byLine(run, value);
    case 'for':
      return step => run.rows.wait[step - run.rows.first] > 0 && waitedFor(run, step).toLowerCase().includes(value);
    default:
      return byTile(run, value);
  }
}

function comparison(run: Run, field: string, sign: string, value: string): Test | string {
  const found = /^(\d+\.?\d*|\.\d+)(ps|ns|us|µs|μs|ms|s)?$/.exec(value);
  if (!found) return `"${value}" is not a time such as 500ns`;
  const limit = Number(found[1]) * UNITS[found[2] ?? 'ns'];
  const { rows } = run;
  const column = field === 'waited' ? rows.wait : field === 'runs' ? rows.duration : rows.start;
  return sign === '<' ? step => column[step - rows.first] < limit : step => column[step - rows.first] > limit;
}

function byLane(run: Run, value: string): Test {
  const matches = run.lanes.map(lane => `${lane.label} ${lane.name}`.toLowerCase().includes(value));
  return step => matches[run.rows.lane[step - run.rows.first]];
}

function byOp(run: Run, value: string): Test {
  const known = new Map<number, boolean>();
  return step => {
    const op = run.rows.op[step - run.rows.first];
    let matches = known.get(op);
    if (matches === undefined) known.set(op, (matches = run.op(step).name.toLowerCase().includes(value)));
    return matches;
  };
}

function byTile(run: Run, value: string): Test {
  const matches = run.buffers.map(buffer => buffer.name.toLowerCase().includes(value));
  return step =>
    run.accesses(step).some(access => matches[run.view(access.view).buffer]) ||
    run.label(step).toLowerCase().includes(value);
}

function byLine(run: Run, value: string): Test | string {
  const line = Number(value);
  if (!Number.isInteger(line) || line < 1) return `"${value}" is not a line`;
  const known = new Map<number, boolean>();
  return step => {
    const site = run.rows.site[step - run.rows.first];
    let matches = known.get(site);
    if (matches === undefined) known.set(site, (matches = run.siteOf(step)?.line === line));
    return matches;
  };
}

function anyName(run: Run, value: string): Test {
  const op = byOp(run, value);
  const tile = byTile(run, value);
  return step => op(step) || laneOf(run, step).label.toLowerCase() === value || tile(step);
}
