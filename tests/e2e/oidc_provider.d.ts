/**
 * The parts of oidc-provider 9.13.3 used by tests; the package has no types.
 *
 * @module
 */
import type { EventEmitter } from "node:events";
import type { RequestListener, Server } from "node:http";

export default class Provider extends EventEmitter {
  constructor(issuer: string, configuration: object);
  callback(): RequestListener;
  listen(port: number, hostname: string, onListen: () => void): Server;
}
