import type { ControlPlaneConfig } from "../config/config.ts";
import { subjectOf } from "../guardrails/subject.ts";

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
