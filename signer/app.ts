import { AppError } from "@gateway/shared/errors";
import type { Peer, PeerHandler } from "@gateway/shared/http";
import { CALLER_DENIALS } from "@gateway/shared/policy";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { handleReload } from "./routes/admin.ts";
import {
  handleCreateGrant,
  handleFreeze,
  handleListGrants,
  handleRevocations,
  handleRevokeGrant,
  handleUnfreeze,
} from "./routes/grants.ts";
import { handleClusters, handleHosts } from "./routes/hosts.ts";
import {
  handlePatternEdit,
  handlePolicyChange,
  handlePolicyRead,
  handlePolicyVersion,
  handlePolicyVersions,
} from "./routes/policy.ts";
import {
  handleKrl,
  handleKrlSignature,
  handleKrlStatus,
  handleRevokeKeyIds,
  handleRevokeRequests,
  handleRevokeSerials,
} from "./routes/revocations.ts";
import { handleListSessions, handleReportSessions } from "./routes/sessions.ts";
import type { Authority } from "./sign/authority.ts";
import { isListReader } from "./sign/judge.ts";
import { handleSign } from "./sign/sign.ts";

export const SIGNER_ROUTES = routesFor<Authority, { readonly peer: Peer }>()({
  "/v1/sign": { POST: handleSign },
  "/v1/clusters": { GET: handleClusters },
  "/v1/hosts": { GET: handleHosts },
  "/v1/reload": { POST: handleReload },
  "/v1/policy/hosts": { GET: handlePolicyRead },
  "/v1/policy/versions": { GET: handlePolicyVersions, POST: handlePolicyChange },
  "/v1/policy/versions/:version": {
    GET: (authority, call) => handlePolicyVersion(authority, call),
  },
  "/v1/policy/hosts/:host/allow": {
    POST: (authority, call) => handlePatternEdit(authority, call, "allow", "add"),
    DELETE: (authority, call) => handlePatternEdit(authority, call, "allow", "remove"),
  },
  "/v1/policy/hosts/:host/deny": {
    POST: (authority, call) => handlePatternEdit(authority, call, "deny", "add"),
    DELETE: (authority, call) => handlePatternEdit(authority, call, "deny", "remove"),
  },
  "/v1/policy/hosts/:host/require_approval": {
    POST: (authority, call) => handlePatternEdit(authority, call, "require_approval", "add"),
    DELETE: (authority, call) => handlePatternEdit(authority, call, "require_approval", "remove"),
  },
  "/v1/policy/hosts/:host/grants": {
    POST: (authority, call) => handleCreateGrant(authority, call),
  },
  "/v1/policy/grants": { GET: handleListGrants },
  "/v1/policy/grants/:id": {
    DELETE: (authority, call) => handleRevokeGrant(authority, call),
  },
  "/v1/freeze": { POST: handleFreeze },
  "/v1/unfreeze": { POST: handleUnfreeze },
  "/v1/revocations": { GET: handleRevocations },
  "/v1/revocations/serials": { POST: handleRevokeSerials },
  "/v1/revocations/requests": { POST: handleRevokeRequests },
  "/v1/revocations/key-ids": { POST: handleRevokeKeyIds },
  "/v1/sessions": { GET: handleListSessions, POST: handleReportSessions },
  "/v1/krl": { GET: handleKrl, HEAD: "refused" },
  "/v1/krl.sig": { GET: handleKrlSignature },
  "/v1/krl/hosts": { GET: handleKrlStatus },
});

/** The signer's routes behind the mTLS listener. */
export function createSignerApp(authority: Authority): PeerHandler {
  const answer = createRouter(SIGNER_ROUTES, authority, { noRoute: "no such route" });
  return (request, peer) => {
    // The identity of a host is stored on that host, so it must not give access to anything else.
    if (isListReader(authority.state.current, peer.caller) && !isForList(request.url)) {
      throw new AppError("forbidden", CALLER_DENIALS.readsOnly);
    }
    return answer(request, { peer });
  };
}

/**
 * Whether a request is for the revocation list or its signature. The URL must be spelled exactly like the
 * route, because a URL with `..` resolves to another path.
 */
function isForList(url: string): boolean {
  const { origin, pathname } = new URL(url);
  const isList = pathname === "/v1/krl" || pathname === "/v1/krl.sig";
  return isList && url.split("?", 1)[0] === origin + pathname;
}
