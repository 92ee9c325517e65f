/** A connection to the language server that comes back when it is lost, slower each time, and gives up in the end. */

import { Rpc } from './rpc';
import type { Peer } from './rpc';

/** Milliseconds before the first attempts; as many in a row may fail. */
export const PAUSES = [500, 1_000, 2_000, 4_000, 8_000] as const;
/** A connection that lasted so long was a good one: attempts count from the first again. */
const LASTED = 30_000;
/** The extension of the server closes so where another attempt would end the same way. */
const FINAL: ReadonlySet<number> = new Set([4000, 4003]);

/** A WebSocket, as far as it is used. */
export interface Socket {
  onopen: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null;
  send(text: string): void;
  close(): void;
}

export interface Options {
  open(): Socket;
  /** What `initialize` says. */
  first(): object;
  readonly peer: Peer;
  /** The server is ready, and has said what it can do: tell it what is open. */
  ready(answer: unknown): void;
  /** The connection is lost; `reason` is not empty where there will be no other attempt. */
  lost(reason: string): void;
  readonly now?: () => number;
}

export class Connection {
  rpc: Rpc | null = null;
  private socket: Socket | null = null;
  private failures = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private since = 0;
  private readonly now: () => number;

  constructor(private readonly options: Options) {
    this.now = options.now ?? Date.now;
  }

  get isOpen(): boolean {
    return this.socket !== null;
  }

  /** Connect, unless that is done or under way. */
  start(): void {
    if (this.socket !== null || this.timer !== undefined) return;
    this.connect();
  }

  /** Connect again, as if nothing had failed before. */
  restart(): void {
    this.stop();
    this.failures = 0;
    this.connect();
  }

  /** End the connection for good. */
  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const socket = this.socket;
    if (socket === null) return;
    socket.onclose = null;
    this.forget('the connection was closed');
    socket.close();
  }

  private connect(): void {
    this.timer = undefined;
    this.since = this.now();
    const socket = (this.socket = this.options.open());
    const rpc = new Rpc(text => socket.send(text), this.options.peer);
    socket.onopen = () => {
      void rpc.request('initialize', this.options.first()).then(
        answer => {
          if (this.socket !== socket) return;
          rpc.notify('initialized', {});
          this.rpc = rpc;
          this.options.ready(answer);
        },
        () => undefined, // the socket closes as well
      );
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') rpc.take(data);
    };
    socket.onclose = ({ code, reason }) => {
      rpc.end(reason);
      if (this.socket === socket) this.again(code, reason);
    };
  }

  private again(code: number, reason: string): void {
    if (this.rpc !== null && this.now() - this.since > LASTED) this.failures = 0;
    this.forget(reason);
    const pause = PAUSES[this.failures++];
    if (FINAL.has(code) || pause === undefined) {
      this.options.lost(reason || `no connection after ${this.failures} attempts (code ${code})`);
      return;
    }
    this.timer = setTimeout(() => this.connect(), pause);
    this.options.lost('');
  }

  private forget(reason: string): void {
    this.rpc?.end(reason);
    this.rpc = null;
    this.socket = null;
  }
}
