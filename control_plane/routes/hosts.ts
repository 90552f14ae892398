import { readIfNoneMatch, readJsonBody } from "@gateway/shared/http";
import { isSameIdentity } from "@gateway/shared/text";
import {
  readRulesHosts,
  revokeRequestsRequest,
  revokeSerialsRequest,
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

/** `GET /v1/hosts`: the broker's hosts, 304 if the broker has the list, or the rules of some hosts. */
export const handleHosts: Handler = async (ports, { request, peer: { caller } }) => {
  await requireSigner(ports, caller, "GET /v1/hosts");
  const named = readRulesHosts(request);
  if (named !== undefined) return answer(await ports.signer.rules(caller, named));
  const ifNoneMatch = readIfNoneMatch(request.headers.get("if-none-match"));
  const { text, tag } = await ports.signer.hosts(caller, ifNoneMatch);
  // A client may keep the list, and has to revalidate it each time.
  const headers = tag === undefined ? {} : { etag: tag, "cache-control": "private, no-cache" };
  if (text === undefined) return new Response(null, { status: 304, headers });
  // The signer's own text, because the tag is of that text.
  return jsonAnswer(`${text}\n`, { headers });
};

export const handleClusters = relay(
  "GET /v1/clusters",
  ({ signer }, caller, request) => signer.clusters(caller, wantsClusterRules(request)),
);

/** The freezes, without other callers. Only the signer's admins see who froze and why. */
export const handleRevocations = relay("GET /v1/revocations", async ({ signer }, caller) => {
  const entries = await signer.revocations();
  return entries.filter(({ kind, value }) => kind !== "caller" || isSameIdentity(value, caller))
    .map(({ kind, value, frozen_at }) => ({ kind, value, frozen_at }));
});

/** Revokes certificates of the requesting broker only. */
export const handleRevokeSerials = relay(
  "POST /v1/revocations/serials",
  async ({ signer }, caller, request) => {
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeSerialsRequest });
    return await signer.revokeSerials(caller, body);
  },
);

/** Revokes the certificates of requests whose answers the broker has lost. */
export const handleRevokeRequests = relay(
  "POST /v1/revocations/requests",
  async ({ signer }, caller, request) => {
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeRequestsRequest });
    return await signer.revokeRequests(caller, body);
  },
);
