/**
 * The parts of ssh2 1.17.0 used by test servers; `broker/ssh/ssh2.d.ts` gives the reason for these
 * declarations.
 *
 * @module
 */
import type { EventEmitter } from "node:events";
import type { AddressInfo } from "node:net";
import type { Duplex, Writable } from "node:stream";

// The exports of a CommonJS module are the members of its default export.
declare const ssh2: {
  readonly Server: typeof Server;
  readonly utils: {
    /** Reads a key in any common format. Errors are returned, not thrown. */
    parseKey(key: string): ParsedKey | Error;
  };
};
export default ssh2;

/** A key. Tests use only its public half. */
export interface ParsedKey {
  readonly type: string;
  getPublicSSH(): Uint8Array;
}

/** A server that passes every client to a listener when the client has sent its identification. */
declare class Server extends EventEmitter<{ error: [error: Error] }> {
  constructor(options: ServerOptions, onConnection: (connection: Connection, info: ClientInfo) => void);
  listen(port: number, hostname: string, onListening: () => void): this;
  address(): AddressInfo | string | null;
  /** Stops listening. The callback runs when all connections are closed. */
  close(onClosed: () => void): this;
}

export interface ServerOptions {
  /** Private keys, as PEM. */
  readonly hostKeys: readonly string[];
}

export interface ClientInfo {
  readonly ip: string;
}

export interface Connection extends EventEmitter<ConnectionEvents> {
  end(): this;
}

/** The events of a connection. ssh2 rejects requests without a listener. */
export interface ConnectionEvents {
  authentication: [context: AuthenticationContext];
  close: [];
  end: [];
  error: [error: Error];
  handshake: [negotiated: { readonly serverHostKey: string }];
  session: [accept: () => Session];
  /** The client requests a connection to an address (`direct-tcpip`). */
  tcpip: [
    accept: () => Duplex,
    reject: Answer,
    info: { readonly destIP: string; readonly destPort: number },
  ];
}

/** One attempt to log in, to be accepted or rejected. */
export type AuthenticationContext = PublicKeyContext | OtherContext;

/** An attempt with a key or a certificate. */
export interface PublicKeyContext extends Verdict {
  readonly method: "publickey";
  readonly username: string;
  readonly key: { readonly algo: string; readonly data: Uint8Array };
  /** Absent, like `blob`, if the client only queries whether the key is accepted. */
  readonly signature: Uint8Array | undefined;
  readonly blob: Uint8Array | undefined;
}

/** An attempt of any other kind. */
export interface OtherContext extends Verdict {
  readonly method: "hostbased" | "keyboard-interactive" | "none" | "password";
}

export interface Verdict {
  accept(): void;
  reject(methodsLeft: string[]): void;
}

/** A session, which runs one command. */
export type Session = EventEmitter<SessionEvents>;

/** The events of a session. If a client wants no answer, there is no function for it. */
export interface SessionEvents {
  /** The client's input has ended. */
  eof: [];
  exec: [accept: () => ServerChannel, reject: Answer | undefined, info: { readonly command: string }];
  pty: [accept: Answer | undefined, reject: Answer | undefined];
  shell: [accept: () => ServerChannel, reject: Answer | undefined];
  /** The signal's name is without `SIG`. */
  signal: [accept: Answer | undefined, reject: Answer | undefined, info: { readonly name: string }];
}

export type Answer = () => void;

/** The channel of a command: its input is read from it, its output is written to it. */
export interface ServerChannel extends Duplex {
  readonly stderr: Writable;
  /** Reports the command's end; the channel must be ended afterwards. */
  exit(status: number): void;
  exit(signal: string, coreDumped: boolean, message: string): void;
}
