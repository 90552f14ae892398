/**
 * The used part of ssh2 1.17.0, which has no types. The published types depend on an old copy of Node's types, and one
 * such package anywhere replaces Deno's own types in the whole workspace.
 * @module
 */
import type { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";

export class Client extends EventEmitter<ClientEvents> {
  connect(options: ConnectOptions): this;
  /** Runs a command in its own channel. @throws {Error} without a connection */
  exec(command: string, options: { readonly pty?: PseudoTerminal }, onStarted: ChannelCallback): this;
  /**
   * Makes the host connect to an address, and opens a channel to it (`direct-tcpip`).
   * @throws {Error} without a connection
   */
  forwardOut(fromHost: string, fromPort: number, host: string, port: number, onOpened: ChannelCallback): this;
  end(): this;
}

/** An `error` is not the last event, and there can be several. */
export interface ClientEvents {
  close: [];
  error: [error: Error];
  /** A key exchange is done, the first or a later one. */
  handshake: [];
  ready: [];
}

export interface ConnectOptions {
  readonly sock: Duplex;
  readonly username: string;
  readonly readyTimeout: number;
  readonly algorithms?: Readonly<
    Record<"kex" | "cipher" | "hmac" | "compress" | "serverHostKey", readonly string[]>
  >;
  readonly hostVerifier?: (key: Uint8Array) => boolean;
  /** Chooses the next login method. The first two parameters are `null` before the first refusal. */
  readonly authHandler?: (
    methodsLeft: readonly string[] | null,
    partialSuccess: boolean | null,
    next: (attempt: { readonly type: "none"; readonly username: string }) => void,
  ) => void;
}

/** A pseudo-terminal (RFC 4254 section 6.2), with values of its modes by the names of section 8. */
export interface PseudoTerminal {
  readonly term: string;
  readonly cols: number;
  readonly rows: number;
  /** In pixels, like `height`; 0 leaves it to `cols`. */
  readonly width: number;
  readonly height: number;
  readonly modes: Readonly<Record<string, number>>;
}

/** Called once, when the host has opened the channel (and started its command) or rejected it. */
export type ChannelCallback = (
  ...result: [error: Error, channel: undefined] | [error: undefined, channel: ClientChannel]
) => void;

export interface ClientChannel extends Duplex {
  /** A Readable. It must be read, too: both streams share one flow control window. */
  readonly stderr: EventEmitter<StreamEvents>;
  on<Name extends keyof ChannelEvents>(name: Name, listener: (...event: ChannelEvents[Name]) => void): this;
  once<Name extends keyof ChannelEvents>(name: Name, listener: (...event: ChannelEvents[Name]) => void): this;
  close(): void;
}

export interface StreamEvents {
  data: [chunk: Uint8Array];
  end: [];
  error: [error: Error];
}

export interface ChannelEvents extends StreamEvents {
  /** The host has closed the channel, and all of its output has been read. */
  close: [];
  /** The end of the command: a status, or a signal, whose name begins with `SIG`. */
  exit: [status: number, signal: undefined] | [status: null, signal: string];
}
