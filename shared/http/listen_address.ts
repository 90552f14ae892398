/**
 * The `listen` and `monitor_listen` settings: `host:port`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseListenAddress } from "@gateway/shared/http";
 *
 * assert.deepEqual(parseListenAddress(":9443"), { hostname: "0.0.0.0", port: 9443 });
 * assert.deepEqual(parseListenAddress("[::1]:9443"), { hostname: "::1", port: 9443 });
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";

/** Where a listener binds. */
export interface ListenAddress {
  /** A name or an address, without brackets. */
  readonly hostname: string;
  /** 0 to 65535; 0 lets the system choose. */
  readonly port: number;
}

const ADDRESS = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([\w.-]*)):(\d{1,5})$/;

/**
 * Parses `host:port`. Without a host (`:9443`) it is every IPv4 address; an IPv6 address stands in brackets.
 *
 * @throws {AppError} `invalid_config` when it is something else
 */
export function parseListenAddress(text: string): ListenAddress {
  const match = ADDRESS.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) {
    throw new AppError(
      "invalid_config",
      `Cannot use listen address ${JSON.stringify(text)}: expected host:port`,
    );
  }
  return { hostname: match[1] ?? (match[2] || "0.0.0.0"), port };
}
