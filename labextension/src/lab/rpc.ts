/** JSON-RPC 2.0 over texts: requests with their answers, notifications, and requests of the other side. */

interface Message {
  readonly id?: number | string | null;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

const NO_METHOD = -32601;

/** A request that the other side refused. */
export class RefusedError extends Error {}

/** What the other side asks and tells. */
export interface Peer {
  told(method: string, params: unknown): void;
  /** The result of a request; undefined where there is no such method. */
  asked(method: string, params: unknown): unknown;
}

export class Rpc {
  private readonly waiting = new Map<number, Waiting>();
  private last = 0;

  constructor(
    private readonly send: (text: string) => void,
    private readonly peer: Peer,
  ) {}

  /** Ask; an aborted request is cancelled at the server, and rejected here at once. */
  request(method: string, params: unknown, signal?: AbortSignal): Promise<unknown> {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        if (!this.waiting.delete(id)) return;
        this.notify('$/cancelRequest', { id });
        reject(new RefusedError('cancelled'));
      };
      this.waiting.set(id, { resolve, reject });
      signal?.addEventListener('abort', abort, { once: true });
      this.say({ id, method, params });
    });
  }

  notify(method: string, params: unknown): void {
    this.say({ method, params });
  }

  /** Take in a message of the other side; whatever is none is passed over. */
  take(text: string): void {
    let message: Message | null;
    try {
      message = JSON.parse(text) as Message | null;
    } catch {
      return;
    }
    if (typeof message !== 'object' || message === null) return;
    if (message.method !== undefined) this.called(message.method, message);
    else if (typeof message.id === 'number') this.answered(message.id, message);
  }

  /** Reject what has no answer yet: there will be none. */
  end(reason: string): void {
    for (const { reject } of this.waiting.values()) reject(new RefusedError(reason));
    this.waiting.clear();
  }

  private called(method: string, { id, params }: Message): void {
    if (id === undefined) {
      this.peer.told(method, params);
      return;
    }
    const result = this.peer.asked(method, params);
    if (result === undefined) this.say({ id, error: { code: NO_METHOD, message: `no method ${method}` } });
    else this.say({ id, result });
  }

  private answered(id: number, { result, error }: Message): void {
    const asked = this.waiting.get(id);
    this.waiting.delete(id);
    if (error === undefined) asked?.resolve(result ?? null);
    else asked?.reject(new RefusedError(error.message));
  }

  private say(message: object): void {
    this.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }
}
