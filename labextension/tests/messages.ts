/** Messages to test with, made the way nki_lab/wire/message.py makes them. */

type Columns = Readonly<Record<string, readonly number[]>>;

export interface Told {
  readonly header?: Readonly<Record<string, unknown>>;
  readonly tables?: Readonly<Record<string, Columns>>;
  /** Columns sent as differences, as "table.column". */
  readonly deltas?: readonly string[];
}

const MAGIC = [0x4e, 0x4b, 0x49, 0x57];

/** A message with all columns as float64 unless `types` says otherwise. */
export function message(told: Told, types: Readonly<Record<string, string>> = {}, version = 1): ArrayBuffer {
  const entries: Record<string, Record<string, unknown>> = {};
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (const [table, columns] of Object.entries(told.tables ?? {})) {
    entries[table] = {};
    for (const [name, given] of Object.entries(columns)) {
      const key = `${table}.${name}`;
      const delta = told.deltas?.includes(key) ?? false;
      const values = delta ? given.map((value, i) => value - (given[i - 1] ?? 0)) : given;
      const dtype = types[key] ?? 'f8';
      const bytes = bytesOf(values, dtype);
      entries[table][name] = { dtype, offset, length: values.length, ...(delta ? { delta } : {}) };
      parts.push(bytes);
      offset += bytes.length;
    }
  }
  let head = JSON.stringify({ ...told.header, tables: entries }).replace(/[^\0-\x7f]/g, escaped);
  head += ' '.repeat((8 - (head.length % 8)) % 8);
  const out = new Uint8Array(16 + head.length + offset);
  out.set(MAGIC);
  new DataView(out.buffer).setUint32(4, version, true);
  new DataView(out.buffer).setUint32(8, head.length, true);
  out.set(new TextEncoder().encode(head), 16);
  let at = 16 + head.length;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out.buffer;
}

/** A character as JSON can write it in ASCII. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function bytesOf(values: readonly number[], dtype: string): Uint8Array {
  const Types = {
    f8: Float64Array,
    u1: Uint8Array,
    i1: Int8Array,
    u2: Uint16Array,
    i2: Int16Array,
    u4: Uint32Array,
    f4: Float32Array,
  };
  const made = new Types[dtype as keyof typeof Types](values);
  const out = new Uint8Array(Math.ceil(made.byteLength / 8) * 8);
  out.set(new Uint8Array(made.buffer));
  return out;
}

/** A row as tests write it: what is left out is 0, or -1 where that means none. */
export interface RowGiven {
  readonly lane?: number;
  readonly start: number;
  readonly duration: number;
  readonly wait?: number;
  readonly setup?: number;
  readonly stall?: number;
  readonly setupStall?: number;
  readonly after?: number;
  readonly site?: number;
  readonly iteration?: number;
  readonly critical?: number;
  /** [view, role] of each operand. */
  readonly accesses?: readonly (readonly [number, number])[];
  /** [step, kind] of each row that it waits for. */
  readonly edges?: readonly (readonly [number, number])[];
}

/** The tables of rows, which begin at step `first`. */
export function rowTables(rows: readonly RowGiven[], first = 0): Record<string, Columns> {
  const column = (value: (row: RowGiven, step: number) => number): number[] =>
    rows.map((row, i) => value(row, first + i));
  const zero = column(() => 0);
  return {
    rows: {
      row: column((_, step) => step),
      start: column(row => row.start),
      duration: column(row => row.duration),
      ready: column(row => row.duration + 5),
      wait: column(row => row.wait ?? 0),
      setup: column(row => row.setup ?? 0),
      lane: column(row => row.lane ?? 0),
      op: zero,
      site: column(row => row.site ?? -1),
      iteration: column(row => row.iteration ?? -1),
      accesses: column(row => row.accesses?.length ?? 0),
      edges: column(row => row.edges?.length ?? 0),
      after: column((row, step) => (row.after === undefined ? 0 : step - row.after)),
      work: zero,
      bytes: zero,
      pace: column(() => 65535),
      stall: column(row => row.stall ?? 0),
      setup_stall: column(row => row.setupStall ?? 0),
      held: zero,
      confidence: zero,
      critical: column(row => row.critical ?? 0),
    },
    accesses: {
      view: rows.flatMap(row => (row.accesses ?? []).map(([view]) => view)),
      role: rows.flatMap(row => (row.accesses ?? []).map(([, role]) => role)),
    },
    edges: {
      before: rows.flatMap((row, i) => (row.edges ?? []).map(([step]) => first + i - step)),
      kind: rows.flatMap(row => (row.edges ?? []).map(([, kind]) => kind)),
    },
  };
}

export const NAMES = ['', 'nc_matmul', 'fp32', 'k', 'i', 'j', 'kernel', 'out', 'float32', 'bfloat16'] as const;

/** A buffer: name, space, kind, pattern, partition, partitions, byte, bytes of a partition, site. */
export type BufferGiven = readonly [number, number, number, number, number, number, number, number, number];
/** A lifetime: buffer, start, end, first, last, written, writer. */
export type LifetimeGiven = readonly [number, number, number, number, number, number, number];

export interface RunGiven {
  readonly rows?: readonly RowGiven[];
  readonly first?: number;
  readonly steps?: number;
  readonly buffers?: readonly BufferGiven[];
  readonly lifetimes?: readonly LifetimeGiven[];
  readonly usage?: readonly (readonly [number, number, number])[];
  readonly header?: Readonly<Record<string, unknown>>;
  readonly tables?: Readonly<Record<string, Columns>>;
}

function columnsOf(names: readonly string[], records: readonly (readonly number[])[]): Columns {
  return Object.fromEntries(names.map((name, i) => [name, records.map(record => record[i])]));
}

/** A message of a whole run on three lanes. */
export function runMessage(given: RunGiven): ArrayBuffer {
  const rows = given.rows ?? [];
  return message({
    header: {
      kernel: 'kernel',
      target: 'trn2',
      makespan: 1000,
      steps: given.steps ?? rows.length,
      first: given.first ?? 0,
      count: rows.length,
      from: 0,
      until: 1000,
      fault: -1,
      capacity: { sbuf: 196608, psum: 16384, psumBank: 2048, partitions: 128 },
      lanes: [
        { name: 'tensor', kind: 'engine', core: 0 },
        { name: 'vector', kind: 'engine', core: 0 },
        { name: 'dma q0', kind: 'dma', core: 0 },
      ],
      stalls: ['none', 'data from dma', 'anti-dependency', 'table load', 'semaphore'],
      names: NAMES,
      sources: [{ path: 'kernel.py', text: 'é = "🜂"; nl.add(é)\nx = 1\n' }],
      summary: {},
      findings: [],
      path: { work: { tensor: 400 }, waits: { launch: 600 } },
      lane_times: [],
      lines: [{ source: 0, line: 1, critical: 250, busy: 300, rows: 2, lane: 0 }],
      ...given.header,
    },
    tables: {
      ...rowTables(rows, given.first ?? 0),
      views: { buffer: [0, 1], pattern: [0, 2], offset: [0, 0], indirect: [0, 0] },
      patterns: { dtype: [8, 8, 8], dim: [0, 2, 4], rank: [2, 2, 2] },
      dims: { size: [128, 512, 256, 1024, 128, 512], step: [512, 1, 1024, 1, 1024, 1] },
      buffers: columnsOf(
        ['name', 'space', 'kind', 'pattern', 'partition', 'partitions', 'byte', 'partition_bytes', 'site'],
        given.buffers ?? [
          [3, 0, 0, 0, 0, 128, 0, 2048, -1],
          [7, 3, 2, 1, -1, 1, -1, 524288, -1],
        ],
      ),
      sites: { source: [0], line: [1], column: [13], end_line: [0], end_column: [23], function: [6] },
      iterations: { parent: [-1, 0, 0], loop: [4, 5, 5], value: [1, 3, 4], site: [-1, -1, -1] },
      usage: columnsOf(['time', 'sbuf', 'psum'], given.usage ?? []),
      ops: { name: [1], detail: [2] },
      lifetimes: columnsOf(['buffer', 'start', 'end', 'first', 'last', 'written', 'writer'], given.lifetimes ?? []),
      ...given.tables,
    },
    deltas: ['rows.row', 'rows.start'],
  });
}
