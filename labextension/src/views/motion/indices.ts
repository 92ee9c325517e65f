/** The run-time indices of the instruction that is drawn, asked for where its values come from. */
import type { Context, IndicesAnswer, State } from '../../types';
import type { Picks } from './access';
import type { IndexValues } from './model';

/** So long the cursor rests before the kernel is asked. */
const PAUSE_MS = 60;
/** Indices that are kept, by operand and step. */
const KEPT = 256;
const ASKED = 'the kernel is asked for its values';
const PLAYING = 'its values follow when playing stops';
const NO_KERNEL = 'its values need the kernel, or run.pin';

export interface Indices {
  /** The indices that move an operand, or why they are unknown. What is asked for here is asked by `ask`. */
  readonly of: IndexValues;
  /** Ask for those of the current step that are unknown. */
  ask(state: State): void;
  forget(): void;
  dispose(): void;
}

/** `arrived` is told the step whose indices, or the reason for their absence, have come. */
export function createIndices({ values, store }: Context, arrived: (step: number) => void): Indices {
  const known = new Map<string, Picks | string>();
  /** The reasons of the current step: the next look at it asks again. */
  const reasons = new Map<number, string>();
  const wanted = new Set<number>();
  let current = -1;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;

  const take = (step: number, view: number, answer: IndicesAnswer): void => {
    if (isOver) return;
    if (answer.kind === 'indices') {
      if (known.size > KEPT) known.clear();
      const { use } = answer;
      const found = use.written ? use : 'it has elements that nothing wrote';
      for (const one of new Set([step, ...use.steps])) known.set(keyOf(view, one), found);
      reasons.delete(view);
    } else if (step === current) reasons.set(view, clause(answer.reason));
    if (step === current) arrived(step);
  };
  const send = (step: number, views: readonly number[]): void => {
    views.forEach((view, place) => {
      values?.indices(step, view, String(place), answer => take(step, view, answer));
    });
  };
  const begin = (step: number): void => {
    if (step === current) return;
    clearTimeout(timer);
    current = step;
    reasons.clear();
    wanted.clear();
  };
  return {
    of(view, step) {
      begin(step);
      const found = known.get(keyOf(view, step)) ?? reasons.get(view);
      if (found !== undefined) return found;
      if (values === undefined) return NO_KERNEL;
      wanted.add(view);
      if (!values.isLive) return NO_KERNEL;
      return store.state.playing ? PLAYING : ASKED;
    },
    ask({ step, playing }) {
      begin(step);
      if (values === undefined || wanted.size === 0) return;
      const views = [...wanted];
      if (!values.isLive) {
        wanted.clear();
        send(step, views);
      } else if (!playing) {
        for (const view of views) reasons.set(view, ASKED);
        wanted.clear();
        timer = setTimeout(() => send(step, views), PAUSE_MS);
      }
    },
    forget() {
      clearTimeout(timer);
      known.clear();
      reasons.clear();
      wanted.clear();
      current = -1;
    },
    dispose() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

function keyOf(view: number, step: number): string {
  return `${view} ${step}`;
}

/** A sentence as a part of another one: "The kernel is busy." as "the kernel is busy". */
function clause(sentence: string): string {
  return sentence.slice(0, 1).toLowerCase() + sentence.slice(1).replace(/\.$/, '');
}
