import { parseStandardJson } from "@gateway/shared/json";
import { digestOf } from "../approvals/approval.ts";
import type { ControlPlaneConfig } from "../config/config.ts";

/** Who a request is counted for. */
interface SubjectIdentity {
  /** The broker: the CN of its certificate. */
  readonly caller: string;
  /** The person it acts for, as the broker says; empty: none. */
  readonly endUser: string;
  /** Whether the broker's word about its end users counts. */
  readonly trusted: boolean;
}

/** A longer end user is kept as its digest, so that a subject's key stays small. */
const LONGEST_END_USER = 256;

/**
 * The key of a subject: the broker, or a person behind a broker that is trusted to say who. A broker that is
 * not can't escape its own history by making up end users. Different identities never have the same key: it
 * is JSON, `["broker"]`, `["broker","alice"]` or `["broker",{"sha256":"…"}]`.
 */
export function subjectOf({ caller, endUser, trusted }: SubjectIdentity): string {
  if (!trusted || endUser === "") return JSON.stringify([caller]);
  const person = endUser.length > LONGEST_END_USER ? { sha256: digestOf(endUser) } : endUser;
  return JSON.stringify([caller, person]);
}

/** The broker in a subject's key; a key that {@linkcode subjectOf} has not made is a broker of its own. */
export function brokerOf(subject: string): string {
  try {
    const parts: unknown = parseStandardJson(subject);
    if (Array.isArray(parts) && typeof parts[0] === "string") return parts[0];
  } catch {
    // Not ours.
  }
  return subject;
}

/** Who wants what, as the guardrails see it. */
interface Behavior {
  readonly subject: string;
  readonly host: string;
  readonly command: string;
}

/** A broker's word about its end user makes a subject of its own only when the broker is trusted. */
export function behaviorOf(
  { trusted_forwarders }: Pick<ControlPlaneConfig, "trusted_forwarders">,
  { caller, request }: {
    readonly caller: string;
    readonly request: { readonly end_user: string; readonly host: string; readonly command: string };
  },
): Behavior {
  const trusted = trusted_forwarders.includes(caller);
  return {
    subject: subjectOf({ caller, endUser: request.end_user, trusted }),
    host: request.host,
    command: request.command,
  };
}
