/**
 * The query of `GET /v1/hosts` that asks for the rules of some hosts.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readRulesHosts, rulesPath } from "@gateway/shared/wire/host_rules";
 *
 * assert.equal(rulesPath(["web01", "a&b"]), "/v1/hosts?policy=true&host=web01&host=a%26b");
 * const request = new Request(`https://signer${rulesPath(["web01", "a&b"])}`);
 * assert.deepEqual(readRulesHosts(request), ["web01", "a&b"]);
 * assert.equal(readRulesHosts(new Request("https://signer/v1/hosts")), undefined);
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";

/** How many hosts may be named in one request for their rules. */
export const MAX_RULES_HOSTS = 20;

/** The path that asks for the rules of these hosts. */
export function rulesPath(hosts: readonly string[]): string {
  return `/v1/hosts?${new URLSearchParams([["policy", "true"], ...hosts.map((host) => ["host", host])])}`;
}

/**
 * The hosts whose rules a request asks for; `undefined` when it asks for the list of hosts as such.
 *
 * @throws {AppError} `invalid_request` when it names none, or too many
 */
export function readRulesHosts({ url }: Request): readonly string[] | undefined {
  const query = new URL(url).searchParams;
  if (query.get("policy") !== "true") return undefined;
  const hosts = query.getAll("host");
  if (hosts.length >= 1 && hosts.length <= MAX_RULES_HOSTS) return hosts;
  throw new AppError("invalid_request", `policy=true needs host=…, 1 to ${MAX_RULES_HOSTS} times`);
}
