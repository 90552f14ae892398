import type { ClustersResponse, HostsResponse, SignRequestBody, WireDecision } from "@gateway/shared/wire";
import type { ErrorReply, UpstreamClient } from "@gateway/shared/http";
import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { AuditGate } from "@gateway/shared/audit";

/** Who says which hosts there are and who signs: a signer over the network, or one in the process. */
export interface Authority {
  /**
   * The hosts that this broker may use.
   *
   * @throws {AppError} `frozen` or `denied` when it may not use any, `upstream_failure` when they can't be had
   */
  hosts(): Promise<HostsResponse>;
  /**
   * The hosts of these names (at most 20) that this broker may use, with their rules where
   * the authority tells them.
   *
   * @throws {AppError} as {@linkcode Authority.hosts} does
   */
  rules(hosts: readonly string[], signal: AbortSignal): Promise<HostsResponse>;
  /**
   * The clusters that this broker may use; none is `{}`.
   *
   * @throws {AppError} as {@linkcode Authority.hosts} does
   */
  clusters(): Promise<ClustersResponse>;
  /**
   * Asks for a token to act on a cluster with, or with `dry_run` for the decision alone.
   *
   * @throws {AppError} as {@linkcode Authority.sign} does
   */
  token(request: TokenRequest, options: SignOptions): Promise<TokenAnswer>;
  /**
   * Asks for a certificate, or with `dry_run` for the decision alone.
   *
   * @throws {AppError} `upstream_failure` when there is no answer, or one that does not fit the question;
   * `canceled` when the signal is aborted first
   */
  sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer>;
}

/** How a sign request is waited for. */
export interface SignOptions {
  readonly signal: AbortSignal;
  /** Told again and again, with the approval's id, while a human decides. */
  readonly onWaiting?: (approvalId: string) => void;
}

/** A sign request for an SSH host: it always carries a key. */
export type CertificateRequest = SignRequestBody & { readonly public_key: string };

/** A sign request for an action on a cluster: what is done stands in its `k8s_` fields. */
export type TokenRequest = SignRequestBody & { readonly target_type: "k8s" };

/** How a request for a token ended. */
export type TokenAnswer =
  | {
    readonly kind: "issued";
    /** A secret, good for minutes and for whatever its ServiceAccount may do. */
    readonly token: string;
    readonly serial: bigint;
    readonly decision: WireDecision | undefined;
    /** It came after a wait for a human: what was known of the cluster before is old. */
    readonly waited: boolean;
  }
  | Exclude<SignAnswer, { readonly kind: "issued" }>;

export type SignAnswer =
  | {
    readonly kind: "issued";
    /** The certificate as one authorized_keys line; its key, serial and use have been checked. */
    readonly certificate: string;
    readonly serial: bigint;
    readonly decision: WireDecision | undefined;
    /** The prefix for the commands of an elevated session; empty for none. */
    readonly elevationPrefix: string;
    /** Of a session on a sealed host: the shim that its certificate is locked to, as the host calls it. */
    readonly shim?: string;
    /** It came after a wait for a human: what was known of the host before is old. */
    readonly waited: boolean;
  }
  /** The answer to a dry run. */
  | {
    readonly kind: "decided";
    readonly decision: WireDecision;
    /** To a preflight on a sealed host: the command as the host will have it, to be passed on as it is. */
    readonly envelope?: string;
    /** It came after a wait for a human: what was known of the host before is old. */
    readonly waited?: boolean;
  }
  /** Allowed once a human has approved; nothing has been asked of one yet. */
  | { readonly kind: "needs_approval"; readonly rule: string }
  /** A human has been asked and has not decided; nobody collects what is decided later. */
  | { readonly kind: "undecided"; readonly approvalId: string; readonly why: UndecidedReason }
  /** A human has been asked, and it came to nothing: denied, expired, used up, or not to be had. */
  | { readonly kind: "not_granted"; readonly status: number; readonly detail: string }
  | { readonly kind: "rejected"; readonly status: number; readonly detail: string };

/** Why an approval is not waited for (any longer). */
export type UndecidedReason = "not_configured" | "too_many" | "deadline";

/** The part of an HTTP client that is used here. */
export interface SignerClient {
  request(options: SignerRequest): Promise<SignerReply>;
}

export interface SignerRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

export interface SignerReply extends ErrorReply {
  /** By lowercase name. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** What an authority is made of besides the config. */
export interface AuthorityPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  /** The value of an environment variable; asked for what a CA key of local mode names. */
  readonly readEnv: (name: string) => string | undefined;
}

/** The signer, and who this broker is to it. */
interface SignerAccess {
  readonly client: SignerClient;
  readonly caller: string;
}

/** An authority to work with until it is closed. */
export interface OpenAuthority {
  readonly authority: Authority;
  /** For whoever asks the signer for more than hosts and certificates; nobody in local mode. */
  readonly signer: SignerAccess | undefined;
  /** For asking whether the other side answers, on a connection that nothing else waits for; nobody in local mode. */
  readonly upstream: UpstreamClient | undefined;
  close(): void;
}

/** Opens an authority that has been loaded, once there is somewhere to record what it does. */
export type OpenWith = (events: Pick<AuditGate, "require">) => OpenAuthority;
