/**
 * The JupyterLab extension as a page loads it: a container that says which modules it has and takes what it needs from
 * those that the page shares. Written by hand because it has no dependency of its own.
 */

import { comparisonExtension } from './comparison_mime';
import { PACKAGES, plugin } from './lab/plugin';
import type { Modules } from './lab/plugin';
import { mimeExtension } from './mime';
import type { Lumino } from './mime';

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
    const found = await Promise.all(PACKAGES.map(async name => [name, await take(name)] as const));
    return plugin(Object.fromEntries(found) as unknown as Modules);
  },
  './mimeExtension': async () => {
    const lumino = (await take('@lumino/widgets')) as Lumino;
    return [mimeExtension(lumino), comparisonExtension(lumino.Widget)];
  },
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
