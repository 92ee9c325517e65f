/** Allocations with their names and lifetimes, and memory in use over time. */

import { BUFFER_KINDS, MEMORY_OF, SPACES, TABLES } from '../_generated/schema';
import type { Buffer, Lifetime, OnChip, Peak, TileView } from '../types';
import type { Message, Numbers } from '../wire';
import { blockMaxima, BLOCK } from './maxima';
import { upper } from './search';
import { MemoryUse } from './memory_use';

const NEVER = -1;
/** Columns that messages of earlier versions do not have. */
const LATER: ReadonlySet<string> = new Set(['views.index', 'buffers.core']);

/** Columns of the tables about memory. */
export class Memory {
  private readonly tables: ReadonlyMap<string, Numbers>;
  private made: readonly Buffer[] | null = null;
  private readonly livingOf = new Map<string, Living>();
  private readonly use: MemoryUse;

  constructor(
    message: Message,
    private readonly names: readonly string[],
    /** The core of each lane. */
    private readonly laneCores: readonly number[],
  ) {
    const tables = new Map<string, Numbers>();
    for (const table of ['views', 'patterns', 'dims', 'buffers', 'lifetimes'] as const)
      for (const column of TABLES[table]) {
        // Notebooks keep messages of earlier versions, which lack some.
        if (message.has(table, column)) tables.set(`${table}.${column}`, message.column(table, column));
        else if (!LATER.has(`${table}.${column}`)) message.column(table, column);
      }
    this.tables = tables;
    this.use = new MemoryUse(message, laneCores);
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

  /** The cores whose use of memory is known. */
  get cores(): readonly number[] {
    return this.use.cores;
  }

  private build(): Buffer[] {
    const count = this.column('buffers.name').length;
    const lifetimes = this.lifetimes(count);
    const cores = this.tables.get('buffers.core');
    const [onlyCore] = this.laneCores;
    return Array.from({ length: count }, (_, id) => {
      const pattern = this.value('buffers.pattern', id);
      return {
        id,
        // Messages of earlier versions have names without an index, and may have none.
        name: this.names[this.value('buffers.name', id)] || `tile ${id + 1}`,
        space: MEMORY_OF[SPACES[this.value('buffers.space', id)] ?? 'shared_hbm'],
        kind: BUFFER_KINDS[this.value('buffers.kind', id)] ?? 'temp',
        dtype: this.dtype(pattern),
        shape: this.dims(pattern).map(([size]) => size),
        partition: this.value('buffers.partition', id),
        partitions: this.value('buffers.partitions', id),
        byte: this.value('buffers.byte', id),
        partitionBytes: this.value('buffers.partition_bytes', id),
        site: this.value('buffers.site', id),
        // Without the column: the core that writes it.
        core: cores?.[id] ?? this.laneCores[lifetimes[id]?.writer ?? NEVER] ?? onlyCore ?? 0,
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

  /** Buffers of a core's memory that have an address and are in use somewhere in [from, to]. */
  living(space: OnChip, core: number, from: number, to: number): readonly Buffer[] {
    const key = `${space} ${core}`;
    let living = this.livingOf.get(key);
    if (living === undefined) {
      const mine = this.buffers.filter(buffer => buffer.space === space && buffer.core === core);
      this.livingOf.set(key, (living = new Living(mine)));
    }
    return living.between(from, to);
  }

  usage(space: OnChip, core: number, from: number, to: number, count: number): Float64Array {
    return this.use.between(space, core, from, to, count);
  }

  peak(space: OnChip, core?: number): Peak | null {
    return this.use.peak(space, core);
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
