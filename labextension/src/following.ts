/** Words that follow the drawings by a frame, so that a step is seen sooner. */
import { cancelSoon, soon } from './store';
import type { Changes, Run, State, View } from './types';

/** What a view does besides having an element. */
export type Drawn = Pick<View, 'draw' | 'dispose'> & { reload(run: Run): void };

/** A view as it is. */
export function drawn(view: View): Drawn {
  return {
    draw: (state, changes) => view.draw(state, changes),
    reload: run => view.reload?.(run),
    dispose: () => view.dispose(),
  };
}

/** Changes of a cursor that moves, which happen at every frame. */
const MOVES: ReadonlySet<keyof State> = new Set([
  'time',
  'step',
  'selected',
  'tile',
  'line',
  'hover',
  'window',
] as const);

/** The views as one that draws moves of the cursor in the next frame, and everything else at once. */
export function following(views: readonly View[]): Drawn {
  const missed = new Set<keyof State>();
  let latest: State | null = null;
  let frame = 0;
  const catchUp = (): void => {
    frame = 0;
    const state = latest;
    const changes: Changes = new Set(missed);
    latest = null;
    missed.clear();
    if (state) for (const view of views) view.draw(state, changes);
  };
  return {
    draw(state, changes) {
      latest = state;
      for (const name of changes) missed.add(name);
      if ([...changes].every(name => MOVES.has(name))) {
        if (!frame) frame = soon(catchUp);
        return;
      }
      if (frame) cancelSoon(frame);
      catchUp();
    },
    reload(run) {
      for (const view of views) view.reload?.(run);
    },
    dispose() {
      if (frame) cancelSoon(frame);
      for (const view of views) view.dispose();
    },
  };
}
