/** Orders of steps: by the columns of the table of instructions. */
import type { Run } from './types';

export type Column = 'step' | 'lane' | 'op' | 'start' | 'duration' | 'wait' | 'critical' | 'line';

export interface Sort {
  readonly column: Column;
  readonly up: boolean;
}

/** The next order when a column is chosen: its other direction, or that which shows what is looked for first. */
export function chosen(sort: Sort, column: Column): Sort {
  if (sort.column === column) return { column, up: !sort.up };
  return { column, up: column !== 'duration' && column !== 'wait' && column !== 'critical' };
}

/** Steps in an order; null stands for all loaded ones in their own. Equal ones stay in the order of steps. */
export function sorted(run: Run, found: Uint32Array | null, sort: Sort): Uint32Array | null {
  if (sort.column === 'step' && sort.up) return found;
  const { rows } = run;
  const { first } = rows;
  const steps = found?.slice() ?? Uint32Array.from({ length: rows.count }, (_, place) => first + place);
  const key = keyOf(run, sort.column);
  const keys = Float64Array.from({ length: rows.count }, (_, place) => key(place));
  const sign = sort.up ? 1 : -1;
  return steps.sort((one, other) => sign * (keys[one - first] - keys[other - first]) || one - other);
}

function keyOf(run: Run, column: Column): (place: number) => number {
  const { rows } = run;
  switch (column) {
    case 'step':
      return place => place;
    case 'lane':
      return place => rows.lane[place];
    case 'op':
      return alphabetical(run);
    case 'line':
      return place => run.siteOf(rows.first + place)?.line ?? 0;
    case 'start':
    case 'duration':
    case 'wait':
    case 'critical':
      return place => rows[column][place];
  }
}

/** The rank of an instruction's name. */
function alphabetical(run: Run): (place: number) => number {
  const { rows } = run;
  const names = new Map<number, string>();
  for (let place = 0; place < rows.count; place += 1) {
    if (!names.has(rows.op[place])) names.set(rows.op[place], run.op(rows.first + place).name);
  }
  const ranked = [...new Set(names.values())].sort();
  const ranks = new Map([...names].map(([op, name]) => [op, ranked.indexOf(name)]));
  return place => ranks.get(rows.op[place]) ?? 0;
}
