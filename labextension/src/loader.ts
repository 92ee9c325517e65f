/**
 * What each widget brings along: it fetches the views once for all widgets of a page. A browser keeps every module that
 * it ever loaded, so that a copy of the views for each widget would fill its memory, run after run.
 */

interface Model {
  on(event: string, listener: (content: Told, buffers?: readonly (ArrayBuffer | ArrayBufferView)[]) => void): void;
  off(event: string, listener: unknown): void;
  send(content: unknown): void;
}

interface Told {
  readonly kind?: string;
  readonly version?: string;
}

interface Context {
  readonly model: Model;
  readonly el: HTMLElement;
}

interface Views {
  readonly default: { render(context: Context): (() => void) | Promise<() => void> };
}

/** A kernel that was asked and did not answer may have been another widget's. */
const PATIENCE_MS = 4000;
const NAME = Symbol.for('nki-lab.views');

const page = globalThis as { [NAME]?: Map<string, Promise<Views>> };

function loaded(script: BlobPart): Promise<Views> {
  const address = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
  const views = import(address) as Promise<Views>;
  void views.finally(() => URL.revokeObjectURL(address)).catch(() => undefined);
  return views;
}

/** Fetch the views from the kernel of a model. One that is busy has sent them along. */
function fetched(model: Model & { get(name: string): unknown }): Promise<Views> {
  const brought = model.get('_script');
  if (typeof brought === 'string' && brought !== '') return loaded(brought);
  return new Promise((resolve, reject) => {
    const take = ({ kind }: Told, buffers: readonly (ArrayBuffer | ArrayBufferView)[] = []): void => {
      if (kind !== 'script' || buffers.length === 0) return;
      model.off('msg:custom', take);
      clearTimeout(timer);
      loaded(buffers[0] as BlobPart).then(resolve, reject);
    };
    const timer = setTimeout(() => {
      model.off('msg:custom', take);
      reject(new Error('The kernel did not answer. Run the cell again.'));
    }, 15 * PATIENCE_MS);
    model.on('msg:custom', take);
    try {
      model.send({ kind: 'script' });
    } catch {
      reject(new Error('The kernel is gone. Run the cell again.'));
    }
  });
}

async function viewsFor(model: Model & { get(name: string): unknown }): Promise<Views> {
  const known: Map<string, Promise<Views>> = (page[NAME] ??= new Map<string, Promise<Views>>());
  const version = String(model.get('_views'));
  const asked = known.get(version);
  if (asked !== undefined) {
    const late = new Promise<null>(resolve => setTimeout(() => resolve(null), PATIENCE_MS));
    const views = await Promise.race([asked.catch(() => null), late]);
    if (views !== null) return views;
  }
  const asking = fetched(model);
  known.set(version, asking);
  return asking;
}

export default {
  async render(context: Context): Promise<() => void> {
    try {
      const views = await viewsFor(context.model as Model & { get(name: string): unknown });
      return await views.default.render(context);
    } catch (error) {
      context.el.textContent = error instanceof Error ? error.message : String(error);
      return () => undefined;
    }
  },
};
