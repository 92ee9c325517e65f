/** Allocations with their names and lifetimes, and memory in use over time. */

import { BUFFER_KINDS, MEMORY_OF, SPACES, TABLES } from '../_generated/schema';
import type { Buffer, Lifetime, TileView } from '../types';
import type { Message, Numbers } from '../wire';
import { lower, upper } from './search';

const BLOCK = 64; // lifetimes, or changes of use, of which one extreme is kept
const NEVER = -1;
/** Columns that messages of earlier versions do not have. */
const LATER: ReadonlySet<string> = new Set(['views.index']);

interface Iteration {
  readonly loop: string;
  readonly value: number;
}

/** Columns of the tables about memory. */
export class Memory {
  private readonly tables: ReadonlyMap<string, Numbers>;
  private made: readonly Buffer[] | null = null;
  private readonly living_: Record<'sbuf' | 'psum', Living | null> = { sbuf: null, psum: null };
  private readonly maxima: Record<'sbuf' | 'psum', Float64Array>;

  constructor(
    message: Message,
    private readonly names: readonly string[],
    private readonly iterationsOf: (iteration: number) => readonly Iteration[],
  ) {
    const tables = new Map<string, Numbers>();
    for (const table of ['views', 'patterns', 'dims', 'buffers', 'lifetimes', 'usage'] as const)
      for (const column of TABLES[table]) {
        // Notebooks keep messages of earlier versions, which lack some.
        if (message.has(table, column)) tables.set(`${table}.${column}`, message.column(table, column));
        else if (!LATER.has(`${table}.${column}`)) message.column(table, column);
      }
    this.tables = tables;
    this.maxima = { sbuf: blockMaxima(this.column('usage.sbuf')), psum: blockMaxima(this.column('usage.psum')) };
  }

  private column(name: string): Numbers {
    return this.tables.get(name)!;
  }

  private value(name: string, place: number): number {
    return this.column(name)[place];
  }

  get buffers(): readonly Buffer[] {
    return (this.made ??= this.build());
  }

  /** The buffers that all views are parts of. */
  get bufferOfViews(): Uint32Array {
    return Uint32Array.from(this.column('views.buffer'));
  }

  /** The buffer that a view is a part of. */
  bufferOf(view: number): number {
    return this.value('views.buffer', view);
  }

  view(id: number): TileView {
    const pattern = this.value('views.pattern', id);
    return {
      buffer: this.bufferOf(id),
      offset: this.value('views.offset', id),
      indirect: this.value('views.indirect', id),
      index: this.tables.get('views.index')?.[id] ?? -1,
      dtype: this.dtype(pattern),
      dims: this.dims(pattern),
    };
  }

  private dtype(pattern: number): string {
    return pattern < 0 ? '' : (this.names[this.value('patterns.dtype', pattern)] ?? '');
  }

  private dims(pattern: number): (readonly [number, number])[] {
    if (pattern < 0) return [];
    const first = this.value('patterns.dim', pattern);
    const rank = this.value('patterns.rank', pattern);
    return Array.from({ length: rank }, (_, i) => [
      this.value('dims.size', first + i),
      this.value('dims.step', first + i),
    ]);
  }

  private build(): Buffer[] {
    const count = this.column('buffers.name').length;
    const lifetimes = this.lifetimes(count);
    const labels = this.labels(count);
    return Array.from({ length: count }, (_, id) => {
      const pattern = this.value('buffers.pattern', id);
      return {
        id,
        name: labels[id],
        space: MEMORY_OF[SPACES[this.value('buffers.space', id)] ?? 'shared_hbm'],
        kind: BUFFER_KINDS[this.value('buffers.kind', id)] ?? 'temp',
        dtype: this.dtype(pattern),
        shape: this.dims(pattern).map(([size]) => size),
        partition: this.value('buffers.partition', id),
        partitions: this.value('buffers.partitions', id),
        byte: this.value('buffers.byte', id),
        partitionBytes: this.value('buffers.partition_bytes', id),
        site: this.value('buffers.site', id),
        lifetime: lifetimes[id] ?? null,
      };
    });
  }

  private lifetimes(count: number): (Lifetime | null)[] {
    const out = new Array<Lifetime | null>(count).fill(null);
    const buffers = this.column('lifetimes.buffer');
    for (let place = 0; place < buffers.length; place++) {
      const end = this.value('lifetimes.end', place);
      const written = this.value('lifetimes.written', place);
      const start = this.value('lifetimes.start', place);
      out[buffers[place]] = {
        start,
        // What nothing writes (an input) is there from the beginning.
        written: written === NEVER ? start : written,
        end,
        firstStep: this.value('lifetimes.first', place),
        lastStep: this.value('lifetimes.last', place),
        writer: this.value('lifetimes.writer', place),
      };
    }
    return out;
  }

  /** Names of buffers; copies of one name get the values of those loops that tell them apart, else a number. */
  private labels(count: number): string[] {
    const names = Array.from({ length: count }, (_, id) => this.names[this.value('buffers.name', id)] ?? '');
    const copies = new Map<string, number[]>();
    for (let id = 0; id < count; id++) {
      const key = `${names[id]}\n${this.value('buffers.site', id)}\n${this.value('buffers.space', id)}`;
      const mine = copies.get(key);
      if (mine === undefined) copies.set(key, [id]);
      else mine.push(id);
    }
    const iterations = this.firstIterations(count);
    const labels = names.map((name, id) => (name === '' ? `tile ${id + 1}` : name));
    for (const ids of copies.values()) {
      if (ids.length === 1 || names[ids[0]] === '') continue;
      const indices = tellApart(ids.map(id => iterations[id] ?? []));
      ids.forEach((id, place) => (labels[id] = `${names[id]}[${indices[place]}]`));
    }
    return labels;
  }

  private firstIterations(count: number): (readonly Iteration[] | undefined)[] {
    const out = new Array<readonly Iteration[] | undefined>(count);
    const buffers = this.column('lifetimes.buffer');
    for (let place = 0; place < buffers.length; place++)
      out[buffers[place]] = this.iterationsOf(this.value('lifetimes.iteration', place));
    return out;
  }

  /** Buffers of a memory that have an address and are in use somewhere in [from, to]. */
  living(space: 'sbuf' | 'psum', from: number, to: number): readonly Buffer[] {
    const living = (this.living_[space] ??= new Living(this.buffers.filter(buffer => buffer.space === space)));
    return living.between(from, to);
  }

  /** Pairs of time and bytes in the fullest partition, from `from` on: each change, or the largest value of each of
   * `count` stretches where there are more changes than that. */
  usage(space: 'sbuf' | 'psum', from: number, to: number, count: number): Float64Array {
    const time = this.column('usage.time');
    const bytes = this.column(`usage.${space}`);
    const first = upper(time, time.length, from) - 1;
    const last = lower(time, time.length, to);
    const out: number[] = [from, first < 0 ? 0 : bytes[first]];
    if (last - first <= count) {
      for (let i = first + 1; i < last; i++) out.push(time[i], bytes[i]);
      return Float64Array.from(out);
    }
    out.length = 0;
    let place = first;
    for (let bucket = 0; bucket < count; bucket++) {
      const until = lower(time, time.length, from + ((to - from) * (bucket + 1)) / count);
      const begin = from + ((to - from) * bucket) / count;
      const most = largest(bytes, this.maxima[space], Math.max(place, 0), Math.max(until, place + 1));
      if (out.length === 0 || out[out.length - 1] !== most) out.push(begin, most);
      place = until - 1;
    }
    return Float64Array.from(out);
  }
}

/** Lifetimes of one memory in order of start, with the latest end of each block of them. */
class Living {
  private readonly buffers: readonly Buffer[];
  private readonly starts: Float64Array;
  private readonly latest: Float64Array;

  constructor(buffers: readonly Buffer[]) {
    const used = buffers.filter(buffer => buffer.lifetime !== null && buffer.byte >= 0);
    this.buffers = used.sort((a, b) => a.lifetime!.start - b.lifetime!.start);
    this.starts = Float64Array.from(this.buffers, buffer => buffer.lifetime!.start);
    this.latest = blockMaxima(Float64Array.from(this.buffers, buffer => buffer.lifetime!.end));
  }

  between(from: number, to: number): readonly Buffer[] {
    const out: Buffer[] = [];
    const until = upper(this.starts, this.starts.length, to);
    for (let place = 0; place < until; place++) {
      if (place % BLOCK === 0 && this.latest[place / BLOCK] < from) {
        place += BLOCK - 1;
        continue;
      }
      const buffer = this.buffers[place];
      if (buffer.lifetime!.end >= from) out.push(buffer);
    }
    return out;
  }
}

/** An index for each iteration, of the loops whose values differ; numbers from 0 where those are not enough. */
export function tellApart(iterations: readonly (readonly Iteration[])[]): string[] {
  // Not by spreading: a call takes no hundred thousand arguments.
  const depth = iterations.reduce((most, iteration) => Math.max(most, iteration.length), 0);
  const chosen: number[] = [];
  for (let level = 0; level < depth; level++)
    if (iterations.some(iteration => iteration[level]?.value !== iterations[0][level]?.value)) chosen.push(level);
  const indices = iterations.map(iteration => chosen.map(level => iteration[level]?.value ?? '–').join(', '));
  return new Set(indices).size === iterations.length ? indices : iterations.map((_, number) => String(number));
}

function blockMaxima(values: Numbers): Float64Array {
  const out = new Float64Array(Math.ceil(values.length / BLOCK)).fill(-Infinity);
  for (let i = 0; i < values.length; i++) {
    const block = Math.floor(i / BLOCK);
    if (values[i] > out[block]) out[block] = values[i]!;
  }
  return out;
}

/** The largest of the values from place `low` to before `high`. */
function largest(values: Numbers, blocks: Float64Array, low: number, high: number): number {
  let most = 0;
  for (let i = low; i < high; i++) {
    if (i % BLOCK === 0 && i + BLOCK <= high) {
      most = Math.max(most, blocks[i / BLOCK]);
      i += BLOCK - 1;
    } else most = Math.max(most, values[i]);
  }
  return most;
}
