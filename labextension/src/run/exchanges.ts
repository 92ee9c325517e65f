/** What the ranks of a run send each other, as a message has it. */

import type { Exchange } from '../types';
import type { Message } from '../wire';

/** The parts of all calls of collectives, in the order of the calls; none in a run of one rank. */
export function exchangesOf(message: Message): readonly Exchange[] {
  if (!message.has('exchanges')) return [];
  const column = (name: string): ArrayLike<number> => message.column('exchanges', name);
  const [call, rank, what, source, sent, sends, row, bytes] = (
    ['call', 'rank', 'what', 'source', 'sent', 'sends', 'row', 'bytes'] as const
  ).map(column);
  return Array.from({ length: call.length }, (_, at) => ({
    call: call[at],
    rank: rank[at],
    what: message.header.names[what[at]] ?? '',
    source: source[at],
    sent: sent[at],
    sends: sends[at],
    row: row[at],
    bytes: bytes[at],
  }));
}
