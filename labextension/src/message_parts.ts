/** Answers that arrive in parts. */

/** What goes with the bytes of a part: which answer, where in it, how long it is in all. */
export interface MessagePart {
  readonly message: number;
  readonly offset: number;
  readonly total: number;
}

export class MessageParts {
  private readonly open = new Map<number, { bytes: Uint8Array<ArrayBuffer>; read: number }>();

  /** Take a part; the whole answer once nothing of it is missing, else how much is there. */
  add(
    part: MessagePart,
    bytes: ArrayBuffer | ArrayBufferView,
  ): { readonly whole: ArrayBuffer | null; readonly read: number } {
    const begun = this.open.get(part.message) ?? { bytes: new Uint8Array(part.total), read: 0 };
    this.open.set(part.message, begun);
    // JupyterLab hands over views, other hosts the buffers themselves.
    const read = ArrayBuffer.isView(bytes)
      ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : new Uint8Array(bytes);
    begun.bytes.set(read, part.offset);
    begun.read += bytes.byteLength;
    if (begun.read < part.total) return { whole: null, read: begun.read };
    this.open.delete(part.message);
    return { whole: begun.bytes.buffer, read: begun.read };
  }
}
