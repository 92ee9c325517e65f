/** The loaded rows: one stretch of steps, which messages make longer or replace. */

import { ORIGINS, PACE, type TABLES } from '../_generated/schema';
import type { Change, Rows } from '../types';
import { bytes, counts, integers } from './grow';
import { indexOf } from './search';
import type { Message, Numbers } from '../wire';

type Column = Exclude<keyof Rows, 'first' | 'count'>;
type Columns = { -readonly [K in Column]: Rows[K] };

/** As sent, those columns that need no other: the page's name and the message's. */
const PLAIN: readonly (readonly [Column, (typeof TABLES.rows)[number]])[] = [
  ['row', 'row'],
  ['start', 'start'],
  ['duration', 'duration'],
  ['wait', 'wait'],
  ['setup', 'setup'],
  ['lane', 'lane'],
  ['op', 'op'],
  ['site', 'site'],
  ['iteration', 'iteration'],
  ['work', 'work'],
  ['bytes', 'bytes'],
  ['stall', 'stall'],
  ['setupStall', 'setup_stall'],
  ['held', 'held'],
  ['confidence', 'confidence'],
  ['critical', 'critical'],
];

const UNCHANGED: Change = { origin: 'source', standsFor: 1 };

export class LoadedRows {
  first = 0;
  count = 0;
  private capacity = 0;
  private columns: Columns = empty(0);
  /** Of each row the first of its edges, and of the last one the end. */
  edge = new Uint32Array(1);
  private accessViews = counts();
  private accessRoles = bytes();
  private edgeBefore = integers();
  private edgeKinds = bytes();
  private changedSteps = counts();
  private changedOrigins = bytes();
  private changedSums = counts();
  private snapshot: Rows | null = null;

  /** Rows as the views read them; an object of its own after each message. */
  get rows(): Rows {
    return (this.snapshot ??= this.cut());
  }

  /** Forget all rows; the next message may begin anywhere. */
  clear(first: number, capacity: number): void {
    this.first = first;
    this.count = 0;
    this.capacity = capacity;
    this.columns = empty(capacity);
    this.edge = new Uint32Array(capacity + 1);
    this.accessViews = counts();
    this.accessRoles = bytes();
    this.edgeBefore = integers();
    this.edgeKinds = bytes();
    this.changedSteps = counts();
    this.changedOrigins = bytes();
    this.changedSums = counts();
    this.snapshot = null;
  }

  /** What the compiler model did with a step. */
  change(step: number): Change {
    const place = indexOf(this.changedSteps.view(), step);
    if (place < 0) return UNCHANGED;
    return {
      origin: ORIGINS[this.changedOrigins.values[place]] ?? 'source',
      standsFor: this.changedSums.values[place],
    };
  }

  /** Of each access its view. */
  get views(): Uint32Array {
    return this.accessViews.values;
  }

  /** Of each access its role. */
  get roles(): Uint8Array {
    return this.accessRoles.values;
  }

  /** Of each edge the step at its other end. */
  get before(): Int32Array {
    return this.edgeBefore.values;
  }

  /** Of each edge why. */
  get kinds(): Uint8Array {
    return this.edgeKinds.values;
  }

  /** Add the rows of a message, which begins where these end. */
  append(message: Message): void {
    const added = message.length('rows');
    if (this.count + added > this.capacity) this.enlarge(this.count + added);
    const columns = this.columns;
    for (const [name, sent] of PLAIN) columns[name].set(message.column('rows', sent), this.count);
    const at = this.count;
    // Messages of earlier versions have none.
    if (message.has('rows', 'lead')) columns.lead.set(message.column('rows', 'lead'), at);
    const { start, ready, after, pace } = columns;
    const visible = message.column('rows', 'ready');
    const back = message.column('rows', 'after');
    const paces = message.column('rows', 'pace');
    for (let i = 0; i < added; i++) {
      ready[at + i] = start[at + i] + visible[i];
      after[at + i] = back[i] === 0 ? -1 : this.first + at + i - back[i];
      pace[at + i] = paces[i] / PACE;
    }
    addUp(columns.access, at, message.column('rows', 'accesses'));
    addUp(this.edge, at, message.column('rows', 'edges'));
    this.accessViews.append(message.column('accesses', 'view'));
    this.accessRoles.append(message.column('accesses', 'role'));
    this.edgeBefore.append(message.column('edges', 'before'));
    this.edgeKinds.append(message.column('edges', 'kind'));
    // Messages of earlier versions have none.
    if (message.has('changes')) {
      for (const place of message.column('changes', 'place')) this.changedSteps.push(this.first + at + place);
      this.changedOrigins.append(message.column('changes', 'origin'));
      this.changedSums.append(message.column('changes', 'stands_for'));
    }
    const { before, edge } = this;
    for (let i = 0; i < added; i++) {
      const step = this.first + at + i;
      for (let place = edge[at + i]; place < edge[at + i + 1]; place++) before[place] = step - before[place];
    }
    this.count += added;
    this.snapshot = null;
  }

  private enlarge(capacity: number): void {
    const columns = empty(capacity);
    for (const name of Object.keys(columns) as Column[]) columns[name].set(this.columns[name]);
    const edge = new Uint32Array(capacity + 1);
    edge.set(this.edge);
    this.columns = columns;
    this.edge = edge;
    this.capacity = capacity;
  }

  private cut(): Rows {
    const { first, count, columns } = this;
    const entries = Object.entries(columns).map(([name, values]) => [
      name,
      values.subarray(0, name === 'access' ? count + 1 : count),
    ]);
    return { first, count, ...(Object.fromEntries(entries) as Columns) };
  }
}

function empty(capacity: number): Columns {
  return {
    row: new Uint32Array(capacity),
    start: new Float64Array(capacity),
    duration: new Float64Array(capacity),
    ready: new Float64Array(capacity),
    wait: new Float64Array(capacity),
    setup: new Float64Array(capacity),
    lead: new Float64Array(capacity),
    lane: new Uint16Array(capacity),
    op: new Uint32Array(capacity),
    site: new Int32Array(capacity),
    iteration: new Int32Array(capacity),
    access: new Uint32Array(capacity + 1),
    after: new Int32Array(capacity),
    work: new Float64Array(capacity),
    bytes: new Float64Array(capacity),
    pace: new Float32Array(capacity),
    stall: new Uint8Array(capacity),
    setupStall: new Uint8Array(capacity),
    held: new Uint8Array(capacity),
    confidence: new Uint8Array(capacity),
    critical: new Uint8Array(capacity),
  };
}

/** Continue the running sums of `counts` in `ends` after place `at`. */
function addUp(ends: Uint32Array, at: number, counts: Numbers): void {
  let total = ends[at];
  for (let i = 0; i < counts.length; i++) ends[at + i + 1] = total += counts[i];
}
