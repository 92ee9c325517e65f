/** From the state that a kernel keeps of a run to the bar of a visualizer, until the run or its kernel ends. */
import { createGrowing, growthOf } from './growing';
import { createRunningBar } from './running';
import type { RunState } from './running';
import type { Visualizer } from './visualizer';

interface Signal {
  connect(slot: (sender: unknown, status: string) => void): unknown;
  disconnect(slot: (sender: unknown, status: string) => void): unknown;
}

/** What is used of the connection to a kernel, where the page has one; JupyterLab and Notebook 7 have it. */
export interface Kernel {
  readonly status?: string;
  readonly isDisposed?: boolean;
  readonly statusChanged?: Signal;
  interrupt?(): Promise<unknown>;
}

export interface LiveModel {
  get(name: string): unknown;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  readonly widget_manager?: { readonly kernel?: Kernel | null };
}

const ENDS: Readonly<Partial<Record<string, string>>> = {
  restarting: 'The kernel was restarted, and the run ended with it. Run the cell again.',
  autorestarting: 'The kernel died and is started anew; the run ended with it. Run the cell again.',
  terminating: 'The kernel was shut down, and the run ended with it.',
  dead: 'The kernel is gone, and the run ended with it.',
};
/** Where the page does not tell of its kernel, so long a silence of the run is told. */
const SILENCE_MS = 15_000;

/** Whether a model is of a run that is not over. */
export function isLive(model: LiveModel): boolean {
  return stateOf(model) !== null;
}

/** Show in a visualizer how far the run of a model is. `ask` gives the kernel a message; returns what ends it. */
export function followRun(model: LiveModel, visualizer: Visualizer, ask: (content: object) => boolean): () => void {
  const kernel = model.widget_manager?.kernel ?? null;
  const bar = createRunningBar({
    interrupt: kernel?.interrupt === undefined ? null : () => Promise.resolve(kernel.interrupt?.()),
    ask: () => ask({ kind: 'cancel' }),
  });
  let silence: ReturnType<typeof setTimeout> | undefined;
  const heard = (): void => {
    clearTimeout(silence);
    if (kernel?.statusChanged === undefined)
      silence = setTimeout(
        () => visualizer.setNotice('No word from the kernel', 'The run says nothing for 15 s; what is drawn stays.'),
        SILENCE_MS,
      );
  };
  const draw = (): void => {
    const state = stateOf(model);
    if (state === null) return;
    heard();
    bar.draw(state);
    visualizer.setDoneUntil(state.until);
  };
  const growing = createGrowing();
  const grow = (): void => {
    const growth = growthOf(model.get('growth'));
    if (growth === null) return;
    growing.draw(growth);
    visualizer.setGrowing(growing.element);
  };
  const ended = (_: unknown, status: string): void => {
    const text = ENDS[status];
    if (text !== undefined) bar.lose(text);
  };
  visualizer.setRunning(bar.element, () => bar.cancel());
  model.on('change:live', draw);
  model.on('change:growth', grow);
  kernel?.statusChanged?.connect(ended);
  draw();
  grow();
  return () => {
    clearTimeout(silence);
    model.off('change:live', draw);
    model.off('change:growth', grow);
    kernel?.statusChanged?.disconnect(ended);
    bar.dispose();
  };
}

function stateOf(model: LiveModel): RunState | null {
  const found = model.get('live') as Partial<RunState> | null | undefined;
  return found?.state === undefined ? null : (found as RunState);
}
