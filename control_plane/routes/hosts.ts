import { readIfNoneMatch, readJsonBody } from "@gateway/shared/http";
import { isSameIdentity } from "@gateway/shared/text";
import {
  MAX_REPORT_BYTES,
  readRulesHosts,
  revokeRequestsRequest,
  revokeSerialsRequest,
  sessionReport,
  wantsClusterRules,
} from "@gateway/shared/wire";
import type { ControlPlanePorts, Handler } from "./ports.ts";
import { answer, jsonAnswer, requireSigner } from "./roles.ts";

const MAX_BODY_BYTES = 16 * 1024;

/** A route that sends a broker's request on to the signer. */
const relay = (
  route: string,
  run: (ports: ControlPlanePorts, caller: string, request: Request) => Promise<unknown>,
): Handler =>
async (ports, { request, peer: { caller } }) => {
  await requireSigner(ports, caller, route);
  return answer(await run(ports, caller, request));
};

/**
 * `GET /v1/hosts`: lists the broker's hosts, or with `policy=true` the named hosts with their rules. Callers: brokers
 * (`sign_callers`).
 *
 * @throws {AppError} `invalid_request` if `policy=true` names no host or more than 20 hosts
 * @throws {AppError} `frozen` if the broker is frozen
 * @throws {AppError} `denied` if the signer does not accept the broker through this control plane (`only_via`)
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleHosts: Handler = async (ports, { request, peer: { caller } }) => {
  await requireSigner(ports, caller, "GET /v1/hosts");
  const named = readRulesHosts(request);
  if (named !== undefined) return answer(await ports.signer.rules(caller, named));
  const ifNoneMatch = readIfNoneMatch(request.headers.get("if-none-match"));
  const { text, tag } = await ports.signer.hosts(caller, ifNoneMatch);
  // A client may cache the list, but must revalidate it on each use.
  const headers = tag === undefined ? {} : { etag: tag, "cache-control": "private, no-cache" };
  if (text === undefined) return new Response(null, { status: 304, headers });
  // The signer's own text, because the tag is of that text.
  return jsonAnswer(`${text}\n`, { headers });
};

/**
 * `GET /v1/clusters`: lists the broker's clusters, with `policy=true` also their rules in words. Callers: brokers
 * (`sign_callers`).
 *
 * @throws {AppError} `frozen` if the broker is frozen
 * @throws {AppError} `denied` if the signer does not accept the broker through this control plane (`only_via`)
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleClusters = relay(
  "GET /v1/clusters",
  ({ signer }, caller, request) => signer.clusters(caller, wantsClusterRules(request)),
);

/**
 * `GET /v1/revocations`: lists the freezes without those of other callers. Only admins of the signer see who froze and
 * why. Callers: brokers (`sign_callers`).
 *
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleRevocations = relay("GET /v1/revocations", async ({ signer }, caller) => {
  const entries = await signer.revocations();
  return entries.filter(({ kind, value }) => kind !== "caller" || isSameIdentity(value, caller))
    .map(({ kind, value, frozen_at }) => ({ kind, value, frozen_at }));
});

/**
 * `POST /v1/revocations/serials`: revokes certificates of the requesting broker. Callers: brokers (`sign_callers`).
 *
 * @throws {AppError} `rate_limited` if the broker has sent too many revocations
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleRevokeSerials = relay(
  "POST /v1/revocations/serials",
  async ({ signer }, caller, request) => {
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeSerialsRequest });
    return await signer.revokeSerials(caller, body);
  },
);

/**
 * `POST /v1/revocations/requests`: abandons requests whose answers the broker has lost, and revokes their certificates.
 * Callers: brokers (`sign_callers`).
 *
 * @throws {AppError} `rate_limited` if the broker has sent too many revocations
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleRevokeRequests = relay(
  "POST /v1/revocations/requests",
  async ({ signer }, caller, request) => {
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeRequestsRequest });
    return await signer.revokeRequests(caller, body);
  },
);

/**
 * `POST /v1/sessions`: reports the open sessions of the broker. Callers: brokers (`sign_callers`).
 *
 * @throws {AppError} `rate_limited` if the broker has sent too many reports
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 */
export const handleReportSessions = relay("POST /v1/sessions", async ({ signer }, caller, request) => {
  const body = await readJsonBody(request, { maxBytes: MAX_REPORT_BYTES, schema: sessionReport });
  return await signer.reportSessions(caller, body);
});
