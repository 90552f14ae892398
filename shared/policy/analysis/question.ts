// Decides what a request would get, as the signer does, in the order of its gates, but without grants, waivers and
// freezes. An absent caller is any caller that may use the host or cluster.
import { AppError } from "../../errors.ts";
import { quoteText } from "../../text.ts";
import { type AllowedCluster, decideCluster, type DeniedCluster, findCluster } from "../clusters.ts";
import type { CompiledHost, CompiledPolicy } from "../compile.ts";
import type { CompiledCluster } from "../compile_cluster.ts";
import { parseClusterAction, type RequestedAction } from "../kubernetes.ts";
import { decideSsh, mayUseHost, type SshDecision, type SshIntent } from "../ssh.ts";

/** A request for a host; by default one command of any end user, without elevation. */
export type HostQuestion =
  & Pick<SshIntent, "command">
  & {
    readonly [Key in keyof Omit<SshIntent, "command" | "host" | "ttlSeconds" | "contentSha256">]?:
      | SshIntent[Key]
      | undefined;
  };

/** Decides a request for a host. */
export function decideRequest(
  policy: CompiledPolicy,
  host: CompiledHost,
  { caller, endUser = "", endUserGroups = null, role = "target", purpose = "oneshot", ...asked }:
    HostQuestion,
): SshDecision {
  if (caller !== undefined && mayUseHost(policy, caller, host.name) !== "ok") {
    return { kind: "denied", reason: "host not authorised", matchedRule: "", enforcement: "", host };
  }
  const { command, sessionMode = "", sudo = false, sudoUser = "", pty = false, fileTransfer = false } = asked;
  const [allowed = ""] = host.allowed_callers ?? [];
  return decideSsh(policy, {
    ...{ caller: caller ?? allowed, endUser, endUserGroups, host: host.name, role, purpose, sessionMode },
    ...{ command, sudo, sudoUser, pty, fileTransfer, ttlSeconds: 0, contentSha256: "" },
  });
}

/** The requester of an action on a cluster. */
export interface Requester {
  readonly caller: string | undefined;
  readonly endUser: string;
  readonly endUserGroups: readonly string[] | null;
  /** An apply that takes over fields. */
  readonly isForced?: boolean;
}

/** Decides an action on a cluster, and gives its canonical text; undefined: there is no such action. */
export function decideAction(
  policy: CompiledPolicy,
  cluster: CompiledCluster,
  asked: RequestedAction,
  { caller, ...requester }: Requester,
): { readonly action: string | undefined; readonly decision: AllowedCluster | DeniedCluster } {
  const parsed = parseClusterAction(cluster.resources, asked);
  const action = parsed.kind === "ok" ? parsed.action.text : undefined;
  const gate = caller === undefined ? undefined : findCluster(policy, caller, cluster.name);
  if (gate?.kind === "closed") {
    return { action, decision: { kind: "denied", reason: gate.reason, matchedRule: "" } };
  }
  const [allowed = ""] = cluster.allowed_callers;
  const intent = { ...asked, ...requester, command: action ?? "", manifestSha256: "" };
  const decision = decideCluster(cluster, { ...intent, caller: caller ?? allowed });
  if (decision.kind === "mismatch") throw new TypeError("the command is the text of the action");
  return { action, decision };
}

/**
 * Reads an action in the form of audit records: `get deployments.apps prod/api`, `list pods prod`, `get nodes -/n1`. The
 * group is optional, and so is the namespace of a list.
 *
 * @throws {AppError} `invalid_request` for a text that is not an action
 */
export function readAction(text: string): RequestedAction {
  const [verb = "", whole = "", place = "-", ...more] = text.trim().split(/\s+/);
  const [namespace = "", name = "-", ...rest] = place.split("/");
  if (whole === "" || more.length > 0 || rest.length > 0) {
    throw new AppError(
      "invalid_request",
      `Cannot read action ${quoteText(text)}: expected "<verb> <resource>[.<group>] [<namespace>[/<name>]]"`,
    );
  }
  const [resource = "", ...group] = whole.split(".");
  const orNone = (part: string) => part === "-" ? "" : part;
  return { verb, resource, group: group.join("."), namespace: orNone(namespace), name: orNone(name) };
}
