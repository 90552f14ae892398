import type { AuditGate } from "@gateway/shared/audit";
import { type CaKey, type CaKeyRing, issueUserCertificate, loadCaKeys } from "@gateway/shared/ca";
import { type Clock, finish, type Random, randomSerial } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { STATUS } from "@gateway/shared/http";
import {
  type AllowedCluster,
  type AllowedSsh,
  clusterIntentOf,
  type CompiledCluster,
  type CompiledPolicy,
  compilePolicy,
  decideCluster,
  decideSsh,
  describeClusterRequest,
  describeSignRequest,
  describeUnconnectable,
  factsOfRequest,
  findCluster,
  findInertPolicies,
  intentOf,
  type SshDecision,
  toWireClusterDecision,
  toWireDecision,
  visibleClusters,
  visibleHosts,
  visibleRules,
} from "@gateway/shared/policy";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import {
  checkSignFields,
  type ClustersResponse,
  type HostsResponse,
  type SignRequest,
  signRequest,
} from "@gateway/shared/wire";
import type {
  Authority,
  AuthorityPorts,
  CertificateRequest,
  OpenWith,
  SignAnswer,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "./authority.ts";
import {
  type ClusterApi,
  connectClusters,
  type IssuedToken,
  loadClusterFiles,
  readToken,
  tokenPath,
  tokenRequest,
} from "@gateway/shared/kubernetes";
import { type BrokerConfig, localPolicy, type LocalPolicyConfig } from "../config/config.ts";
import { createHash } from "node:crypto";
import { stringifyJson } from "@gateway/shared/json";
import { quoteText } from "@gateway/shared/text";

/** Who asks for certificates in local mode: the name in their KeyIds, and the caller of policy. */
const LOCAL_CALLER = "local";

/** What a {@linkcode LocalAuthority} works with. */
interface LocalAuthorityPorts {
  readonly policy: CompiledPolicy;
  readonly caKeys: CaKeyRing<CaKey>;
  readonly clusters: Pick<LocalClusters, "list" | "token">;
  readonly clock: Clock;
  readonly random: Random;
  /** There is no signer's audit log: each certificate is in the broker's before it is released. */
  readonly events: Pick<AuditGate, "require">;
}

/** A request that the policy has been asked about. */
interface Decided {
  readonly request: SignRequest;
  readonly decision: SshDecision;
  readonly publicKey: Uint8Array;
}

/**
 * The signer inside the broker: the same policy, the same certificates, and no freezes, grants, waivers or
 * approvals by others. The one approval that there is, is that of the human at the MCP client.
 */
export class LocalAuthority implements Authority {
  readonly #ports: LocalAuthorityPorts;
  readonly #hosts: HostsResponse;

  constructor(ports: LocalAuthorityPorts) {
    this.#ports = ports;
    this.#hosts = visibleHosts(ports.policy, LOCAL_CALLER);
  }

  hosts(): Promise<HostsResponse> {
    return Promise.resolve(this.#hosts);
  }

  rules(hosts: readonly string[]): Promise<HostsResponse> {
    return Promise.resolve(visibleRules(this.#ports.policy, LOCAL_CALLER, hosts));
  }

  clusters(): Promise<ClustersResponse> {
    return Promise.resolve(this.#ports.clusters.list());
  }

  token(request: TokenRequest, { signal }: SignOptions): Promise<TokenAnswer> {
    return this.#ports.clusters.token(request, signal);
  }

  async sign(body: CertificateRequest, { signal }: SignOptions): Promise<SignAnswer> {
    let decided: Decided;
    try {
      decided = decide(this.#ports.policy, body);
    } catch (error) {
      // What the signer would answer with 400.
      if (!(error instanceof AppError)) throw error;
      return { kind: "rejected", status: STATUS[error.code], detail: error.message };
    }
    const { request, decision, publicKey } = decided;
    if (request.dry_run) return { kind: "decided", decision: toWireDecision(decision) };
    if (decision.kind === "denied") {
      return { kind: "rejected", status: STATUS.denied, detail: decision.reason };
    }
    if (decision.requireApproval && !request.approved) {
      return { kind: "needs_approval", rule: decision.matchedRule };
    }
    if (signal.aborted) throw new AppError("canceled", "request canceled");
    return await this.#issue(request, decision, publicKey);
  }

  async #issue(request: SignRequest, decision: AllowedSsh, publicKey: Uint8Array): Promise<SignAnswer> {
    const endUser = request.end_user;
    const issued = await issueUserCertificate(
      { decision, caller: LOCAL_CALLER, endUser, publicKey },
      this.#ports,
    );
    const { host } = decision;
    await this.#ports.events.require({
      caller: LOCAL_CALLER,
      host: host.addr,
      addr: host.addr,
      user: host.user,
      principal: host.principal,
      command: describeSignRequest(request),
      ...factsOfRequest(request),
      ttl: `${decision.ttlSeconds}s`,
      serial: issued.serial,
      outcome: "issued",
      elevation: decision.elevation,
      pty: decision.pty,
      policy_rule: decision.matchedRule,
      warning: decision.warning,
    });
    const { elevationPrefix } = decision;
    return { kind: "issued", ...issued, decision: toWireDecision(decision), elevationPrefix, waited: false };
  }
}

/** @throws {AppError} for a request that no policy needs to see */
function decide(policy: CompiledPolicy, body: CertificateRequest): Decided {
  const request = signRequest.parse(body);
  checkSignFields(request);
  if (request.target_type === "k8s") {
    throw new AppError("not_supported", 'target_type "k8s" is not supported yet');
  }
  const publicKey = parseEd25519PublicKey(request.public_key);
  return { request, publicKey, decision: decideSsh(policy, intentOf(request, LOCAL_CALLER)) };
}

/**
 * Loads the CA keys and compiles the policy of a broker in local mode.
 *
 * @throws {AppError} `invalid_config`
 */
export async function loadLocal(config: BrokerConfig, ports: AuthorityPorts): Promise<OpenWith> {
  const { clock, random, logger, readEnv } = ports;
  // Before keys are loaded: a broken policy is told at once.
  const policy = compileLocalPolicy(config);
  const cas = await loadClusterFiles(policy.clusters);
  const caKeys = await loadCaKeys(config, { what: "broker config", clock, readEnv });
  if ([caKeys.fallback, ...caKeys.byGroup.values()].some(({ backend }) => backend === "pem")) {
    logger.warn(
      "Lab use only: a CA key is a file that the process which talks to agents can read; " +
        "production keeps it in a signer, an agent or a vault",
    );
  }
  for (const path of finish(findInertPolicies(config))) {
    logger.warn(`${path}: mode is "off", so that its allow and deny patterns have no effect`);
  }
  for (const warning of describeUnconnectable(localPolicy(config).hosts)) logger.warn(warning);
  return (events) => {
    const api = connectClusters({ clock });
    const clusters = new LocalClusters({ policy, cas, api, clock, random, events, caller: LOCAL_CALLER });
    return {
      authority: new LocalAuthority({ policy, caKeys, clusters, clock, random, events }),
      signer: undefined,
      upstream: undefined,
      close: () => api.close(),
    };
  };
}

/**
 * The policy of a broker in local mode, compiled by the same code as the signer's.
 *
 * @throws {AppError} `invalid_config` with every problem, one a line
 */
export function compileLocalPolicy(config: LocalPolicyConfig): CompiledPolicy {
  const compiled = compilePolicy(localPolicy(config));
  if (compiled.kind === "ok") return compiled.policy;
  throw new AppError("invalid_config", `Cannot use broker config: ${compiled.problems.join("\n  ")}`);
}

/** What {@linkcode LocalClusters} work with. */
interface LocalClustersPorts {
  readonly policy: CompiledPolicy;
  /** The text of each cluster's `ca_cert`, by the cluster's name. */
  readonly cas: ReadonlyMap<string, string>;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly random: Random;
  /** There is no signer's audit log: each token is in the broker's before it is used. */
  readonly events: Pick<AuditGate, "require">;
  /** Who asks for tokens in local mode. */
  readonly caller: string;
}

/** How long an API server may take to make a token. */
const MINT_MS = 15_000;
/** The largest answer with a token in it, in bytes. */
const MAX_ANSWER_BYTES = 4 << 20;

/** The clusters of a broker without a signer: the same policy and the same tokens, bound to nothing. */
export class LocalClusters {
  readonly #ports: LocalClustersPorts;
  readonly #clusters: ClustersResponse;

  constructor(ports: LocalClustersPorts) {
    this.#ports = ports;
    this.#clusters = visibleClusters(ports.policy, ports.caller, ports.cas, true);
  }

  list(): ClustersResponse {
    return this.#clusters;
  }

  /**
   * A token for one action, or the decision about it.
   *
   * @throws {AppError} `upstream_failure` when there is no token, `audit_unavailable`, `canceled`
   */
  async token(body: TokenRequest, signal: AbortSignal): Promise<TokenAnswer> {
    const { policy, caller } = this.#ports;
    const request = signRequest.parse(body);
    try {
      checkSignFields(request);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return { kind: "rejected", status: STATUS[error.code], detail: error.message };
    }
    const gate = findCluster(policy, caller, request.host);
    if (gate.kind === "closed") return { kind: "rejected", status: STATUS.denied, detail: gate.reason };
    const { cluster } = gate;
    const decision = decideCluster(cluster, clusterIntentOf(request, caller, digestOf(request)));
    if (decision.kind === "mismatch") {
      const detail = "command is not the canonical form of the k8s action";
      return { kind: "rejected", status: STATUS.invalid_request, detail };
    }
    if (request.dry_run) return { kind: "decided", decision: toWireClusterDecision(decision) };
    if (decision.kind === "denied") {
      return { kind: "rejected", status: STATUS.denied, detail: decision.reason };
    }
    if (decision.requireApproval) return { kind: "needs_approval", rule: decision.matchedRule };
    const minted = await this.#mint(cluster, decision, signal);
    if ("status" in minted) return { kind: "rejected", ...minted };
    const serial = randomSerial(this.#ports.random);
    await this.#record(cluster, { request, decision, serial, jti: minted.jti });
    const { token } = minted;
    return { kind: "issued", token, serial, decision: toWireClusterDecision(decision), waited: false };
  }

  async #mint(
    cluster: CompiledCluster,
    { binding }: AllowedCluster,
    signal: AbortSignal,
  ): Promise<IssuedToken | { readonly status: number; readonly detail: string }> {
    const { api, cas } = this.#ports;
    const doing = `minting token for ${binding.namespace}/${binding.serviceAccount} on ${
      quoteText(cluster.name)
    }`;
    const answer = await api.request({ cluster, ca: cas.get(cluster.name) ?? "" }, {
      method: "POST",
      path: tokenPath(binding),
      body: {
        type: "application/json",
        bytes: new TextEncoder().encode(stringifyJson(tokenRequest(cluster.tokenTtlSeconds))),
      },
      timeoutMs: MINT_MS,
      maxBytes: MAX_ANSWER_BYTES,
      signal,
    });
    try {
      return readToken(answer, doing);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "denied") throw error;
      return { status: STATUS.denied, detail: error.message };
    }
  }

  async #record(
    cluster: CompiledCluster,
    { request, decision, serial, jti }: {
      readonly request: SignRequest;
      readonly decision: AllowedCluster;
      readonly serial: bigint;
      readonly jti: string;
    },
  ): Promise<void> {
    const { action } = decision;
    const asked = { ...request, k8s_group: action.resource.group, k8s_namespace: action.namespace };
    const digest = digestOf(request);
    await this.#ports.events.require({
      caller: this.#ports.caller,
      host: cluster.apiServer,
      addr: cluster.apiServer,
      command: describeClusterRequest(asked),
      ...factsOfRequest(request),
      jti,
      target_type: "k8s",
      ttl: `${decision.ttlSeconds}s`,
      serial,
      outcome: "issued",
      policy_rule: decision.matchedRule,
      ...(digest !== "" && { body_sha256: digest }),
    });
  }
}

function digestOf({ k8s_manifest }: SignRequest): string {
  return k8s_manifest === "" ? "" : createHash("sha256").update(k8s_manifest, "utf8").digest("hex");
}
