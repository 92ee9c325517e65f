// @vitest-environment node
import { describe, expect, test, vi } from 'vitest';

import { replyOf } from '../../src/lab/completion';
import { Connection, PAUSES } from '../../src/lab/connection';
import type { Socket } from '../../src/lab/connection';
import { near } from '../../src/lab/fixes';
import { NotebookText } from '../../src/lab/notebook_text';
import { charactersOf, offsetOf, offsetsIn, positionOf } from '../../src/lab/positions';
import { Rpc } from '../../src/lab/rpc';

const place = (line: number, character: number): { line: number; character: number } => ({ line, character });

describe('positions', () => {
  test.each([
    [place(0, 1), 1],
    [place(0, 9), 2],
    [place(1, 3), 6],
    [place(2, 0), 8],
    [place(7, 0), 9],
  ])('%j is offset %i', (position, offset) => {
    expect(offsetOf('ab\n🜂cd\nx', position)).toBe(offset);
  });

  test('of offsets are those that offsets come from', () => {
    const text = 'ab\n🜂cd\r\nx';
    for (const offset of [0, 2, 3, 5, 7, 9, 10]) expect(offsetOf(text, positionOf(text, offset))).toBe(offset);
  });

  test('edits are made from the last to the first, those of one place in their order', () => {
    const edit = (start: number, end: number, newText: string): object => ({
      range: { start: place(0, start), end: place(0, end) },
      newText,
    });
    let text = 'abcdef';
    const edits = [edit(1, 2, 'B'), edit(4, 4, 'x'), edit(4, 4, 'y')] as never;
    for (const [start, end, given] of offsetsIn(text, edits)) text = text.slice(0, start) + given + text.slice(end);
    expect(text).toBe('aBcdxyef');
  });

  test('characters and units differ where a character takes two', () => {
    expect(charactersOf('a🜂b', 3)).toBe(2);
  });
});

describe('a conversation', () => {
  const made = (): { rpc: Rpc; said: Record<string, unknown>[]; told: unknown[] } => {
    const said: Record<string, unknown>[] = [];
    const told: unknown[] = [];
    const peer = {
      told: (method: string, params: unknown) => void told.push([method, params]),
      asked: (method: string) => (method === 'known' ? null : undefined),
    };
    const rpc = new Rpc(text => void said.push(JSON.parse(text) as Record<string, unknown>), peer);
    return { rpc, said, told };
  };

  test('gives each answer to its request', async () => {
    const { rpc } = made();
    const [one, other] = [rpc.request('a', {}), rpc.request('b', {})];
    rpc.take('{"jsonrpc":"2.0","id":2,"result":[2]}');
    rpc.take('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}');
    await expect(other).resolves.toEqual([2]);
    await expect(one).rejects.toThrow('no');
  });

  test('cancels a request that nobody waits for', async () => {
    const { rpc, said } = made();
    const abort = new AbortController();
    const asked = rpc.request('a', {}, abort.signal);
    abort.abort();
    await expect(asked).rejects.toThrow('cancelled');
    expect(said[1]).toMatchObject({ method: '$/cancelRequest', params: { id: 1 } });
  });

  test('answers what it knows, and refuses the rest', () => {
    const { rpc, said, told } = made();
    for (const method of ['known', 'unknown']) rpc.take(JSON.stringify({ id: method, method }));
    rpc.take('{"method":"news","params":1}');
    for (const text of ['', 'null', '[]', '{"id":7,"result":0}', '{']) rpc.take(text);
    expect(said[0]).toEqual({ jsonrpc: '2.0', id: 'known', result: null });
    expect(said[1]).toMatchObject({ id: 'unknown', error: { code: -32601 } });
    expect(told).toEqual([['news', 1]]);
  });
});

describe('a notebook', () => {
  /** A server's view of a notebook, made of the messages alone. */
  class Mirror {
    cells: string[] = [];
    texts = new Map<string, string>();
    count = 0;

    tell = (method: string, params: object): void => {
      this.count++;
      const { cellTextDocuments, change, notebookDocument } = params as Record<string, never>;
      if (method.endsWith('didOpen')) {
        this.cells = (notebookDocument as { cells: { document: string }[] }).cells.map(cell => cell.document);
        for (const { uri, text } of cellTextDocuments as { uri: string; text: string }[]) this.texts.set(uri, text);
      } else if (method.endsWith('didClose')) this.cells = [];
      else this.change((change as { cells: Change }).cells);
    };

    private change({ structure, textContent }: Change): void {
      if (structure) {
        const { start, deleteCount, cells } = structure.array;
        this.cells.splice(start, deleteCount, ...cells.map(cell => cell.document));
        for (const { uri, text } of structure.didOpen) this.texts.set(uri, text);
        for (const { uri } of structure.didClose) this.texts.delete(uri);
      }
      for (const { document, changes } of textContent ?? []) this.texts.set(document.uri, changes[0].text);
    }
  }

  interface Change {
    structure?: {
      array: { start: number; deleteCount: number; cells: { document: string }[] };
      didOpen: { uri: string; text: string }[];
      didClose: { uri: string }[];
    };
    textContent?: { document: { uri: string }; changes: { text: string }[] }[];
  }

  test('is at the server what it is in the page, whatever happens to its cells', () => {
    const mirror = new Mirror();
    const notebook = new NotebookText('file:///a.ipynb');
    const states = ['ab', 'abc', 'acb', 'xacb', 'cb', 'bc', '', 'q', 'aqb', 'bqa', 'abqa'.slice(0, 3)];
    for (const [round, state] of states.entries()) {
      const cells = Array.from(state).map(uri => ({ uri, text: `${uri} = ${uri < 'b' ? round : 0}` }));
      notebook.sync(cells, mirror.tell);
      expect(mirror.cells).toEqual(cells.map(cell => cell.uri));
      expect(Object.fromEntries(mirror.texts)).toEqual(Object.fromEntries(cells.map(({ uri, text }) => [uri, text])));
      const { count } = mirror;
      notebook.sync(cells, mirror.tell);
      expect(mirror.count).toBe(count); // no news
    }
  });
});

describe('a connection', () => {
  class Fake implements Socket {
    onopen: Socket['onopen'] = null;
    onmessage: Socket['onmessage'] = null;
    onclose: Socket['onclose'] = null;
    send = vi.fn();
    close = vi.fn();
  }

  const made = (): { sockets: Fake[]; connection: Connection; lost: string[]; ready: () => void } => {
    const sockets: Fake[] = [];
    const lost: string[] = [];
    const ready = vi.fn();
    const connection = new Connection({
      open: () => (sockets.push(new Fake()), sockets[sockets.length - 1]),
      first: () => ({}),
      peer: { told: () => undefined, asked: () => undefined },
      ready,
      lost: reason => void lost.push(reason),
    });
    return { sockets, connection, lost, ready };
  };

  test('is ready when the server has answered', async () => {
    const { sockets, connection, ready } = made();
    connection.start();
    connection.start();
    sockets[0].onopen?.();
    expect(connection.rpc).toBeNull();
    sockets[0].onmessage?.({ data: '{"id":1,"result":{}}' });
    await Promise.resolve();
    await Promise.resolve();
    expect(ready).toHaveBeenCalledOnce();
    expect(connection.rpc).not.toBeNull();
    expect(sockets.length).toBe(1);
  });

  test('comes back, slower each time, and gives up with the reason', () => {
    vi.useFakeTimers();
    const { sockets, connection, lost } = made();
    connection.start();
    for (const [index, pause] of PAUSES.entries()) {
      sockets[index].onclose?.({ code: 4001, reason: 'it ended' });
      vi.advanceTimersByTime(pause - 1);
      expect(sockets.length).toBe(index + 1);
      vi.advanceTimersByTime(1);
      expect(sockets.length).toBe(index + 2);
    }
    sockets[PAUSES.length].onclose?.({ code: 4001, reason: 'it ended' });
    vi.advanceTimersByTime(100_000);
    expect(sockets.length).toBe(PAUSES.length + 1);
    expect(lost).toEqual([...PAUSES.map(() => ''), 'it ended']);
    connection.restart();
    expect(sockets.length).toBe(PAUSES.length + 2);
    connection.stop();
    vi.useRealTimers();
  });

  test.each([4000, 4003])('that closes with %i is not tried again', code => {
    const { sockets, connection, lost } = made();
    connection.start();
    sockets[0].onclose?.({ code, reason: 'pip install it' });
    expect(lost).toEqual(['pip install it']);
  });
});

test('completions that begin as typed keep the order of the server, and replace what is typed', () => {
  const edit = (newText: string): object => ({ range: { start: place(0, 3), end: place(0, 5) }, newText });
  const items = [
    { label: 'Stale', sortText: '2', textEdit: edit('Stale()'), tags: [1] },
    { label: 'soon', sortText: '1', textEdit: edit('soon='), kind: 5, labelDetails: { detail: '(x)' } },
    { label: 'x.sole', filterText: 'sole', sortText: '3', textEdit: edit('x.sole') },
    { label: 'other', sortText: '0', textEdit: edit('other') },
  ];
  const reply = replyOf('🜂.s', 4, { items } as never);
  expect([reply.start, reply.end]).toEqual([2, 3]);
  expect(
    reply.items.map(item => [item.label, item.insertText, item.type, item.deprecated, item.documentation]),
  ).toEqual([
    ['soon', 'soon=', 'field', false, '(x)'],
    ['Stale', 'Stale()', '', true, ''],
    ['x.sole', 'x.sole', '', false, ''],
  ]);
});

test('a fix is for the finding at the cursor, else for those of its line', () => {
  const finding = (start: number, end: number): object => ({
    range: { start: place(1, start), end: place(1, end) },
    message: `${start}`,
  });
  const found = [finding(2, 4), finding(8, 9)] as never;
  expect(near(found, place(1, 4)).map(item => item.message)).toEqual(['2']);
  expect(near(found, place(1, 6)).map(item => item.message)).toEqual(['2', '8']);
  expect(near(found, place(2, 0))).toEqual([]);
});
