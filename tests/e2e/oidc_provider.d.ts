/**
 * What the tests use of oidc-provider 9.13.3, which has no types of its own.
 *
 * @module
 */
import type { EventEmitter } from "node:events";
import type { Server } from "node:http";

export default class Provider extends EventEmitter {
  constructor(issuer: string, configuration: object);
  listen(port: number, hostname: string, onListen: () => void): Server;
}
