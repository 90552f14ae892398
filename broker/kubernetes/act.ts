import type { Clock } from "@gateway/shared/clock";
import { maskText, readConflicts } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import type { Redactor } from "@gateway/shared/redact";
import {
  ACTION_MS,
  type ActionResult,
  type ApiConnection,
  ask,
  type Asking,
  byteLength,
  failure,
  readObject,
  tooLarge,
} from "./ask.ts";
import { list } from "./list.ts";
import { type ActionOptions, type KubernetesRequest, MAX_ANSWER_BYTES, requestFor } from "./request.ts";

/** What it takes to act on a cluster. */
export interface ActPorts {
  readonly clock: Clock;
  readonly redact: Redactor;
  /** The longest output, in bytes, where the specification allows more. */
  readonly maxOutputBytes: number;
}

/** An action that may be done. */
interface AllowedAction {
  readonly connection: ApiConnection;
  /** The token that was made for it: a secret. */
  readonly token: string;
  readonly action: ClusterAction;
  readonly options: ActionOptions;
  /** The rule that allows it lets values of Secrets be seen. */
  readonly reveal: boolean;
}

/**
 * Does what is allowed, with the token that was made for it.
 *
 * @throws {AppError} `upstream_failure`, `canceled`, or `invalid_request` for what no API server takes
 */
export async function act(
  { clock, redact, maxOutputBytes }: ActPorts,
  { connection, token, action, options, reveal }: AllowedAction,
  signal: AbortSignal,
): Promise<ActionResult> {
  const asking: Asking = { connection, token, clock, endsAt: clock.now() + ACTION_MS, signal };
  const isMasked = isSecret(action) && !reveal;
  const maxBytes = Math.min(
    maxOutputBytes,
    action.verb === "logs" ? MAX_ANSWER_BYTES.logs : MAX_ANSWER_BYTES.object,
  );
  if (action.verb === "list") return await list(asking, action, { ...options, maxBytes, isMasked });
  const request = await withForce(asking, requestFor(action, options, maxBytes), options);
  if (action.verb === "logs") {
    const answer = await ask(asking, request, { maxBytes, accept: "*/*" });
    if (answer === undefined) throw tooLarge(action, request, maxBytes);
    return { output: redact(answer.text), warnings: answer.warnings };
  }
  const answer = await ask(asking, request, { maxBytes: isMasked ? MAX_ANSWER_BYTES.object : maxBytes });
  if (answer === undefined) throw tooLarge(action, request, maxBytes);
  const { text, warnings } = answer;
  if (!isMasked) {
    readObject(request, text);
    return { output: text, warnings };
  }
  const output = maskText(text, { isSecret: true });
  if (output === undefined) {
    throw failure(request, "the answer can't be read, and so its values can't be masked");
  }
  if (byteLength(output) > maxBytes) throw tooLarge(action, request, maxBytes);
  return { output, warnings };
}

/**
 * Forces an apply if all fields that conflict at this moment are named: force itself knows no fields. If any other field
 * conflicts, the apply is sent without force, and fails as it would for everybody.
 */
async function withForce(
  { connection, token, clock, endsAt, signal }: Asking,
  request: KubernetesRequest,
  { forceFields = [] }: ActionOptions,
): Promise<KubernetesRequest> {
  const { method, path, query, body } = request;
  if (forceFields.length === 0 || body === undefined) return request;
  const tried = await connection.request({
    ...{ method, path: `${path}${query}&dryRun=All`, token, body, signal },
    timeoutMs: Math.max(1, endsAt - clock.now()),
    maxBytes: MAX_ANSWER_BYTES.object,
  });
  const fields = tried.kind === "answered" && tried.status === 409 ? readConflicts(tried.text) : [];
  const isNamed = fields.length > 0 && fields.every((field) => forceFields.includes(field));
  return isNamed ? { ...request, query: `${query}&force=true` } : request;
}

/** Whether an action is about Secrets, whose values not everybody may see who may see the rest. */
function isSecret({ resource }: Pick<ClusterAction, "resource">): boolean {
  return resource.group === "" && resource.resource === "secrets";
}
