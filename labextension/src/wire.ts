/**
 * Reads messages: a JSON header and columns of numbers, as nki_lab/wire/message.py describes them. Columns are views
 * of the message's own bytes; nothing is copied until somebody asks.
 */

import { ALWAYS_READ, MOST_GROWTH, MOST_MESSAGE, WIRE_MAGIC, WIRE_VERSION, type Header } from './_generated/schema';
import type { Span } from './types';

const START = 16;

export type Numbers =
  Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

const TYPES = {
  u1: Uint8Array,
  i1: Int8Array,
  u2: Uint16Array,
  i2: Int16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

interface Entry {
  readonly dtype: string;
  readonly offset: number;
  readonly length: number;
  readonly delta?: boolean;
}

/** A message that cannot be read; the text says why, for the page. */
export class WireError extends Error {
  override readonly name = 'WireError';
}

export class Message {
  readonly first: number;
  readonly count: number;
  /** The picoseconds between which its rows show all that happens. */
  readonly span: Span;
  private readonly entries: Readonly<Record<string, Readonly<Record<string, Entry>>>>;

  constructor(
    private readonly buffer: ArrayBuffer,
    private readonly start: number,
    private readonly end: number,
    /** A message that only brings rows has none of it. */
    readonly header: Header,
  ) {
    const told = header as unknown as Readonly<Record<string, unknown>>;
    const number = (name: string): number => (typeof told[name] === 'number' ? told[name] : 0);
    this.first = number('first');
    this.count = number('count');
    this.span = { from: number('from'), to: number('until') };
    if (typeof told.tables !== 'object' || told.tables === null) throw new WireError('It names no tables.');
    this.entries = told.tables as Readonly<Record<string, Readonly<Record<string, Entry>>>>;
  }

  /** True if it carries that table, and that column of it. */
  has(table: string, column?: string): boolean {
    const found = this.entries[table];
    return found !== undefined && (column === undefined || column in found);
  }

  /** Rows of a table; 0 where there is none. */
  length(table: string): number {
    const columns = Object.values(this.entries[table] ?? {});
    return columns[0]?.length ?? 0;
  }

  /** A column as it was sent; differences are added up. */
  column(table: string, name: string): Numbers {
    const entry = this.entries[table]?.[name];
    if (entry === undefined) throw new WireError(`The column ${table}.${name} is missing.`);
    const Type = (TYPES as Partial<Record<string, (typeof TYPES)[keyof typeof TYPES]>>)[entry.dtype];
    if (Type === undefined) throw new WireError(`The column ${table}.${name} is of the unknown type ${entry.dtype}.`);
    const from = this.start + entry.offset;
    const fits = Number.isInteger(from) && entry.offset >= 0 && Number.isInteger(entry.length) && entry.length >= 0;
    if (!fits || from % 8 !== 0 || from + entry.length * Type.BYTES_PER_ELEMENT > this.end)
      throw new WireError(`The column ${table}.${name} is cut off.`);
    const values = new Type(this.buffer, from, entry.length);
    return entry.delta === true ? summed(values) : values;
  }
}

/** The message in a buffer, or in a part of one as anywidget and WebSockets hand it over. WireError if it is none. */
export function decode(given: ArrayBuffer | ArrayBufferView): Message {
  const length = given.byteLength;
  let buffer = ArrayBuffer.isView(given) ? (given.buffer as ArrayBuffer) : given;
  let offset = ArrayBuffer.isView(given) ? given.byteOffset : 0;
  if (offset % 8 !== 0) {
    // Columns of eight bytes must lie at multiples of eight.
    buffer = buffer.slice(offset, offset + length);
    offset = 0;
  }
  if (length < START) throw new WireError(`It has ${length} bytes, fewer than any run.`);
  const head = new DataView(buffer, offset, START);
  if (head.getUint32(0, true) !== WIRE_MAGIC) throw new WireError('These bytes are no run of nki_lab.');
  const version = head.getUint32(4, true);
  if (version !== WIRE_VERSION)
    throw new WireError(`It is of version ${version}, this page reads version ${WIRE_VERSION}. Run the cell again.`);
  const size = head.getUint32(8, true);
  if (START + size > length) throw new WireError('Its header is cut off.');
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, offset + START, size)));
  } catch {
    throw new WireError('Its header is damaged.');
  }
  if (typeof header !== 'object' || header === null) throw new WireError('Its header is damaged.');
  return new Message(buffer, offset + START + size, offset + length, header as Header);
}

/**
 * The bytes of a message that was made compact (zlib), given in base64. WireError where they are damaged, or unpack to
 * more than an honest message does: a few bytes may stand for gigabytes of them.
 */
export async function inflate(base64: string): Promise<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    const text = atob(base64.trim());
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const most = Math.min(MOST_MESSAGE, Math.max(ALWAYS_READ, MOST_GROWTH * packed.length));
    const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      size += part.value.length;
      if (size > most) {
        await reader.cancel();
        throw new WireError(`It unpacks to more than the ${most} bytes that ${packed.length} bytes may stand for.`);
      }
    }
  } catch (error) {
    throw error instanceof WireError ? error : new WireError('Its bytes are damaged.');
  }
  if (parts.length === 1 && parts[0].byteLength === parts[0].buffer.byteLength) return parts[0].buffer as ArrayBuffer;
  const out = new Uint8Array(size);
  let place = 0;
  for (const part of parts) {
    out.set(part, place);
    place += part.length;
  }
  return out.buffer;
}

function summed(values: Numbers): Float64Array {
  const out = new Float64Array(values.length);
  let total = 0;
  for (let i = 0; i < values.length; i++) out[i] = total += values[i];
  return out;
}
