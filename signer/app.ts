import { AppError } from "@gateway/shared/errors";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import type { Peer, PeerHandler } from "@gateway/shared/http";
import { handleFreeze, handleRevocations, handleUnfreeze } from "./routes/freeze.ts";
import { handleClusters, handleHosts } from "./routes/hosts.ts";
import { handleCreateGrant, handleListGrants, handleRevokeGrant } from "./routes/grants.ts";
import { handleAllowEdit, handlePolicyRead } from "./routes/policy.ts";
import { handlePolicyChange, handlePolicyVersion, handlePolicyVersions } from "./routes/policy_versions.ts";
import { handleReload } from "./routes/admin.ts";
import { handleSign } from "./sign/sign.ts";
import { handleKrl, handleKrlSignature, handleKrlStatus } from "./routes/krl.ts";
import { handleRevokeKeyIds, handleRevokeRequests, handleRevokeSerials } from "./routes/revoke.ts";
import { isListReader, READS_ONLY } from "./sign/on_behalf_of.ts";
import type { SignerOptions, SignerPorts } from "./sign/ports.ts";

export const SIGNER_ROUTES = routesFor<SignerPorts, { readonly peer: Peer }>()({
  "/v1/sign": {
    POST: (ports, { request, peer }) => ports.timings.sign.measure(() => handleSign(ports, request, peer)),
  },
  "/v1/clusters": { GET: (ports, { request, peer }) => handleClusters(ports, request, peer) },
  "/v1/hosts": { GET: (ports, { request, peer }) => handleHosts(ports, request, peer) },
  "/v1/reload": { POST: (ports, { peer }) => handleReload(ports, peer) },
  "/v1/policy/hosts": { GET: (ports, { peer }) => handlePolicyRead(ports, peer) },
  "/v1/policy/versions": {
    GET: (ports, { peer }) => handlePolicyVersions(ports, peer),
    POST: (ports, { request, peer }) => handlePolicyChange(ports, request, peer),
  },
  "/v1/policy/versions/:version": {
    GET: (ports, { peer, param }) => handlePolicyVersion(ports, peer, param("version")),
  },
  "/v1/policy/hosts/:host/allow": {
    POST: (ports, { request, peer, param }) =>
      handleAllowEdit(ports, request, peer, { host: param("host"), edit: "add" }),
    DELETE: (ports, { request, peer, param }) =>
      handleAllowEdit(ports, request, peer, { host: param("host"), edit: "remove" }),
  },
  "/v1/policy/hosts/:host/grants": {
    POST: (ports, { request, peer, param }) => handleCreateGrant(ports, request, peer, param("host")),
  },
  "/v1/policy/grants": { GET: (ports, { peer }) => handleListGrants(ports, peer) },
  "/v1/policy/grants/:id": {
    DELETE: (ports, { peer, param }) => handleRevokeGrant(ports, peer, param("id")),
  },
  "/v1/freeze": { POST: (ports, { request, peer }) => handleFreeze(ports, request, peer) },
  "/v1/unfreeze": { POST: (ports, { request, peer }) => handleUnfreeze(ports, request, peer) },
  "/v1/revocations": { GET: (ports, { peer }) => handleRevocations(ports, peer) },
  "/v1/revocations/serials": {
    POST: (ports, { request, peer }) => handleRevokeSerials(ports, request, peer),
  },
  "/v1/revocations/requests": {
    POST: (ports, { request, peer }) => handleRevokeRequests(ports, request, peer),
  },
  "/v1/revocations/key-ids": {
    POST: (ports, { request, peer }) => handleRevokeKeyIds(ports, request, peer),
  },
  "/v1/krl": { GET: (ports, { request, peer }) => handleKrl(ports, request, peer), HEAD: "refused" },
  "/v1/krl.sig": { GET: (ports, { request, peer }) => handleKrlSignature(ports, request, peer) },
  "/v1/krl/hosts": { GET: (ports, { peer }) => handleKrlStatus(ports, peer) },
});

/** The signer's routes behind the mTLS listener. */
export function createSignerApp(options: SignerOptions): PeerHandler {
  const requests = options.metrics.counter(
    "signer_sign_requests_total",
    "Sign requests by audit outcome, and rate-limited ones",
    ["outcome"],
  );
  const { metrics } = options;
  const timings = {
    sign: metrics.histogram("signer_sign_duration_seconds", "Sign requests, all that they take", "exchange"),
    decision: metrics.histogram(
      "signer_decision_duration_seconds",
      "What the policy takes to decide on one",
      "computing",
    ),
  };
  const countOutcome = (outcome: string) => requests.inc({ outcome });
  const ports: SignerPorts = {
    ...options,
    timings,
    countOutcome,
    async recordOutcome(entry, label = entry.outcome) {
      await options.gate.require(entry);
      countOutcome(label);
    },
  };
  const answer = createRouter(SIGNER_ROUTES, ports, { noRoute: "no such route" });
  return (request, peer) => {
    // A host's identity lies on that host: it must not be good for anything else.
    if (isListReader(options.state.current, peer.caller) && !isForList(request.url)) {
      throw new AppError("forbidden", READS_ONLY);
    }
    return answer(request, { peer });
  };
}

/** Whether a request is for the list or its signature, spelt as it is routed: no `..` that a URL resolves. */
function isForList(url: string): boolean {
  const { origin, pathname } = new URL(url);
  const isList = pathname === "/v1/krl" || pathname === "/v1/krl.sig";
  return isList && url.split("?", 1)[0] === origin + pathname;
}
