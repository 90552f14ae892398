import { Hono } from "@hono/hono";
import { AppError } from "@gateway/shared/errors";
import type { Peer, PeerHandler } from "@gateway/shared/http/mtls_server";
import { problemResponse } from "@gateway/shared/http/problem";
import { handleFreeze, handleRevocations, handleUnfreeze } from "./handlers/freeze.ts";
import { handleCreateGrant, handleListGrants, handleRevokeGrant } from "./handlers/grants.ts";
import { handleHosts } from "./handlers/hosts.ts";
import { handleAllowEdit, handlePolicyRead } from "./handlers/policy.ts";
import { handleReload } from "./handlers/reload.ts";
import { handleSign } from "./handlers/sign.ts";
import type { SignerOptions, SignerPorts } from "./ports.ts";

/** The methods of each route, for whoever uses another one. */
const METHODS = [
  ["/v1/sign", "POST"],
  ["/v1/hosts", "GET"],
  ["/v1/reload", "POST"],
  ["/v1/policy/hosts", "GET"],
  ["/v1/policy/hosts/:host/allow", "POST", "DELETE"],
  ["/v1/policy/hosts/:host/grants", "POST"],
  ["/v1/policy/grants", "GET"],
  ["/v1/policy/grants/:id", "DELETE"],
  ["/v1/freeze", "POST"],
  ["/v1/unfreeze", "POST"],
  ["/v1/revocations", "GET"],
] as const;

interface Env {
  Bindings: { readonly peer: Peer };
}

/** The signer's routes behind the mTLS listener. */
export function createSignerApp(options: SignerOptions): PeerHandler {
  const requests = options.metrics.counter(
    "signer_sign_requests_total",
    "Sign requests by audit outcome, and rate-limited ones",
    ["outcome"],
  );
  const countOutcome = (outcome: string) => requests.inc({ outcome });
  const ports: SignerPorts = {
    ...options,
    countOutcome,
    async recordOutcome(entry, label = entry.outcome) {
      await options.gate.require(entry);
      countOutcome(label);
    },
  };
  const app = new Hono<Env>();
  app.post("/v1/sign", (c) => handleSign(ports, c.req.raw, c.env.peer));
  app.get("/v1/hosts", (c) => handleHosts(ports, c.req.raw, c.env.peer));
  app.post("/v1/reload", (c) => handleReload(ports, c.env.peer));
  app.get("/v1/policy/hosts", (c) => handlePolicyRead(ports, c.env.peer));
  app.post(
    "/v1/policy/hosts/:host/allow",
    (c) => handleAllowEdit(ports, c.req.raw, c.env.peer, { host: c.req.param("host"), edit: "add" }),
  );
  app.delete(
    "/v1/policy/hosts/:host/allow",
    (c) => handleAllowEdit(ports, c.req.raw, c.env.peer, { host: c.req.param("host"), edit: "remove" }),
  );
  app.post(
    "/v1/policy/hosts/:host/grants",
    (c) => handleCreateGrant(ports, c.req.raw, c.env.peer, c.req.param("host")),
  );
  app.get("/v1/policy/grants", (c) => handleListGrants(ports, c.env.peer));
  app.delete("/v1/policy/grants/:id", (c) => handleRevokeGrant(ports, c.env.peer, c.req.param("id")));
  app.post("/v1/freeze", (c) => handleFreeze(ports, c.req.raw, c.env.peer));
  app.post("/v1/unfreeze", (c) => handleUnfreeze(ports, c.req.raw, c.env.peer));
  app.get("/v1/revocations", (c) => handleRevocations(ports, c.env.peer));
  app.notFound((c) => refuseRoute(c.req.path));
  app.onError((error) => {
    throw error;
  });
  return (request, peer) => app.fetch(request, { peer });
}

// Not routes of their own: a request that two routes match takes the long way through the router.
function refuseRoute(path: string): Response {
  const parts = path.split("/");
  const [, ...allow] = METHODS.find(([pattern]) => matches(pattern.split("/"), parts)) ?? [];
  return allow.length === 0
    ? problemResponse(new AppError("not_found", "no such route"))
    : problemResponse(new AppError("method_not_allowed", "method not allowed"), { allow });
}

function matches(pattern: readonly string[], parts: readonly string[]): boolean {
  return pattern.length === parts.length &&
    pattern.every((part, index) => part.startsWith(":") ? parts[index] !== "" : part === parts[index]);
}
