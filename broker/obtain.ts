import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import type { Authority, CertificateRequest, SignAnswer } from "./authority/authority.ts";
import type { ExecuteRequest } from "./execute.ts";

/** A certificate to connect with, or the decision that a dry run asked for. */
export type Obtained = Extract<SignAnswer, { kind: "issued" | "decided" }>;

/** What one certificate is asked for with. */
export interface ObtainOptions {
  readonly request: ExecuteRequest;
  /** The ephemeral key, an authorized_keys line. */
  readonly publicKey: string;
  readonly maxTtlSeconds: number;
}

/**
 * Gets the authority to run a one-shot command.
 *
 * @throws {AppError} `denied` when the authority refuses, `approval_required` when a human has to approve
 * first, `upstream_failure` when there is no usable answer
 */
export async function obtain(
  authority: Authority,
  options: ObtainOptions,
  signal: AbortSignal,
): Promise<Obtained> {
  const name = options.request.host;
  const signing = `signing cert for ${quoteText(name)}`;
  let answer: SignAnswer;
  try {
    answer = await authority.sign(createSignRequest(options), signal);
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `upstream failure: ${signing}: ${cause.message}`, { cause });
  }
  switch (answer.kind) {
    case "issued":
    case "decided":
      return answer;
    case "rejected":
      throw new AppError("denied", `${signing}: signing rejected (${answer.status}): ${answer.detail}`);
    case "needs_approval":
      throw new AppError(
        "approval_required",
        `command on ${quoteText(name)} requires human approval (${answer.rule}); ` +
          "approve it in-chat (if enabled), via the control plane, or with broker-ctl",
      );
    case "parked":
      throw new AppError(
        "approval_required",
        `${signing}: operation requires human approval (id ${answer.approvalId}); client is not configured to wait`,
      );
    default:
      return answer satisfies never;
  }
}

function createSignRequest({ request, publicKey, maxTtlSeconds }: ObtainOptions): CertificateRequest {
  const { ttlSeconds } = request;
  return {
    host: request.host,
    role: "target",
    purpose: "oneshot",
    command: request.command,
    ttl_seconds: ttlSeconds > 0 && ttlSeconds <= maxTtlSeconds ? ttlSeconds : maxTtlSeconds,
    public_key: publicKey,
    end_user: request.caller,
    end_user_groups: request.callerGroups,
    ...(request.sudo ? { sudo: true } : {}),
    ...(request.sudoUser === "" ? {} : { sudo_user: request.sudoUser }),
    ...(request.pty ? { pty: true } : {}),
    ...(request.dryRun ? { dry_run: true } : {}),
  };
}
