import type { AuditGate } from "@gateway/shared/audit";
import type { Clock, Random } from "@gateway/shared/clock";
import type { ErrorReply, JsonClientRequest, UpstreamClient } from "@gateway/shared/http";
import type { ServiceLogger } from "@gateway/shared/service";
import type { ClustersResponse, HostsResponse, SignRequestBody, WireDecision } from "@gateway/shared/wire";

/** The source of hosts, certificates and tokens: a signer over the network, or the policy in this process. */
export interface Authority {
  /** @throws {AppError} `frozen` or `denied` if this broker may use no host, else `upstream_failure` */
  hosts(): Promise<HostsResponse>;
  /**
   * The hosts of these names (at most 20), with their rules if the authority sends rules.
   * @throws {AppError} as {@linkcode Authority.hosts} does
   */
  rules(hosts: readonly string[], signal: AbortSignal): Promise<HostsResponse>;
  /** @throws {AppError} as {@linkcode Authority.hosts} does */
  clusters(): Promise<ClustersResponse>;
  /**
   * Requests a token for an action on a cluster, or with `dry_run` the decision only.
   * @throws {AppError} as {@linkcode Authority.sign} does
   */
  token(request: TokenRequest, options: SignOptions): Promise<TokenAnswer>;
  /**
   * Requests a certificate, or with `dry_run` the decision only.
   * @throws {AppError} `upstream_failure` if there is no answer, or one that does not fit the request;
   * `canceled` if the signal is aborted first
   */
  sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer>;
}

export interface SignOptions {
  readonly signal: AbortSignal;
  readonly onWaiting?: (approvalId: string) => void;
}

/** The caller of an action, from its request. */
export interface Requester {
  /** The constant of the stdio frontend, the CN of the agent's certificate, or the end user of a token or socket. */
  readonly caller: string;
  /** The caller's groups, if the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's token: a secret that only the signer receives. */
  readonly bearerToken?: string | undefined;
  /** The reason that the caller gives to the approver. */
  readonly reason?: string | undefined;
  /** Called with the event that delays a request. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** A sign request for an SSH host: it always has a key. */
export type CertificateRequest = SignRequestBody & { readonly public_key: string };

/** A sign request for an action on a cluster, which is in the `k8s_` fields. */
export type TokenRequest = SignRequestBody & { readonly target_type: "k8s" };

interface Issued {
  readonly kind: "issued";
  readonly serial: bigint;
  readonly decision: WireDecision | undefined;
  /**
   * Whether the answer came after a wait for a human. Lists of hosts and clusters from before may then be
   * outdated.
   */
  readonly waited: boolean;
}

export type TokenAnswer =
  /** The token is a secret. It is valid for minutes and permits everything that its ServiceAccount may do. */
  | Issued & { readonly token: string }
  | Exclude<SignAnswer, { readonly kind: "issued" }>;

export type SignAnswer =
  | Issued & {
    /** The certificate as one authorized_keys line. Its key, serial and use have been checked. */
    readonly certificate: string;
    /** The prefix for the commands of an elevated session. Empty: no prefix. */
    readonly elevationPrefix: string;
    /**
     * On a sealed host: the shim command to which the certificate of a session is locked, in the host's
     * spelling.
     */
    readonly shim?: string;
  }
  | {
    readonly kind: "decided";
    readonly decision: WireDecision;
    /** The sealed command, after a preflight on a sealed host. It is sent to the host unchanged. */
    readonly envelope?: string;
    readonly waited?: boolean;
  }
  /** A human has to approve, and the broker has not requested an approval. */
  | { readonly kind: "needs_approval"; readonly rule: string }
  /** An approval was requested, but nobody decided in time. The broker does not collect a later decision. */
  | { readonly kind: "undecided"; readonly approvalId: string; readonly why: UndecidedReason }
  /** A requested approval was denied, expired, was used up, or could not be collected. */
  | { readonly kind: "not_granted"; readonly status: number; readonly detail: string }
  | { readonly kind: "rejected"; readonly status: number; readonly detail: string };

export type UndecidedReason = "not_configured" | "too_many" | "deadline";

export interface SignerClient {
  request(options: JsonClientRequest): Promise<SignerReply>;
}

export interface SignerReply extends ErrorReply {
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export interface AuthorityPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  readonly readEnv: (name: string) => string | undefined;
}

/** An open authority. Local mode has no signer and no upstream. */
export interface OpenAuthority {
  readonly authority: Authority;
  /** The client for other requests to the signer, and this broker's name at the signer. */
  readonly signer: { readonly client: SignerClient; readonly caller: string } | undefined;
  /** The client for readiness checks, on a connection that no other request waits for. */
  readonly upstream: UpstreamClient | undefined;
  close(): void;
}

export type OpenWith = (events: Pick<AuditGate, "require">) => OpenAuthority;
