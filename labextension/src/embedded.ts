/** The message that a page carries in itself. */

import { inflate } from './wire';

/** Id of the script element with the message: compact, in base64. */
export const MESSAGE_ID = 'nki-lab-message';

/** Class of the script elements with the values of tiles. */
export const VALUES_CLASS = 'nki-lab-values';

/** Class of the script elements with further rows, in order. */
export const ROWS_CLASS = 'nki-lab-rows';

/** The bytes of the page's message; null where there is none. WireError if they are damaged. */
export async function embedded(): Promise<ArrayBuffer | null> {
  const text = document.getElementById(MESSAGE_ID)?.textContent.trim() ?? '';
  return text === '' ? null : await inflate(text);
}

/** The messages with further rows, when the browser has read the whole page. */
export async function* embeddedRows(): AsyncGenerator<ArrayBuffer> {
  if (document.readyState === 'loading')
    await new Promise(done => document.addEventListener('DOMContentLoaded', done, { once: true }));
  for (const element of document.querySelectorAll(`.${ROWS_CLASS}`)) yield await inflate(element.textContent.trim());
}

/** The values of tiles that the page carries, compact and in base64. */
export function embeddedValues(): readonly string[] {
  return [...document.querySelectorAll(`.${VALUES_CLASS}`)].map(element => element.textContent.trim());
}
