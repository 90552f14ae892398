import { randomSerial } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { TokenWish } from "@gateway/shared/kubernetes";
import type { K8sDiff } from "@gateway/shared/wire";
import { issueToken, previewApply } from "../kubernetes/api.ts";
import { allowedEntry, type Made, recordingRefusal } from "./answer.ts";
import { type AllowedAction, isForwarder, recordOutcome, type SignContext } from "./judge.ts";

/** Control planes and brokers wait longer for a signer: a token that nobody waits for any more is lost. */
const ISSUE_MS = 8_000;
/** Together with the preview no longer than {@linkcode ISSUE_MS}. */
const PREVIEW_TOKEN_MS = 4_000;

/** What an apply would change, for an approver of a control plane; a caller without a forwarder has no approver. */
export async function preview(
  context: SignContext,
  allowed: AllowedAction,
): Promise<{ readonly diff: K8sDiff; readonly jti: string } | undefined> {
  const { authority, snapshot, request } = context;
  const { cluster, decision: { action } } = allowed;
  const { k8s_manifest: manifest } = request;
  if (action.verb !== "apply" || manifest === "" || !isForwarder(context)) return undefined;
  let jti = "";
  try {
    const issued = await issueToken(authority, wishOf(context, allowed, PREVIEW_TOKEN_MS));
    jti = issued.jti;
    const ca = snapshot.clusterCas.get(cluster.name) ?? "";
    return {
      diff: await previewApply(authority, {
        ...{ cluster, ca, action, manifest, token: issued.token },
        forceFields: request.k8s_force_fields,
      }),
      jti,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "conflict") {
      const outcome = request.dry_run ? "dry_run_denied" : "denied";
      await recordOutcome(authority, {
        ...allowedEntry(context, allowed, { outcome, jti }),
        err: error.message,
      });
      // An approval would not help.
      throw new AppError(
        "invalid_request",
        `${error.message}; leave these fields out of the manifest, or name all of them in force_fields`,
      );
    }
    // The approver can still decide by the manifest. The failure is reported when the token is made.
    return { diff: { kind: "unknown", reason: error.message }, jti };
  }
}

/** @throws {AppError} `denied` if the API server rejects the request, else `upstream_failure` */
export async function makeToken(context: SignContext, allowed: AllowedAction): Promise<Made> {
  const { authority } = context;
  const { cluster, decision } = allowed;
  const serial = randomSerial(authority.random);
  const { token, expiry, jti } = await recordingRefusal(
    context,
    { rule: decision.matchedRule, cluster },
    () => issueToken(authority, { ...wishOf(context, allowed, ISSUE_MS), serial }),
  );
  return {
    ...{ serial, jti, learnable: decision.force ? undefined : decision.gated },
    body: { k8s_token: token, k8s_token_expiry: expiry },
    remember() {},
    takeBack: () => authority.leases.revoke({ kind: "serial", value: serial.toString() }),
  };
}

function wishOf(
  { snapshot, request, caller, peer }: SignContext,
  { cluster, decision }: AllowedAction,
  waitMs: number,
): TokenWish {
  return {
    cluster,
    ca: snapshot.clusterCas.get(cluster.name) ?? "",
    account: decision.binding,
    holder: { caller, endUser: request.end_user, peer: peer.caller },
    waitMs,
  };
}
