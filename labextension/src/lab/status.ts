/** The item of the status bar: target of the cell at hand, findings and latency of its notebook. */

import { MIME } from '../_generated/schema';
import { aboutRuns, latencyOf } from '../saved/runs';
import type { Commands } from './commands';
import type { Panel, Tracker } from './jupyter';
import { element } from './markdown';
import type { Settings } from './plugin';
import type { Session } from './session';

export interface StatusBar {
  registerStatusItem(id: string, item: object): unknown;
}

interface Given {
  readonly bar: StatusBar | null;
  readonly Widget: unknown;
  readonly notebooks: Tracker;
  readonly session: Session;
  readonly settings: Settings | null;
  readonly app: { readonly commands: Commands };
}

export function addStatus({ bar, Widget, notebooks, session, settings, app }: Given): void {
  if (bar === null || Widget === undefined) return;
  const node = element('button', 'nki-lab-status');
  node.title = 'NKI: list the findings of this notebook';
  node.addEventListener('click', () => void app.commands.execute('nki-lab:check'));
  const item = new (Widget as new (options: object) => { node: HTMLElement })({ node });
  const targets = new WeakMap<Panel, string>();
  const draw = (): void => {
    const panel = notebooks.currentWidget;
    node.textContent = panel === null ? '' : textOf(panel, session, targets.get(panel) ?? '');
    node.hidden = node.textContent === '';
  };
  /** The server knows the target: that of the active cell, else of the settings, its environment or the project. */
  const ask = async (): Promise<void> => {
    const panel = notebooks.currentWidget;
    if (panel !== null) targets.set(panel, await session.target(panel));
    draw();
  };
  /** One question after the other: the last one is asked when everything has happened. */
  let asked = Promise.resolve();
  let waiting = 0;
  const refresh = (): void => {
    if (waiting > 1) return; // that one has yet to begin
    waiting += 1;
    asked = asked.then(ask).finally(() => (waiting -= 1));
  };
  session.listen(() => {
    if (session.isReady) refresh();
    draw();
  });
  notebooks.currentChanged.connect(refresh);
  notebooks.activeCellChanged.connect(refresh);
  settings?.changed.connect(refresh);
  bar.registerStatusItem('nki-lab:status', { item, align: 'left', rank: 100 });
  draw();
}

function textOf(panel: Panel, session: Session, target: string): string {
  if (!session.has(panel)) return '';
  const count = session.all(panel).reduce((sum, { findings }) => sum + findings.length, 0);
  const findings = !session.isReady ? 'no language server' : `${count} finding${count === 1 ? '' : 's'}`;
  const latency = lastLatency(panel);
  return ['NKI', target, findings, latency].filter(part => part !== '').join(' · ');
}

/** The latency of the last run that the notebook keeps. Outputs of older versions have it in their text alone. */
export function lastLatency(panel: Panel): string {
  for (const { outputs } of [...panel.context.model.cells].reverse())
    for (let index = (outputs?.length ?? 0) - 1; index >= 0; index--) {
      const data = outputs?.get(index).data;
      const text = data?.['text/plain'];
      if (data?.[MIME] === undefined) continue;
      const about = aboutRuns(data).at(-1);
      if (about) return latencyOf(about);
      if (typeof text !== 'string') continue;
      const found = /[\d.,]+ ?(?:ns|µs|ms|s)\b/.exec(text);
      if (found) return found[0];
    }
  return '';
}
