/** Says, by a look at its text, whether a document has to do with NKI. */

import { open, type FileHandle } from 'node:fs/promises';

const IMPORT = /^[ \t]*(?:import|from)[ \t][^\n#]*\b(?:nki|neuronxcc|nki_lab)\b/m;
const CELL = /^%%nki\b/;
const MOST_BYTES = 64 * 1024;

/** Return whether a text imports NKI, or is a `%%nki` cell. */
export function usesNki(text: string): boolean {
  return CELL.test(text) || IMPORT.test(text);
}

/** Return whether the beginning of one of these files imports NKI; files that cannot be read do not. */
export async function anyUsesNki(paths: readonly string[]): Promise<boolean> {
  for (const path of paths) if (usesNki(await beginning(path))) return true;
  return false;
}

async function beginning(path: string): Promise<string> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    if (!(await file.stat()).isFile()) return '';
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MOST_BYTES), 0, MOST_BYTES, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } catch {
    return '';
  } finally {
    await file?.close();
  }
}
