/**
 * What the broker uses of ssh2 1.17.0, which has no types of its own. The ones published for it depend on an old
 * copy of Node's types, and one such package anywhere replaces Deno's own in all of the workspace.
 *
 * @module
 */
import type { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";

export class Client extends EventEmitter<ClientEvents> {
  /** Begins the handshake; what comes of it is told by events. */
  connect(options: ConnectOptions): this;
  /**
   * Runs a command in a channel of its own.
   *
   * @throws {Error} when there is no connection any more
   */
  exec(command: string, options: ExecOptions, onStarted: ChannelCallback): this;
  /**
   * Has the host connect to an address, and gives the channel through which to speak to it (`direct-tcpip`).
   *
   * @throws {Error} when there is no connection any more
   */
  forwardOut(
    originHost: string,
    originPort: number,
    host: string,
    port: number,
    onOpened: ChannelCallback,
  ): this;
  /** Says goodbye and ends the socket's writable side. */
  end(): this;
}

/** The events of a client. An `error` is not the last event, and there can be several. */
export interface ClientEvents {
  close: [];
  error: [error: Error];
  /** A key exchange is done, the first or a later one. */
  handshake: [];
  /** The host has said that the login succeeded. */
  ready: [];
}

export interface ConnectOptions {
  readonly sock: Duplex;
  readonly username: string;
  /** Milliseconds for handshake and login; 0 means no limit. */
  readonly readyTimeout: number;
  /** What to offer, the preferred first; without it, ssh2's own lists. */
  readonly algorithms?: Algorithms;
  /** Whether to accept the key, in binary form, that the host shows. Without it every key is good. */
  readonly hostVerifier?: (key: Uint8Array) => boolean;
  /** Chooses the next way to log in, at first and after each refusal. */
  readonly authHandler?: AuthHandler;
}

/** Lists of algorithms by their names in the protocol. */
export interface Algorithms {
  readonly kex: readonly string[];
  readonly cipher: readonly string[];
  readonly hmac: readonly string[];
  readonly compress: readonly string[];
  readonly serverHostKey: readonly string[];
}

/** Calls `next` with what to try. Both of the others are `null` before the host has refused anything. */
export type AuthHandler = (
  methodsLeft: readonly string[] | null,
  partialSuccess: boolean | null,
  next: (attempt: { readonly type: "none"; readonly username: string }) => void,
) => void;

export interface ExecOptions {
  readonly pty?: PseudoTerminal;
}

/** A pseudo-terminal to ask for (RFC 4254 section 6.2). */
export interface PseudoTerminal {
  readonly term: string;
  readonly cols: number;
  readonly rows: number;
  /** In pixels, like `height`; 0 leaves it to `cols`. */
  readonly width: number;
  readonly height: number;
  /** Values by the names of RFC 4254 section 8. */
  readonly modes: Readonly<Record<string, number>>;
}

/** Called once, when the host has opened the channel (and started its command) or refused it. */
export type ChannelCallback = (
  ...result: [error: Error, channel: undefined] | [error: undefined, channel: ClientChannel]
) => void;

/** The channel of a command that runs, or to an address behind the host. */
export interface ClientChannel extends Duplex {
  /** A Readable. It has to be read, too: both streams share one flow control window. */
  readonly stderr: EventEmitter<StreamEvents>;
  on<Name extends keyof ChannelEvents>(name: Name, listener: (...event: ChannelEvents[Name]) => void): this;
  once<Name extends keyof ChannelEvents>(name: Name, listener: (...event: ChannelEvents[Name]) => void): this;
  /** Closes the channel, whatever the command does. */
  close(): void;
}

/** The events of a stream that is read. */
export interface StreamEvents {
  data: [chunk: Uint8Array];
  end: [];
  error: [error: Error];
}

export interface ChannelEvents extends StreamEvents {
  /** The host has closed the channel, and what it sent on it has been read. */
  close: [];
  /** How the command ended: with a status, or by a signal, whose name begins with `SIG`. */
  exit: [status: number, signal: undefined] | [status: null, signal: string];
}
