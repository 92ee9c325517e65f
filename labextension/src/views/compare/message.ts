/** What a message of `nki_lab.export.comparison.message` says: the words, and what of the two runs belongs together. */
import type { ComparisonHeader } from '../../_generated/schema';
import { decode, type Message, type Numbers } from '../../wire';

/** The earlier run, and the later one. */
export type Side = 'before' | 'after';

export const SIDES = ['before', 'after'] as const;

export function other(side: Side): Side {
  return side === 'before' ? 'after' : 'before';
}

/** Stretches of both runs that belong together, in the order of the earlier run; times by side. */
export interface Stretches {
  readonly count: number;
  readonly begin: Readonly<Record<Side, Numbers>>;
  readonly end: Readonly<Record<Side, Numbers>>;
  /** What a stretch is called: "i = 3", or a line's number in the header's `lines`. */
  readonly name: (place: number) => string;
}

export interface Comparison {
  readonly header: ComparisonHeader;
  /** Iterations by the number of loops around theirs, outermost loops first; empty where no loop is in both runs. */
  readonly iterations: readonly Stretches[];
  /** Stretches of the earlier run's critical path, by line. */
  readonly lines: Stretches;
  /** The number of the line of a stretch of `lines`. */
  readonly lineOf: Numbers;
  /** The step of the other run that is the same instruction; -1: there is none. */
  partner(side: Side, step: number): number;
  /** Steps of a run that the other one does not have, in order; of a run that is not loaded, too. */
  readonly alone: Readonly<Record<Side, Uint32Array>>;
}

/** WireError if it is damaged. `steps` are those of both runs. */
export function readComparison(
  bytes: ArrayBuffer | ArrayBufferView,
  steps: Readonly<Record<Side, number>>,
): Comparison {
  const message = decode(bytes);
  const header = message.header as unknown as ComparisonHeader;
  const after = Int32Array.from(message.column('partners', 'after'));
  const before = new Int32Array(steps.after).fill(-1);
  after.forEach((step, place) => {
    if (step >= 0 && step < before.length) before[step] = place;
  });
  const lineOf = message.column('stretches', 'line');
  return {
    header,
    iterations: iterationsOf(message, header),
    lines: stretchesOf(message, 'stretches', 0, message.length('stretches'), place => lineName(header, lineOf[place])),
    lineOf,
    partner: (side, step) => (side === 'before' ? after : before)[step] ?? -1,
    alone: { before: unpaired(after), after: unpaired(before) },
  };
}

function unpaired(partners: Int32Array): Uint32Array {
  const out: number[] = [];
  for (let step = 0; step < partners.length; step++) if (partners[step] < 0) out.push(step);
  return Uint32Array.from(out);
}

/** "line 41", of the later run where it has the line. */
export function lineName(header: ComparisonHeader, number: number): string {
  const line = header.lines[number];
  return line === undefined || line.file + line.other_file === '' ? 'no line' : `line ${line.other_line || line.line}`;
}

function iterationsOf(message: Message, header: ComparisonHeader): Stretches[] {
  const [level, loop, value] = ['level', 'loop', 'value'].map(name => message.column('iterations', name));
  const out: Stretches[] = [];
  for (let from = 0; from < level.length;) {
    let to = from;
    while (to < level.length && level[to] === level[from]) to++;
    const begin = from;
    const name = (place: number): string => `${header.loops[loop[begin + place]] ?? ''} = ${value[begin + place]}`;
    out.push(stretchesOf(message, 'iterations', from, to, name));
    from = to;
  }
  return out;
}

function stretchesOf(
  message: Message,
  table: string,
  from: number,
  to: number,
  name: (place: number) => string,
): Stretches {
  const column = (of: string): Numbers => message.column(table, of).subarray(from, to);
  return {
    count: to - from,
    begin: { before: column('begin'), after: column('other_begin') },
    end: { before: column('end'), after: column('other_end') },
    name,
  };
}
