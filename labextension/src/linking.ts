/**
 * Charts that a page shows beside a run: what is chosen in the one moves the other. They talk by events of the document,
 * whatever draws the chart; nki_lab/plots/drawing/linking.py is the other side. Times are picoseconds.
 */

import type { Store } from './types';

/** The name of the events. */
export const LINK_EVENT = 'nki-lab-link';

/** `time` is where the cursor stands, `window` what is shown; `from` tells whose event it is. */
interface Link {
  readonly channel: string;
  readonly from: string;
  readonly time?: number;
  readonly window?: readonly [number, number];
  /** A chart that was just drawn asks where things are. */
  readonly asks?: boolean;
}

let stores = 0;

/** Link a visualizer's state with the charts of a channel; returns what ends that. */
export function linked(channel: string, store: Store): () => void {
  if (channel === '') return () => undefined;
  const from = `run ${++stores}`;
  const send = (time: boolean, window: boolean): void => {
    const { state } = store;
    const told: Link = {
      channel,
      from,
      ...(time && { time: state.time }),
      ...(window && { window: [state.window.from, state.window.to] }),
    };
    document.dispatchEvent(new CustomEvent(LINK_EVENT, { detail: told }));
  };
  const receive = (event: Event): void => {
    const { detail } = event as CustomEvent<Link>;
    if (detail.channel !== channel || detail.from.startsWith('run ')) return;
    if (detail.asks === true) send(true, true);
    if (detail.time !== undefined) store.goTo(Math.round(detail.time));
    if (detail.window !== undefined) store.show({ from: detail.window[0], to: detail.window[1] });
  };
  document.addEventListener(LINK_EVENT, receive);
  const unlisten = store.listen((_, changes) => {
    if (changes.has('time') || changes.has('window')) send(changes.has('time'), changes.has('window'));
  });
  send(true, true);
  return () => {
    document.removeEventListener(LINK_EVENT, receive);
    unlisten();
  };
}
