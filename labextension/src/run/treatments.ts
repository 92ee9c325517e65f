/** How instructions treat their operands: names, roles in the PE array, descriptors of transfers. */
import { ARRANGEMENTS, DESCRIPTOR_MODES } from '../_generated/schema';
import type { Transfer, Treatment } from '../types';
import type { Message, Numbers } from '../wire';

const COLUMNS = [
  'operands', 'arrangement', 'stationary', 'moving', 'mode', 'descriptors', 'descriptor_bytes', 'engines', 'cadence',
] as const; // prettier-ignore
type Column = (typeof COLUMNS)[number];

const UNKNOWN: Treatment = { operands: [], arrangement: 'undeclared', stationary: -1, moving: -1, transfer: null };

export class Treatments {
  private readonly columns: Readonly<Record<Column, Numbers>> | null;
  private readonly making: Numbers | null;
  private readonly made = new Map<number, Treatment>();

  constructor(
    message: Message,
    private readonly names: readonly string[],
  ) {
    this.making = message.has('ops', 'making') ? message.column('ops', 'making') : null;
    // Messages of earlier versions have none of these.
    const isComplete = COLUMNS.every(name => message.has('ops', name));
    const columns = COLUMNS.map(name => [name, isComplete ? message.column('ops', name) : null] as const);
    this.columns = isComplete ? (Object.fromEntries(columns) as Record<Column, Numbers>) : null;
  }

  /** The treatment of a row of `ops`. */
  of(op: number): Treatment {
    let found = this.made.get(op);
    if (found === undefined) this.made.set(op, (found = this.make(op)));
    return found;
  }

  private make(op: number): Treatment {
    const { columns } = this;
    if (columns === null || op >= columns.operands.length) return UNKNOWN;
    const operands = this.names[columns.operands[op]] ?? '';
    return {
      operands: operands === '' ? [] : operands.split(' '),
      arrangement: ARRANGEMENTS[columns.arrangement[op]] ?? 'undeclared',
      stationary: columns.stationary[op],
      moving: columns.moving[op],
      transfer: columns.descriptors[op] > 0 ? transfer(columns, op, this.making?.[op] ?? 0) : null,
    };
  }
}

function transfer(columns: Readonly<Record<Column, Numbers>>, op: number, making: number): Transfer {
  const engines: number[] = [];
  for (let bits = columns.engines[op], engine = 0; bits > 0; bits = Math.floor(bits / 2), engine += 1)
    if (bits % 2 === 1) engines.push(engine);
  return {
    mode: DESCRIPTOR_MODES[columns.mode[op]] ?? 'none',
    descriptors: columns.descriptors[op],
    descriptorBytes: columns.descriptor_bytes[op],
    engines,
    cadence: columns.cadence[op],
    making,
  };
}
