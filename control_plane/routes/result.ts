import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import type { ApprovalWaiting } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import type { Approval } from "../approvals/approval.ts";
import type { ClaimOutcome } from "../approvals/outcomes.ts";
import { requireSigner } from "./roles.ts";
import { answer } from "./answer.ts";
import { collect } from "./collect.ts";
import { entryOf, waitedSeconds } from "./decide.ts";

/** The longest that a poll is held, in seconds; less than the time after which clients give up. */
const MAX_WAIT_SECONDS = 8;
/** Between two attempts to collect what another control plane is collecting. */
const ELSEWHERE_PAUSE_MS = 500;

/** `GET /v1/sign/result/{id}`: what was approved, once, to whoever asked for it. */
export async function handleResult(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/sign/result/{id}");
  const { publicKey, waitMs } = parseQuery(new URL(request.url).searchParams);
  const owner = { caller: peer.caller, ...(publicKey !== undefined && { publicKey }) };
  const end = ports.clock.now() + waitMs;
  const signal = waitMs > 0 ? AbortSignal.any([request.signal, ports.stopping]) : undefined;
  for (;;) {
    const claimed = ports.registry.claim(id, owner);
    switch (claimed.kind) {
      case "claimed": {
        if (await claimed.claim.enter()) return await collect(ports, claimed.claim, request.signal);
        const ms = Math.min(end - ports.clock.now(), ELSEWHERE_PAUSE_MS);
        if (ms > 0) await ports.clock.sleep(ms, signal).catch(() => {});
        if (ms <= 0 || signal?.aborted !== false) {
          return answer({ status: "issuing" } satisfies ApprovalWaiting, 202);
        }
        break;
      }
      case "pending":
      case "issuing": {
        const ms = end - ports.clock.now();
        if (signal === undefined || ms <= 0 || signal.aborted) {
          return answer({ status: claimed.kind } satisfies ApprovalWaiting, 202);
        }
        await ports.registry.waitForDecision(id, { ms, signal });
        break;
      }
      default:
        return await refuse(ports, claimed);
    }
  }
}

type Refusal = Exclude<ClaimOutcome, { readonly kind: "claimed" | "pending" | "issuing" }>;

async function refuse(ports: ControlPlanePorts, refusal: Refusal): Promise<never> {
  switch (refusal.kind) {
    case "unknown":
      throw new AppError("not_found", "unknown request");
    case "not_owner":
      throw new AppError("forbidden", "not authorised");
    case "wrong_key":
      throw new AppError("invalid_request", "invalid pubkey");
    case "denied":
      // On record since the decision.
      throw new AppError("denied", "approval denied");
    case "expired":
      if (refusal.isFirst) await recordExpiry(ports, refusal.approval);
      throw new AppError("timeout", "approval expired");
    case "consumed":
      throw new AppError("gone", "approval already used");
    default:
      return refusal satisfies never;
  }
}

async function recordExpiry(ports: ControlPlanePorts, approval: Approval): Promise<void> {
  const by = approval.state.kind === "pending" ? "" : approval.state.by;
  if (by === "") ports.timings.approval.observe(waitedSeconds(approval, ports.clock.now()), "expired");
  await ports.record({ ...entryOf(approval, by), outcome: "approval-timeout" });
}

function parseQuery(
  query: URLSearchParams,
): { readonly publicKey: string | undefined; readonly waitMs: number } {
  const publicKey = query.get("pubkey") ?? undefined;
  if (publicKey !== undefined) parseEd25519PublicKey(publicKey);
  const wait = query.get("wait") ?? "0";
  if (!/^\d{1,9}$/.test(wait)) throw new AppError("invalid_request", "invalid wait: expected whole seconds");
  return { publicKey, waitMs: Math.min(Number(wait), MAX_WAIT_SECONDS) * 1000 };
}
