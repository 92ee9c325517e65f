/** Chooses the Python that the server runs in. */

import { accessSync, constants, realpathSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join, resolve, sep } from 'node:path';

/** The places that may name an interpreter, the first one that does counts. */
export interface Sources {
  /** `nki-lab.server.interpreter`, and its value in the user's own settings. */
  setting: string;
  ownSetting: string;
  /** The environment that the Python extension has active. */
  active: string;
  /** `python.defaultInterpreterPath`, and its value in the user's own settings. */
  fallback: string;
  ownFallback: string;
  path: string;
}

/**
 * Return the interpreter for a workspace with these folders; undefined where there is none.
 *
 * A workspace that is not trusted names none: only the user's own settings and PATH do, and nothing in its folders counts.
 */
export function interpreter(sources: Sources, folders: readonly string[], isTrusted: boolean): string | undefined {
  const outside = (path: string) => isAbsolute(path) && !folders.some(folder => isInside(path, folder));
  if (!isTrusted) {
    const named = [sources.ownSetting, sources.ownFallback].map(expanded).find(path => path !== '' && outside(path));
    return named ?? onPath(sources.path, outside);
  }
  const named = [sources.setting, sources.active, sources.fallback].map(expanded).find(path => path !== '');
  if (named === undefined || named === 'python' || named === 'python3') return onPath(sources.path, outside);
  const [folder] = folders;
  const place = folder === undefined ? named : named.replaceAll('${workspaceFolder}', folder);
  return isAbsolute(place) || folder === undefined ? place : resolve(folder, place);
}

/** Return whether a path, or what it links to, lies in a folder. */
export function isInside(path: string, folder: string): boolean {
  const below = (inner: string, outer: string) =>
    `${inner}${sep}`.startsWith(outer.endsWith(sep) ? outer : outer + sep);
  const places = [resolve(path), real(path), join(real(dirname(path)), basename(path))];
  return places.some(place => below(place, resolve(folder)) || below(place, real(folder)));
}

/** Return the command that installs the server; the shell of the system gets it quoted. */
export function installation(python: string): string {
  const windows = sep === '\\';
  const program = windows ? `& '${python.replaceAll("'", "''")}'` : quoted(python);
  return `${program} -m pip install 'nki-lab[lsp]'`;
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function expanded(path: string): string {
  return path.trim().replace(/^~(?=\/)/, process.env.HOME ?? '~');
}

function onPath(path: string, isAllowed: (path: string) => boolean): string | undefined {
  const names = sep === '\\' ? ['python3.exe', 'python.exe'] : ['python3', 'python'];
  const places = names.flatMap(name => path.split(delimiter).map(folder => join(folder, name)));
  return places.find(place => isAllowed(place) && isExecutable(place));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Return where a path leads; of one that is not there, the path itself. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}
