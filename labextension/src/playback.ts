/** Playing: the cursor glides at a speed; where less motion is wanted, it goes from instruction to instruction. */
import { prefersStill } from './store';
import type { Run, Store } from './types';

const STEPS_A_SECOND = 4;

export interface Playback {
  toggle(): void;
  stop(): void;
  dispose(): void;
}

/** `stopsAt` says whether to stop at a step that is not the one played from; `ended` is told where it stopped. */
export function createPlayback(
  run: Run,
  store: Store,
  stopsAt: (step: number) => boolean,
  ended: (step: number) => void,
): Playback {
  let frame = 0;
  let last = -1;
  let wait = 0;

  const stop = (): void => {
    if (!store.state.playing) return;
    cancelAnimationFrame(frame);
    store.set({ playing: false });
    const { step } = store.state;
    if (step >= 0) {
      const { time } = store.state;
      store.select(step);
      store.set({ time });
    }
    ended(step);
  };
  const moved = (before: number): boolean => {
    const { step } = store.state;
    for (let passed = before + 1; passed <= step; passed += 1) {
      if (!stopsAt(passed)) continue;
      store.goToStep(passed);
      stop();
      return true;
    }
    return false;
  };
  const advance = (now: number): void => {
    // Something else stopped it, or moved the cursor: both are obeyed.
    if (!store.state.playing) return;
    const passed = last < 0 ? 0 : Math.min(now - last, 100);
    last = now;
    const { step, time, speed } = store.state;
    if (prefersStill()) {
      wait += passed;
      if (wait >= 1000 / STEPS_A_SECOND) {
        wait = 0;
        if (step + 1 >= run.steps) {
          stop();
          return;
        }
        store.goToStep(step + 1);
        if (moved(step)) return;
      }
    } else {
      store.goTo(time + (passed / 1000) * speed);
      if (moved(step)) return;
      if (store.state.time >= run.makespan) {
        stop();
        return;
      }
    }
    frame = requestAnimationFrame(advance);
  };

  return {
    toggle() {
      if (store.state.playing) {
        stop();
        return;
      }
      if (run.steps === 0) return;
      if (store.state.time >= run.makespan || store.state.step >= run.steps - 1) store.goTo(0);
      last = -1;
      wait = 0;
      store.set({ playing: true, selected: -1 });
      frame = requestAnimationFrame(advance);
    },
    stop,
    dispose: () => cancelAnimationFrame(frame),
  };
}
