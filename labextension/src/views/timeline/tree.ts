/** The timeline for who does not see it: a list for each lane, with the current instruction in it. */
import { el, replace, setAttribute, setText, uniqueId } from '../../dom';
import * as format from '../../format';
import { firstFrom } from '../../run/search';
import type { Run, State } from '../../types';
import { spoken } from '../../words';
import type { Figure } from './figure';
import { loopText } from './loop_card';

/** So many loops are told of. */
const MOST_LOOPS = 64;

export interface Tree {
  readonly element: HTMLElement;
  /** Id of the list item of the current instruction. */
  readonly itemId: string;
  /** Names of the lanes, after other lanes or another window. */
  fill(figure: Figure): void;
  /** The instruction that is told of: the selected one, else that at the cursor. */
  update(run: Run, state: State): void;
}

export function createTree(): Tree {
  const itemId = uniqueId('instruction');
  const item = el('div', { role: 'listitem', id: itemId });
  const element = el('div', { class: 'nki-tl-tree' });
  const lists = new Map<number, HTMLElement>();
  const list = (lane: number): HTMLElement => {
    let found = lists.get(lane);
    if (found === undefined) {
      lists.set(lane, (found = el('div', { role: 'list', 'data-lane': lane })));
      element.append(found);
    }
    return found;
  };
  const loops = el('div', { role: 'list', 'aria-label': 'Loops', hidden: true });
  element.append(loops);
  let toldOf: Run['loopTrack'] = null;
  const tellLoops = (run: Run): void => {
    if (toldOf === run.loopTrack) return;
    toldOf = run.loopTrack;
    const all = run.loopTrack?.loops.slice(0, MOST_LOOPS) ?? [];
    replace(
      loops,
      ...all.map(loop => el('div', { role: 'listitem', 'aria-level': loop.depth + 1 }, loopText(run, loop))),
    );
    loops.hidden = all.length === 0;
  };
  return {
    element,
    itemId,
    fill(figure) {
      const { run } = figure;
      tellLoops(run);
      for (const found of [...figure.lanes.values(), ...[...figure.dma.values()].flatMap(one => one.queues)]) {
        const lane = run.lanes[found.lane];
        const rows = format.plural(run.laneTimes[found.lane]?.rows ?? 0, 'instruction');
        const label = `${lane.label}, ${format.percent(found.busy)} busy in this window, ${rows} in all`;
        setAttribute(list(found.lane), 'aria-label', label);
      }
    },
    update(run, state) {
      const step = state.selected >= 0 ? state.selected : state.step;
      if (step < 0 || !run.has(step)) {
        item.remove();
        return;
      }
      setText(item, spoken(run, step));
      setAttribute(item, 'aria-posinset', placeInLane(run, step) + 1);
      const lane = run.rows.lane[step - run.rows.first];
      setAttribute(item, 'aria-setsize', run.laneTimes[lane]?.rows ?? -1);
      if (item.parentElement !== list(lane)) list(lane).append(item);
    },
  };
}

/** How many rows of its lane come before a loaded step. */
function placeInLane(run: Run, step: number): number {
  const steps = run.laneSteps(run.rows.lane[step - run.rows.first]);
  return firstFrom(steps, step);
}
