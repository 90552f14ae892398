import type { HostsResponse } from "@gateway/shared/wire/host";
import type { SignRequestBody, WireDecision } from "@gateway/shared/wire/sign";

/** Who says which hosts there are and who signs: a signer over the network, or one in the process. */
export interface Authority {
  /**
   * The hosts that this broker may use.
   *
   * @throws {AppError} `upstream_failure` when they can't be had
   */
  hosts(): Promise<HostsResponse>;
  /**
   * Asks for a certificate, or with `dry_run` for the decision alone.
   *
   * @throws {AppError} `upstream_failure` when there is no answer, or one that does not fit the question;
   * `canceled` when the signal is aborted first
   */
  sign(request: CertificateRequest, signal: AbortSignal): Promise<SignAnswer>;
}

/** A sign request for an SSH host: it always carries a key. */
export type CertificateRequest = SignRequestBody & { readonly public_key: string };

/** How a sign request ended. */
export type SignAnswer =
  | {
    readonly kind: "issued";
    /** The certificate as one authorized_keys line; its key, serial and force-command have been checked. */
    readonly certificate: string;
    readonly serial: bigint;
    readonly decision: WireDecision | undefined;
  }
  /** The answer to a dry run. */
  | { readonly kind: "decided"; readonly decision: WireDecision }
  /** Allowed once a human has approved; nothing has been asked of one yet. */
  | { readonly kind: "needs_approval"; readonly rule: string }
  /** A human has been asked and the request waits under this id. */
  | { readonly kind: "parked"; readonly approvalId: string }
  | { readonly kind: "rejected"; readonly status: number; readonly detail: string };
