import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, describeFault } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import type * as z from "@zod/zod";
import type { ChangeRecords } from "../live/live_state.ts";
import type { Authority, Call } from "../sign/authority.ts";

type Denied = Omit<AuditEntry, "caller" | "err">;

/**
 * Accepts admins, identified by the peer's own certificate. @throws {AppError} `forbidden`, after the
 * rejection is recorded
 */
export async function requireAdmin(
  { state, gate }: Authority,
  { caller }: Peer,
  denied: Denied,
): Promise<void> {
  if (state.current.reloadCallers.has(caller)) return;
  const err = "caller is not in reload_callers";
  await gate.bestEffort({ ...denied, caller, err });
  throw new AppError("forbidden", err);
}

export async function readAdminBody<T>(
  authority: Authority,
  { request, peer }: Call,
  denied: Denied,
  schema: z.ZodType<T>,
  maxBytes = 16 * 1024,
): Promise<T> {
  await requireAdmin(authority, peer, denied);
  return await readJsonBody(request, { maxBytes, schema });
}

export function answer(body: unknown, status = 200): Response {
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { "content-type": "application/json" },
  });
}

/** The audit records of a change that `LiveState` makes. */
export function changeRecords<Facts>(
  { gate }: Authority,
  entryOf: (facts: Facts) => Omit<AuditEntry, "outcome">,
  { made, failed, problem }: {
    readonly made: string;
    readonly failed: string;
    /** The state after the failure, in words. */
    readonly problem: (facts: Facts) => string;
  },
): ChangeRecords<Facts> {
  return {
    made: (facts) => gate.require({ ...entryOf(facts), outcome: made }),
    notStored: (facts, error) =>
      gate.bestEffort({
        ...entryOf(facts),
        outcome: failed,
        err: `${problem(facts)}: ${describeFault(error)}`,
      }),
  };
}

/**
 * `POST /v1/reload`: loads the config file again, and returns the patterns that the previous policy did not have. A broken
 * file, or one whose `policy_tests` fail, changes nothing. Callers: `reload_callers`.
 *
 * @throws {AppError} `invalid_config` if the file or a file that it names is invalid; the previous config stays in force
 * @throws {AppError} `conflict` if the file changes while it is loaded
 */
export async function handleReload(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "reload", outcome: "reload-denied" });
  const { hosts, newPatterns } = await authority.state.reload(peer.caller);
  return answer({ status: "ok", hosts, new_patterns: newPatterns });
}
