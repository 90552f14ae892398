/**
 * Addresses of configs in the syntax of `--allow-net`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { listenPermissions, urlPermissions } from "@gateway/shared/permissions/address";
 *
 * assert.deepEqual(listenPermissions(":9443"), ["0.0.0.0:9443"]);
 * assert.deepEqual(urlPermissions("https://signer.example"), ["signer.example:443"]);
 * ```
 *
 * @module
 */
import { isIP } from "node:net";
import { AppError } from "../errors.ts";
import { parseListenAddress } from "../http/listen_address.ts";

/**
 * What a listener needs; nothing for an empty address.
 *
 * @throws {AppError} `invalid_config` for a host name other than `localhost`: a listener asks for the address
 *   that the name stands for, which only the machine itself knows
 */
export function listenPermissions(listen: string): readonly string[] {
  if (listen === "") return [];
  const { hostname, port } = parseListenAddress(listen);
  if (hostname === "localhost") return ["localhost", "127.0.0.1", "::1"].map((host) => join(host, port));
  if (isIP(hostname) === 0) {
    throw new AppError(
      "invalid_config",
      `Cannot derive permissions for listen address ${
        JSON.stringify(listen)
      }: use an IP address or localhost`,
    );
  }
  return [join(hostname, port)];
}

/** What a client of an `https:` or `http:` URL needs. */
export function urlPermissions(url: string): readonly string[] {
  const { hostname, port, protocol } = new URL(url);
  return [`${hostname}:${port === "" ? (protocol === "http:" ? 80 : 443) : port}`];
}

/**
 * What a connection to a host's `addr` needs: `host:port`, port 22 when it is left out.
 *
 * @throws {AppError} `invalid_config` when it is something else
 */
export function addressPermissions(addr: string): readonly string[] {
  if (isIP(addr) !== 0 || /^(?:\[[^\]]+\]|[^:[\]]+)$/.test(addr)) {
    return [join(addr.replace(/^\[|\]$/g, ""), 22)];
  }
  const { hostname, port } = parseListenAddress(addr);
  return [join(hostname, port)];
}

function join(hostname: string, port: number): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
