// @vitest-environment node
import { describe, expect, test, vi } from 'vitest';

import { extractor, leaveToOthers } from '../src/plugin';

describe('the extractor', () => {
  test.each([
    ['%%nki\nx = 1', 'code', true],
    ['%%nki --target trn2\nx = 1', 'code', true],
    ['%%nkix\nx = 1', 'code', false],
    [' %%nki\nx = 1', 'code', false],
    ['x = 1', 'code', false],
    ['%%nki\nx = 1', 'markdown', false],
  ])('takes %j in a %s cell: %s', (code, cell, taken) => {
    expect(extractor.hasForeignCode(code, cell)).toBe(taken);
  });

  test.each([
    ['%%nki\nx = 1\n  y = é🜂', 'x = 1\n  y = é🜂', { line: 2, column: 9 }],
    ['%%nki --strict\n', '', { line: 1, column: 0 }],
    ['%%nki', '', { line: 1, column: 0 }],
  ])('gives what is below the magic line of %j', (code, body, end) => {
    expect(extractor.extractForeignCode(code)).toEqual([
      { hostCode: '', foreignCode: body, range: { start: { line: 1, column: 0 }, end }, virtualShift: null },
    ]);
  });
});

/** A signal of one slot at a time. */
function signal(): {
  connect(slot: (...args: unknown[]) => void): boolean;
  disconnect(): boolean;
  emit(value?: unknown): void;
} {
  let listener: ((...args: unknown[]) => void) | null = null;
  return {
    connect: slot => ((listener = slot), true),
    disconnect: () => ((listener = null), true),
    emit: value => listener?.(null, value),
  };
}

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('jupyterlab-lsp, where the server has no extension of ours', () => {
  test('gets the extractor where the page has language servers', () => {
    const register = vi.fn();
    leaveToOthers({ extractors: { register }, connections: null, notebooks: null });
    leaveToOthers({ extractors: null, connections: null, notebooks: null });
    expect(register).toHaveBeenCalledExactlyOnceWith(extractor, 'python');
  });

  test('looks for cells as soon as a notebook and the servers are ready', async () => {
    const [widgetAdded, sessionsChanged] = [signal(), signal()];
    const updateDocuments = vi.fn(() => Promise.resolve());
    const ready = Promise.resolve();
    const adapters = new Map<string, unknown>([
      ['a.ipynb', { ready, isDisposed: false, updateDocuments }],
      ['gone.ipynb', { ready, isDisposed: true, updateDocuments }],
      ['a.py', { isDisposed: false, updateDocuments }],
    ]);
    const sessions = new Map<string, unknown>();
    const connections = { adapters, languageServerManager: { sessions, sessionsChanged } };
    leaveToOthers({ extractors: null, connections, notebooks: { widgetAdded, forEach: () => undefined } } as never);
    widgetAdded.emit({ context: { path: 'a.ipynb', ready } });
    await settled();
    expect(updateDocuments).not.toHaveBeenCalled();
    sessionsChanged.emit();
    await settled();
    expect(updateDocuments).toHaveBeenCalledOnce();
    sessions.set('nki-ls', {});
    for (const path of ['gone.ipynb', 'a.py', 'b.ipynb']) widgetAdded.emit({ context: { path, ready } });
    await settled();
    expect(updateDocuments).toHaveBeenCalledOnce();
  });
});
