/**
 * The stand-alone page: draws the message that the page carries in itself, into the element `nki-lab` or, where there
 * is none, the body. A page without a message takes a file that is dropped on it.
 */

import { embedded, embeddedRows, embeddedValues } from './embedded';
import { Feed } from './feed';
import { linked } from './linking';
import { KeptValues } from './values_host';
import { mount } from './visualizer';

/** Draw the run in a file or any other blob. */
export async function show(blob: Blob, feed: Feed): Promise<void> {
  try {
    feed.accept(await blob.arrayBuffer());
  } catch (error) {
    feed.fail(error);
  }
}

export async function start(root: HTMLElement): Promise<void> {
  const feed = new Feed(null);
  const values = new KeptValues();
  // Charts of the page, if it has any, move with the views.
  feed.attach(mount(root, null, { values }), store => linked(root.dataset.channel ?? '', store));
  try {
    const message = await embedded();
    await values.add(embeddedValues());
    if (message === null) takeFiles(root, feed);
    else feed.accept(message);
    for await (const rows of embeddedRows()) feed.accept(rows);
  } catch (error) {
    feed.fail(error);
  }
}

function takeFiles(root: HTMLElement, feed: Feed): void {
  root.addEventListener('dragover', event => event.preventDefault());
  root.addEventListener('drop', event => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file !== undefined) void show(file, feed);
  });
}

void start(document.getElementById('nki-lab') ?? document.body);
