/** The stand-alone page of a comparison: draws the messages that the page carries in itself. */

import { inflate } from './wire';
import { mountComparison, type Part } from './views/compare';

/** Class of the script elements with messages, in order; `data-of` says what one is of. */
const MESSAGE_CLASS = 'nki-lab-compared';

async function start(root: HTMLElement): Promise<void> {
  const viewer = mountComparison(root);
  try {
    for (const of of ['comparison', 'before', 'after'] as const) await feed(viewer, of);
  } catch (error) {
    viewer.fail(error);
  }
}

async function feed(viewer: ReturnType<typeof mountComparison>, of: Part): Promise<void> {
  const elements = document.querySelectorAll(`.${MESSAGE_CLASS}[data-of="${of}"]`);
  if (elements.length === 0) throw new Error(`The page has no message of ${of}.`);
  for (const element of elements) viewer.accept(of, await inflate(element.textContent.trim()));
}

void start(document.getElementById('nki-lab') ?? document.body);
