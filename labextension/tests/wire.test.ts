// @vitest-environment node
import { describe, expect, test } from 'vitest';

import { MessageParts } from '../src/message_parts';
import { decode, inflate, WireError } from '../src/wire';
import { message } from './messages';

async function compact(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...packed));
}

const small = (): ArrayBuffer =>
  message(
    {
      header: { first: 3, count: 2 },
      tables: { t: { a: [1, 2, 300], b: [5, 9, 4], c: [-1, 0, 127] } },
      deltas: ['t.b'],
    },
    { 't.a': 'u2', 't.b': 'i1', 't.c': 'i1' },
  );

describe('a message', () => {
  test('gives its columns in the types that they were sent in', () => {
    const read = decode(small());
    expect(read.column('t', 'a')).toEqual(Uint16Array.from([1, 2, 300]));
    expect(read.column('t', 'c')).toEqual(Int8Array.from([-1, 0, 127]));
    expect([read.first, read.count, read.length('t')]).toEqual([3, 2, 3]);
  });

  test('adds differences up', () => {
    expect(decode(small()).column('t', 'b')).toEqual(Float64Array.from([5, 9, 4]));
  });

  test.each([0, 1, 4, 8])('is read from a part of a buffer that begins at byte %i', offset => {
    const bytes = new Uint8Array(small());
    const larger = new Uint8Array(bytes.length + 32);
    larger.set(bytes, offset);
    const read = decode(new DataView(larger.buffer, offset, bytes.length));
    expect([...read.column('t', 'a')]).toEqual([1, 2, 300]);
  });

  test('says of a table whether it is there', () => {
    expect([decode(small()).has('t'), decode(small()).has('u'), decode(small()).length('u')]).toEqual([true, false, 0]);
  });

  test('comes out of its compact form', async () => {
    const packed = await compact(new Uint8Array(small()));
    expect([...decode(await inflate(` ${packed}\n`)).column('t', 'a')]).toEqual([1, 2, 300]);
  });
});

describe('what is no message', () => {
  const broken: [string, () => unknown][] = [
    ['nothing', () => decode(new ArrayBuffer(0))],
    ['other bytes', () => decode(new ArrayBuffer(64))],
    ['a newer version', () => decode(message({}, {}, 2))],
    ['a header cut off', () => decode(small().slice(0, 40))],
    ['a column cut off', () => decode(small().slice(0, -8)).column('t', 'c')],
    ['a column that is not there', () => decode(small()).column('t', 'z')],
    ['a column of an unknown type', () => decode(message({ tables: { t: { a: [1] } } }, {})).column('t', 'b')],
    ['no tables', () => decode(message({ header: {} }).slice(0, 16))],
  ];
  test.each(broken)('is refused: %s', (_, read) => expect(read).toThrow(WireError));

  test('is refused where its header is damaged', () => {
    const bytes = new Uint8Array(small());
    bytes[16] = 0x58;
    expect(() => decode(bytes.buffer)).toThrow('Its header is damaged.');
  });

  test.each(['', 'AAAA', '!', 'eJ'])('is refused as compact form: %j', async text => {
    await expect(inflate(text)).rejects.toThrow(WireError);
  });

  test('is refused where few bytes unpack to very many, before they are there', async () => {
    const bomb = await compact(new Uint8Array(64 * 2 ** 20));
    expect(bomb.length).toBeLessThan(100_000);
    await expect(inflate(bomb)).rejects.toThrow(/^It unpacks to more than the \d+ bytes/);
  });

  test('is refused as compact form where its end is missing', async () => {
    const packed = await compact(new Uint8Array(small()));
    await expect(inflate(packed.slice(0, -8))).rejects.toThrow(WireError);
  });
});

describe('an answer in parts', () => {
  const part = (offset: number, total: number): [{ message: number; offset: number; total: number }, ArrayBuffer] => [
    { message: 1, offset, total },
    new ArrayBuffer(4),
  ];

  test('is whole when its last part is there', () => {
    const parts = new MessageParts();
    expect(parts.add(...part(0, 8))).toEqual({ whole: null, read: 4 });
    expect(parts.add(...part(4, 8)).whole?.byteLength).toBe(8);
  });

  test.each([
    [0, 2 ** 40],
    [0, -1],
    [0, NaN],
    [6, 8],
    [-4, 8],
    [0.5, 8],
  ])('is refused where a part at %d is none of %d bytes', (offset, total) => {
    expect(() => new MessageParts().add(...part(offset, total))).toThrow(WireError);
  });

  test('is refused where its length changes', () => {
    const parts = new MessageParts();
    parts.add(...part(0, 8));
    expect(() => parts.add(...part(4, 16))).toThrow(WireError);
  });
});
