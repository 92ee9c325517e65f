import { beforeEach, describe, expect, test, vi } from 'vitest';

import { MESSAGE_ID } from '../src/embedded';
import type { Model } from '../src/widget';
import { runMessage } from './messages';

/** What the doors told the visualizers that they mounted. */
interface Mounted {
  root: HTMLElement;
  told: string[];
  store: unknown;
  step: number;
  disposed: boolean;
  move(step: number): void;
}

const mounted: Mounted[] = [];

vi.mock('../src/visualizer', () => ({
  mount(root: HTMLElement) {
    const listeners = new Set<(state: unknown, changes: Set<string>) => void>();
    const made: Mounted = {
      root,
      told: [],
      store: null,
      step: 0,
      disposed: false,
      move(step) {
        made.step = step;
        for (const listener of listeners) listener({ step }, new Set(['step']));
      },
    };
    const store = {
      get state() {
        return { step: made.step, window: { from: 0, to: 10 } };
      },
      goToStep: (step: number) => (made.step = step),
      listen(listener: (state: unknown, changes: Set<string>) => void) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
    mounted.push(made);
    return Object.assign(made, {
      setRun: (run: { steps: number }) => {
        made.store = store;
        made.told.push(`run of ${run.steps}`);
      },
      setProgress: (read: number, total: number) => made.told.push(`${read} of ${total}`),
      setError: (title: string, text: string) => made.told.push(`${title}: ${text}`),
      dispose: () => (made.disposed = true),
    });
  },
}));

beforeEach(() => void mounted.splice(0));

const bytes = (): ArrayBuffer => runMessage({ rows: [0, 1, 2].map(i => ({ start: i, duration: 1 })) });

async function packed(): Promise<string> {
  const stream = new Blob([bytes()]).stream().pipeThrough(new CompressionStream('deflate'));
  return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
}

/** A widget's model without a kernel: what is sent is noted. */
class FakeModel implements Model {
  readonly sent: unknown[] = [];
  readonly values: Record<string, unknown> = { step: -1 };
  saved = 0;
  private readonly listeners = new Map<string, Set<(...args: never[]) => void>>();

  get = (name: string): unknown => this.values[name];
  set(name: string, value: unknown): void {
    this.values[name] = value;
    this.emit(`change:${name}`);
  }
  save_changes = (): void => {
    this.saved++;
  };
  on(event: string, listener: (...args: never[]) => void): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  }
  off = (event: string, listener: (...args: never[]) => void): void => void this.listeners.get(event)?.delete(listener);
  send = (content: unknown): void => void this.sent.push(content);
  emit(event: string, ...args: unknown[]): void {
    for (const listener of this.listeners.get(event) ?? []) listener(...(args as never[]));
  }
  part(from: number, to: number, buffer = bytes()): void {
    const told = { kind: 'part', message: 1, offset: from, total: buffer.byteLength };
    this.emit('msg:custom', told, [new DataView(buffer, from, Math.min(to, buffer.byteLength) - from)]);
  }
}

describe('the widget', () => {
  test('asks once for the run of all its views and puts its parts together', async () => {
    const { default: widget } = await import('../src/widget');
    const model = new FakeModel();
    const ends = [0, 1].map(() => widget.render({ model, el: document.createElement('div') }));
    expect(model.sent).toEqual([{ kind: 'load' }]);
    model.part(0, 80);
    model.part(80, Infinity);
    expect(mounted.map(({ told }) => told)).toEqual([0, 1].map(() => [`80 of ${bytes().byteLength}`, 'run of 3']));
    for (const end of ends) end();
    expect(mounted.every(({ disposed }) => disposed)).toBe(true);
  });

  test('follows the step of the kernel, and tells it that of the page', async () => {
    vi.useFakeTimers();
    const { default: widget } = await import('../src/widget');
    const model = new FakeModel();
    model.values.step = 2;
    const ends = [0, 1].map(() => widget.render({ model, el: document.createElement('div') }));
    model.part(0, Infinity);
    expect(mounted.map(({ step }) => step)).toEqual([2, 2]);
    mounted[0].move(0);
    mounted[0].move(1);
    vi.advanceTimersByTime(1000);
    expect([model.values.step, model.saved, mounted[1].step]).toEqual([1, 1, 2]);
    model.set('step', 0);
    model.set('step', 1);
    expect(mounted.map(({ step }) => step)).toEqual([1, 1]);
    ends[0]();
    model.set('step', 2);
    expect(mounted.map(({ step }) => step)).toEqual([1, 2]);
    vi.useRealTimers();
  });

  test('says what the kernel could not do', async () => {
    const { default: widget } = await import('../src/widget');
    const model = new FakeModel();
    widget.render({ model, el: document.createElement('div') });
    model.emit('msg:custom', { kind: 'failed', text: 'A table is damaged.' });
    expect(mounted[0].told).toEqual(['This run cannot be shown: A table is damaged.']);
  });
});

/** The extension's container as a page with these packages has it. */
async function container(scope: unknown): Promise<(module: string) => Promise<unknown>> {
  await import('../src/labextension');
  const { _JUPYTERLAB } = globalThis as unknown as {
    _JUPYTERLAB: Record<string, { init(scope: unknown): void; get(module: string): Promise<() => unknown> }>;
  };
  _JUPYTERLAB['nki-lab'].init(scope);
  return async module => ((await _JUPYTERLAB['nki-lab'].get(module))() as { default: unknown }).default;
}

const sharing = (value: unknown): unknown => ({ '1.0.0': { get: () => Promise.resolve(() => value) } });

describe('the JupyterLab extension', () => {
  class Widget {
    readonly node = document.createElement('div');
    isDisposed = false;
    addClass(name: string): void {
      this.node.classList.add(name);
    }
    dispose(): void {
      this.isDisposed = true;
    }
  }
  interface Output extends Widget {
    renderModel(model: unknown): Promise<void>;
  }
  interface Extension {
    rank: number;
    rendererFactory: { safe: boolean; mimeTypes: string[]; createRenderer(): Output };
  }
  const MIME = 'application/vnd.nki-lab.run+json';
  const extension = async (): Promise<Extension> => {
    const get = await container({ '@lumino/widgets': sharing({ Widget }) });
    return ((await get('./mimeExtension')) as Extension[])[0];
  };

  test('draws saved runs before widgets do, in untrusted notebooks too', async () => {
    const { rank, rendererFactory } = await extension();
    expect([rank < -10, rendererFactory.safe, rendererFactory.mimeTypes]).toEqual([true, true, [MIME]]);
    const output = rendererFactory.createRenderer();
    const data = { [MIME]: { version: 1, message: await packed() } };
    await output.renderModel({ data });
    await output.renderModel({ data });
    expect(mounted.map(({ told }) => told)).toEqual([['run of 3']]);
    expect(output.node.contains(mounted[0].root)).toBe(true);
    output.dispose();
    expect([mounted[0].disposed, output.isDisposed]).toEqual([true, true]);
  });

  test.each([
    [{ version: 2, message: '' }, 'It is of version 2, this page reads version 1. Run the cell again.'],
    [{ version: 1, message: 'AAAA' }, 'Its bytes are damaged.'],
    [{ version: 1 }, 'The notebook keeps no message.'],
    [null, 'It is of version undefined, this page reads version 1. Run the cell again.'],
  ])('says why it does not draw %j', async (data, text) => {
    const output = (await extension()).rendererFactory.createRenderer();
    await output.renderModel({ data: { [MIME]: data } });
    expect(mounted[0].told).toEqual([`This run cannot be shown: ${text}`]);
  });

  test('has its plugin with and without language servers in the page', async () => {
    const lsp = { ILSPCodeExtractorsManager: {}, ILSPDocumentConnectionManager: {} };
    const notebook = { INotebookTracker: {} };
    const scope = { '@jupyterlab/lsp': sharing(lsp), '@jupyterlab/notebook': sharing(notebook) };
    const withServers = await container(scope);
    const optional = [...Object.values(lsp), notebook.INotebookTracker];
    expect(await withServers('./extension')).toMatchObject({ id: 'nki-lab:plugin', optional });
    const without = await container({});
    expect(await without('./extension')).toMatchObject({ id: 'nki-lab:plugin', optional: [] });
    await expect(without('./other')).rejects.toThrow('./other');
  });
});

describe('the stand-alone page', () => {
  const page = (text: string): HTMLElement => {
    document.body.replaceChildren();
    const script = document.createElement('script');
    Object.assign(script, { id: MESSAGE_ID, type: 'text/plain', textContent: text });
    const root = document.createElement('div');
    root.id = 'nki-lab';
    document.body.append(script, root);
    return root;
  };

  test('draws what it carries in itself', async () => {
    const root = page(await packed());
    const { start } = await import('../src/standalone');
    mounted.splice(0);
    await start(root);
    expect(mounted.map(item => [item.root, item.told])).toEqual([[root, ['run of 3']]]);
  });

  test('says what it cannot read, and takes files where it carries nothing', async () => {
    const { start, show } = await import('../src/standalone');
    const { Feed } = await import('../src/feed');
    mounted.splice(0);
    await start(page('AAAA'));
    await start(page(''));
    expect(mounted.map(({ told }) => told)).toEqual([['This run cannot be shown: Its bytes are damaged.'], []]);
    const feed = new Feed(null);
    feed.attach(mounted[1] as never);
    await show(new Blob([bytes()]), feed);
    expect(mounted[1].told).toEqual(['run of 3']);
  });
});
