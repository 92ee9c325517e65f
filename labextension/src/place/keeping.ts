/** Keeps the place of one visualizer for the next one, and opens it where another one was. */
import { initialState } from '../store';
import type { Run, Store } from '../types';
import { cellOf, keepPlace, keptPlace, numberIn } from './memory';
import { isReachable, placeOf, stateAt, type Place } from './place';

export interface Keeping {
  /** A run is shown, or rows of it came, or the visualizer got into the page. */
  look(run: Run, store: Store): void;
  /** The run is about to go. */
  leave(run: Run, store: Store): void;
}

/** `given` is a place to open at; else that of the visualizer which was at the same spot of the cell's output. */
export function createKeeping(root: HTMLElement, given: Place | null, spot: number): Keeping {
  let cell: Element | null = null;
  let key = '';
  let wanted: Place | null = given;
  /** The run whose place was looked for. */
  let asked: Run | null = null;
  return {
    look(run, store) {
      if (cell === null && root.isConnected) [cell, key] = [cellOf(root), `${numberIn(root)}.${spot}`];
      if (asked !== run && (cell !== null || wanted !== null)) {
        asked = run;
        wanted ??= cell && keptPlace(cell, key, run.kernel);
      }
      if (wanted === null || asked !== run || run.rows.count === 0 || !isReachable(run, wanted)) return;
      const place = wanted;
      wanted = null;
      if (isUntouched(run, store)) store.set(stateAt(run, place));
    },
    leave(run, store) {
      if (cell !== null && run.coarse !== true) keepPlace(cell, key, placeOf(run, store.state));
    },
  };
}

/** Whether nobody moved yet: what a user or the kernel chose is not taken back. */
function isUntouched(run: Run, { state }: Store): boolean {
  const { step, window, selected } = initialState(run);
  return (
    state.step === step &&
    state.selected === selected &&
    state.window.from === window.from &&
    state.window.to === window.to
  );
}
