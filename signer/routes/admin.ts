import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import type { SignerPorts } from "../sign/ports.ts";

/** The longest body of an admin request. */
export const MAX_ADMIN_BODY_BYTES: number = 16 * 1024;

/**
 * Lets the callers in `reload_callers` pass, by their own certificate only; records everybody else.
 *
 * @throws {AppError} `forbidden`
 */
export async function requireAdmin(
  ports: SignerPorts,
  peer: Peer,
  denied: Omit<AuditEntry, "caller" | "err">,
): Promise<void> {
  if (ports.state.current.reloadCallers.has(peer.caller)) return;
  const err = "caller is not in reload_callers";
  await ports.gate.bestEffort({ ...denied, caller: peer.caller, err });
  throw new AppError("forbidden", err);
}

export function answer(body: unknown, status = 200): Response {
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { "content-type": "application/json" },
  });
}

/** `POST /v1/reload`: reads `signer.json` again; for the callers in `reload_callers` only. */
export async function handleReload(ports: SignerPorts, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "reload", outcome: "reload-denied" });
  const hosts = await ports.state.reload(peer.caller);
  return answer({ status: "ok", hosts });
}
