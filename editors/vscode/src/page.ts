/** Makes of a stand-alone page of a run one that a webview may show. */

import { isAbsolute } from 'node:path';

import { isInside } from './interpreter';

const POLICY = /<meta http-equiv="Content-Security-Policy" content="[^"]*">/;
const SCRIPT = /<script>/g;

/** Hands the lines that clicks in the visualizer lead to, `LINE_EVENT` of the views, to the extension. */
const BRIDGE = `const editor = acquireVsCodeApi();
addEventListener('nki-lab-line', ({ detail }) => editor.postMessage(detail));`;

/** A line of a source file, from 1 on, as the page of a run names it. */
export interface Line {
  path: string;
  line: number;
}

/**
 * Return a page that runs nothing but its own scripts, by a number used once, and tells its lines.
 *
 * Throws an error where the page has no policy of its own to be replaced.
 */
export function framed(page: string, nonce: string): string {
  if (!POLICY.test(page)) throw new Error('the page has no content security policy; write it again with this nki_lab');
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'unsafe-inline'; img-src data: blob:`;
  const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  // Functions, since a `$` in a replacement would mean something. The views' script starts the only bare element.
  return page
    .replace(SCRIPT, () => `<script nonce="${nonce}">`)
    .replace(POLICY, () => `${meta}<script nonce="${nonce}">${BRIDGE}</script>`);
}

/** Return a message of a page as a line; undefined where it is none. */
export function lineOf(message: unknown): Line | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { path, line } = message as Partial<Record<keyof Line, unknown>>;
  if (typeof path !== 'string' || typeof line !== 'number' || !Number.isSafeInteger(line) || line < 1) return undefined;
  return { path, line };
}

/** Return whether a page may open a file: one of the folders at hand, or one that is open already. */
export function mayOpen(path: string, folders: readonly string[], open: readonly string[]): boolean {
  return isAbsolute(path) && (open.includes(path) || folders.some(folder => isInside(path, folder)));
}
