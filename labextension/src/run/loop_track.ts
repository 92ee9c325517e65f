/** The loops of a run with their iterations, as a message has them. */

import { ITERATION_STATES, type IterationState } from '../_generated/schema';
import type { Message, Numbers } from '../wire';
import type { IterationFacts, Loop, LoopTrack } from '../types';

/** The loops of a message; null where it has none: messages of earlier versions do not tell of them. */
export function loopTrackOf(message: Message): LoopTrack | null {
  const { loops } = message.header;
  if (loops === undefined || loops.length === 0 || !message.has('iterations', 'in_loop')) return null;
  return new Track(message, loops);
}

class Track implements LoopTrack {
  readonly loops: readonly Loop[];
  private readonly columns: Record<
    'in_loop' | 'execution' | 'begin' | 'length' | 'rows' | 'interval' | 'state',
    Numbers
  >;
  private readonly value: Numbers;
  private readonly members: readonly Int32Array[];
  private readonly places: Int32Array;

  constructor(message: Message, loops: NonNullable<Message['header']['loops']>) {
    const column = (name: string): Numbers => message.column('iterations', name);
    this.columns = {
      in_loop: column('in_loop'),
      execution: column('execution'),
      begin: column('begin'),
      length: column('length'),
      rows: column('rows'),
      interval: column('interval'),
      state: column('state'),
    };
    this.value = column('value');
    this.loops = loops.map((loop, id) => ({ ...loop, id }));
    this.members = this.grouped(loops.length);
    this.places = new Int32Array(this.columns.in_loop.length);
    for (const mine of this.members) mine.forEach((iteration, place) => (this.places[iteration] = place));
  }

  /** The iterations of each loop, execution by execution. */
  private grouped(count: number): Int32Array[] {
    const { in_loop: loops, execution } = this.columns;
    const lists = Array.from({ length: count }, (): number[] => []);
    for (let iteration = 0; iteration < loops.length; iteration++) lists[loops[iteration]]?.push(iteration);
    return lists.map(list => Int32Array.from(list).sort((a, b) => execution[a] - execution[b] || a - b));
  }

  iterations(loop: number): Int32Array {
    return this.members[loop] ?? new Int32Array(0);
  }

  begin(iteration: number): number {
    return this.columns.begin[iteration];
  }

  end(iteration: number): number {
    return this.columns.begin[iteration] + this.columns.length[iteration];
  }

  interval(iteration: number): number {
    return this.columns.interval[iteration];
  }

  state(iteration: number): IterationState {
    return ITERATION_STATES[this.columns.state[iteration]] ?? 'unsettled';
  }

  loopOf(iteration: number): number {
    return this.columns.in_loop[iteration] ?? -1;
  }

  execution(iteration: number): number {
    return this.columns.execution[iteration];
  }

  next(iteration: number, by: 1 | -1): number {
    const loop = this.loopOf(iteration);
    return loop < 0 ? -1 : (this.iterations(loop)[this.places[iteration] + by] ?? -1);
  }

  facts(iteration: number): IterationFacts {
    const loop = this.loopOf(iteration);
    return {
      loop: this.loops[loop],
      value: this.value[iteration],
      place: this.places[iteration],
      begin: this.begin(iteration),
      end: this.end(iteration),
      interval: this.interval(iteration),
      state: this.state(iteration),
      rows: this.columns.rows[iteration],
    };
  }
}
