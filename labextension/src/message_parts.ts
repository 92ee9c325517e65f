/** Answers that arrive in parts. */

import { MOST_MESSAGE } from './_generated/schema';
import { WireError } from './wire';

/** What goes with the bytes of a part: which answer, where in it, how long it is in all. */
export interface MessagePart {
  readonly message: number;
  readonly offset: number;
  readonly total: number;
}

export class MessageParts {
  private readonly open = new Map<number, { bytes: Uint8Array<ArrayBuffer>; read: number }>();

  /**
   * Take a part; the whole answer once nothing of it is missing, else how much is there. WireError where the part is
   * none of an answer, or the answer is too large.
   */
  add(
    part: MessagePart,
    bytes: ArrayBuffer | ArrayBufferView,
  ): { readonly whole: ArrayBuffer | null; readonly read: number } {
    const { offset, total } = part;
    if (!isSize(total) || total > MOST_MESSAGE) throw new WireError(`An answer is said to have ${total} bytes.`);
    const known = this.open.get(part.message)?.bytes.length ?? total;
    if (!isSize(offset) || known !== total || offset + bytes.byteLength > total)
      throw new WireError(`A part of ${bytes.byteLength} bytes is none of an answer of ${known}.`);
    const begun = this.open.get(part.message) ?? { bytes: new Uint8Array(total), read: 0 };
    this.open.set(part.message, begun);
    // JupyterLab hands over views, other hosts the buffers themselves.
    const read = ArrayBuffer.isView(bytes)
      ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : new Uint8Array(bytes);
    begun.bytes.set(read, offset);
    begun.read += bytes.byteLength;
    if (begun.read < total) return { whole: null, read: begun.read };
    this.open.delete(part.message);
    return { whole: begun.bytes.buffer, read: begun.read };
  }
}

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
