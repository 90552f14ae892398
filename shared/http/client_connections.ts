/**
 * TLS connections to one server, each with one request at a time, kept open between requests.
 *
 * Not those of `node:https`: when a connection that was used before ends without an answer, Deno 2.9.6 sends the
 * request again, also a POST, even when it was ended here. What was signed or decided would be so twice. And they cost
 * as much as signing itself. Not `fetch`: with a client certificate it does not send again, but `caCerts` stand beside
 * the public roots, which stay trusted, and a server that offers no more than TLS 1.2 is talked to, which no option
 * forbids.
 *
 * @module
 */
import { connect, type TLSSocket } from "node:tls";
import { type Answer, type AnswerLimits, AnswerParser } from "./answer_parser.ts";
import type { TlsIdentity } from "./tls_material.ts";

/** What {@linkcode ClientConnections} needs. */
interface ClientConnectionsOptions extends AnswerLimits, Partial<TlsIdentity> {
  /** The oldest version of TLS that is talked; by default 1.3. */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3";
  /** A name or an address, without brackets; it must be in the server's certificate. */
  readonly host: string;
  readonly port: number;
  /** Connections at a time; who finds none waits. */
  readonly maxConnections: number;
  /** After so long without a byte an unused connection is given up; less than what the server allows. */
  readonly idleMs: number;
}

/** An exchange under way. */
export interface Exchange {
  /** @throws when there is no answer: it was ended, or the connection was, or what came is not an answer */
  readonly answer: Promise<Answer>;
  /** Whether the other side may have got any of it. */
  readonly isSent: boolean;
  /** Ends it; nothing is sent again. */
  end(error: Error): void;
}

/** The connections of one client. */
export class ClientConnections {
  #options: ClientConnectionsOptions;
  readonly #open = new Set<Connection>();
  readonly #idle: Connection[] = [];
  readonly #waiting: PendingExchange[] = [];

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
  }

  /** Sends a request, once, on a connection that is free or new, or when one becomes free. */
  send(request: Uint8Array, limits: AnswerLimits = this.#options): Exchange {
    const pending = new PendingExchange(request, limits, (ended) => this.#forget(ended));
    const connection = this.#idle.pop();
    if (connection !== undefined) connection.start(pending);
    else if (this.#open.size < this.#options.maxConnections) this.#connect(pending);
    else this.#waiting.push(pending);
    return pending;
  }

  /** Shows other credentials from the next connection on; those that are open end with the answer on them. */
  renew(tls: Pick<ClientConnectionsOptions, "cert" | "key" | "ca">): void {
    this.#options = { ...this.#options, ...tls };
    for (const connection of this.#open) connection.retire();
  }

  close(): void {
    const error = new Error("the client was closed");
    for (const pending of this.#waiting.splice(0)) pending.fail(error);
    for (const connection of this.#open) connection.fail(error);
  }

  #connect(pending: PendingExchange): void {
    const connection = new Connection(this.#options, {
      onFree: () => {
        const next = this.#waiting.shift();
        if (next === undefined) this.#idle.push(connection);
        else connection.start(next);
      },
      onEnd: () => {
        this.#open.delete(connection);
        const index = this.#idle.indexOf(connection);
        if (index >= 0) this.#idle.splice(index, 1);
        const next = this.#waiting.shift();
        if (next !== undefined) this.#connect(next);
      },
    });
    this.#open.add(connection);
    connection.start(pending);
  }

  #forget(pending: PendingExchange): void {
    const index = this.#waiting.indexOf(pending);
    if (index >= 0) this.#waiting.splice(index, 1);
  }
}

class PendingExchange implements Exchange {
  readonly request: Uint8Array;
  readonly limits: AnswerLimits;
  readonly answer: Promise<Answer>;
  /** The connection that it is on. */
  connection: Connection | undefined;
  isSent = false;
  readonly #result = Promise.withResolvers<Answer>();
  readonly #onEnd: (pending: PendingExchange) => void;

  constructor(request: Uint8Array, limits: AnswerLimits, onEnd: (pending: PendingExchange) => void) {
    this.request = request;
    this.limits = limits;
    this.answer = this.#result.promise;
    this.#onEnd = onEnd;
  }

  end(error: Error): void {
    this.#onEnd(this);
    this.fail(error);
    this.connection?.fail(error);
  }

  succeed(answer: Answer): void {
    this.#result.resolve(answer);
  }

  fail(error: Error): void {
    this.#result.reject(error);
  }
}

interface ConnectionEvents {
  /** It can take the next request. */
  readonly onFree: () => void;
  readonly onEnd: () => void;
}

class Connection {
  readonly #socket: TLSSocket;
  readonly #events: ConnectionEvents;
  #pending: PendingExchange | undefined;
  #parser: AnswerParser | undefined;
  #isSecure = false;
  #isOver = false;
  #isRetired = false;

  constructor(options: ClientConnectionsOptions, events: ConnectionEvents) {
    this.#events = events;
    // No session is kept: a resumed one would not check the server's certificate again.
    this.#socket = connect({
      host: options.host,
      port: options.port,
      ...(options.cert !== undefined && { cert: options.cert }),
      ...(options.key !== undefined && { key: options.key }),
      ca: options.ca,
      minVersion: options.minVersion ?? "TLSv1.3",
      rejectUnauthorized: true,
      ALPNProtocols: ["http/1.1"],
    });
    this.#socket.setNoDelay(true);
    this.#socket.setTimeout(options.idleMs, () => {
      if (this.#pending === undefined) this.fail(new Error("idle"));
    });
    this.#socket.on("secureConnect", () => this.#onSecure());
    this.#socket.on("data", (bytes: Uint8Array) => this.#onData(bytes));
    this.#socket.on("error", (error: Error) => this.fail(error));
    this.#socket.on("end", () => this.fail(new Error("the server ended the connection")));
    this.#socket.on("close", () => this.fail(new Error("the connection closed")));
  }

  /** Sends a request; the connection must be free. */
  start(pending: PendingExchange): void {
    this.#pending = pending;
    pending.connection = this;
    this.#parser = new AnswerParser(pending.limits);
    this.#socket.ref();
    if (this.#isSecure) this.#write(pending);
  }

  /** Ends the connection, at once or after the answer to what is on it. */
  retire(): void {
    this.#isRetired = true;
    if (this.#pending === undefined) this.fail(new Error("retired"));
  }

  /** Ends the connection and what is on it. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    this.#pending?.fail(error);
    this.#pending = undefined;
    this.#events.onEnd();
  }

  #onSecure(): void {
    if (this.#isOver) return;
    if (this.#socket.authorized !== true) {
      return this.fail(new Error("the server's certificate was not verified"));
    }
    this.#isSecure = true;
    if (this.#pending !== undefined) this.#write(this.#pending);
  }

  #write(pending: PendingExchange): void {
    // Before it is: what is written may arrive whatever is told of it.
    pending.isSent = true;
    this.#socket.write(pending.request);
  }

  #onData(bytes: Uint8Array): void {
    const pending = this.#pending;
    if (this.#isOver) return;
    // An answer before the question would be taken for that of the next one.
    if (pending === undefined || this.#parser === undefined) return this.fail(new Error("unexpected bytes"));
    let answer: Answer | undefined;
    try {
      answer = this.#parser.push(bytes);
    } catch (error) {
      return this.fail(error instanceof Error ? error : new Error(String(error)));
    }
    if (answer === undefined) return;
    this.#pending = undefined;
    this.#parser = undefined;
    pending.connection = undefined;
    pending.succeed(answer);
    if (!answer.isReusable || this.#isRetired) {
      return this.fail(new Error("the server closes the connection"));
    }
    // An unused connection keeps no process alive.
    this.#socket.unref();
    this.#events.onFree();
  }
}
