/**
 * The JupyterLab extension as a page loads it: a container that says which modules it has and takes what it needs from
 * those that the page shares. Written by hand because all that it needs are a class and three tokens.
 */

import { mimeExtension } from './mime';
import type { Lumino } from './mime';
import { plugin } from './plugin';
import type { Tokens } from './plugin';

const NAME = 'nki-lab';

type Factory = () => unknown;
/** Package, then version, then how to get it. */
type Scope = Readonly<Record<string, Readonly<Record<string, { get(): Factory | Promise<Factory> }>>>>;

interface Container {
  init(scope: Scope): void;
  get(module: string): Promise<Factory>;
}

let shared: Scope = {};

async function take(name: string): Promise<object | undefined> {
  const versions = Object.values(shared[name] ?? {});
  return versions.length === 0 ? undefined : ((await versions[0].get())() as object);
}

const MODULES: Readonly<Partial<Record<string, () => Promise<unknown>>>> = {
  './extension': async () => {
    const [lsp, notebook] = await Promise.all([take('@jupyterlab/lsp'), take('@jupyterlab/notebook')]);
    return plugin(lsp && notebook ? ({ ...lsp, ...notebook } as Tokens) : null);
  },
  './mimeExtension': async () => mimeExtension((await take('@lumino/widgets')) as Lumino),
};

const container: Container = {
  init(scope) {
    shared = scope;
  },
  async get(module) {
    const make = MODULES[module];
    if (make === undefined) throw new Error(`${NAME} has no module ${module}`);
    const made = { __esModule: true, default: await make() };
    return () => made;
  },
};

const page = globalThis as { _JUPYTERLAB?: Record<string, Container> };
(page._JUPYTERLAB ??= {})[NAME] = container;
