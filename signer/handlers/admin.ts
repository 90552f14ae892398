import type { AuditEntry } from "@gateway/shared/audit/entry";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import type { SignerPorts } from "../app.ts";

/** The longest body of an admin request. */
export const MAX_ADMIN_BODY_BYTES: number = 16 * 1024;

/** Text in audit records: a blank or a control character would forge other fields. */
// deno-lint-ignore no-control-regex -- these characters are what is looked for
const UNSAFE = /[\u0000-\u0020\u007f-\u009f\u2028\u2029]/;

/** Whether a text can't stand in an audit record as one word. */
export function isUnsafe(text: string): boolean {
  return UNSAFE.test(text);
}

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

/** A JSON answer. */
export function answer(body: unknown, status = 200): Response {
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { "content-type": "application/json" },
  });
}
