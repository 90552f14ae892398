import { createHash } from "node:crypto";
import type { AuditGate } from "@gateway/shared/audit";
import { type CaKey, type CaKeyRing, issueUserCertificate, loadCaKeys } from "@gateway/shared/ca";
import { type Clock, finish, type Random, randomSerial } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { AppError, type ErrorCode, STATUS } from "@gateway/shared/errors";
import {
  type ClusterApi,
  connectClusters,
  loadClusterFiles,
  readToken,
  tokenPath,
  tokenRequest,
} from "@gateway/shared/kubernetes";
import {
  type AllowedSsh,
  clusterIntentOf,
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
  recordDecision,
  toWireClusterDecision,
  toWireDecision,
  visibleClusters,
  visibleHosts,
  visibleRules,
} from "@gateway/shared/policy";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import { quoteText } from "@gateway/shared/text";
import {
  checkSignFields,
  type ClustersResponse,
  type HostsResponse,
  type SignRequest,
  signRequest,
} from "@gateway/shared/wire";
import { type BrokerConfig, localPolicy, type LocalPolicyConfig } from "../config/config.ts";
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

/**
 * Loads the CA keys and compiles the policy of a broker in local mode.
 * @throws {AppError} `invalid_config`
 */
export async function loadLocal(config: BrokerConfig, ports: AuthorityPorts): Promise<OpenWith> {
  const { clock, random, logger, readEnv } = ports;
  // Compiled first, so that a broken policy is reported before a broken key.
  const policy = compileLocalPolicy(config);
  if (config.policy_tests !== "") {
    const { requirePolicyTests } = await import("@gateway/shared/policy/analysis");
    await requirePolicyTests(policy, config.policy_tests, { load: loadConfig, clock });
  }
  const cas = await loadClusterFiles(policy.clusters);
  const caKeys = await loadCaKeys(config, { what: "broker config", clock, readEnv });
  if ([caKeys.fallback, ...caKeys.byGroup.values()].some(({ backend }) => backend === "pem")) {
    logger.warn(
      "Lab use only: a CA key is a file that the process which talks to agents can read; " +
        "production keeps it in a signer, an agent or a vault",
    );
  }
  for (const path of finish(findInertPolicies(config))) {
    logger.warn(`${path}: mode is "off", so its allow and deny patterns have no effect`);
  }
  for (const warning of describeUnconnectable(localPolicy(config).hosts)) logger.warn(warning);
  return (events) => {
    const api = connectClusters({ clock });
    const authority = new LocalAuthority({ policy, caKeys, cas, api, clock, random, events });
    return { authority, signer: undefined, upstream: undefined, close: () => api.close() };
  };
}

/**
 * The policy of a broker in local mode, compiled by the same code as the signer's.
 * @throws {AppError} `invalid_config` with every problem, one a line
 */
export function compileLocalPolicy(config: LocalPolicyConfig): CompiledPolicy {
  const compiled = compilePolicy(localPolicy(config));
  if (compiled.kind === "ok") return compiled.policy;
  throw new AppError("invalid_config", `Cannot use broker config: ${compiled.problems.join("\n  ")}`);
}

/** The caller of the policy in local mode, and the name in the KeyIds. */
const LOCAL_CALLER = "local";

interface LocalAuthorityPorts {
  readonly policy: CompiledPolicy;
  readonly caKeys: CaKeyRing<CaKey>;
  readonly cas: ReadonlyMap<string, string>;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly random: Random;
  /** Each certificate and token is recorded here before its release, because there is no signer's log. */
  readonly events: Pick<AuditGate, "require">;
}

const MINT_MS = 15_000;
const MAX_ANSWER_BYTES = 4 << 20;

/**
 * The signer inside the broker: the same policy, certificates and tokens, without freezes, grants, waivers and token
 * bindings. The only approver is the human at the MCP client.
 */
export class LocalAuthority implements Authority {
  readonly #ports: LocalAuthorityPorts;
  readonly #hosts: HostsResponse;
  readonly #clusters: ClustersResponse;

  constructor(ports: LocalAuthorityPorts) {
    this.#ports = ports;
    this.#hosts = visibleHosts(ports.policy, LOCAL_CALLER);
    this.#clusters = visibleClusters(ports.policy, LOCAL_CALLER, ports.cas, true);
  }

  hosts(): Promise<HostsResponse> {
    return Promise.resolve(this.#hosts);
  }

  rules(hosts: readonly string[]): Promise<HostsResponse> {
    return Promise.resolve(visibleRules(this.#ports.policy, LOCAL_CALLER, hosts));
  }

  clusters(): Promise<ClustersResponse> {
    return Promise.resolve(this.#clusters);
  }

  async sign(body: CertificateRequest, { signal }: SignOptions): Promise<SignAnswer> {
    const request = signRequest.parse(body);
    const checked = attempt(() => {
      checkSignFields(request);
      if (request.target_type !== "k8s") return parseEd25519PublicKey(request.public_key);
      throw new AppError("not_supported", 'target_type "k8s" is not supported yet');
    });
    if ("rejection" in checked) return checked.rejection;
    const decision = decideSsh(this.#ports.policy, intentOf(request, LOCAL_CALLER));
    if (request.dry_run) return { kind: "decided", decision: toWireDecision(decision) };
    if (decision.kind === "denied") return reject("denied", decision.reason);
    if (decision.requireApproval && !request.approved) {
      return { kind: "needs_approval", rule: decision.matchedRule };
    }
    if (signal.aborted) throw new AppError("canceled", "request canceled");
    return await this.#issue(request, decision, checked.value);
  }

  async #issue(request: SignRequest, decision: AllowedSsh, publicKey: Uint8Array): Promise<SignAnswer> {
    const asked = { decision, caller: LOCAL_CALLER, endUser: request.end_user, publicKey };
    const issued = await issueUserCertificate(asked, this.#ports);
    const { host, elevationPrefix } = decision;
    await this.#ports.events.require({
      caller: LOCAL_CALLER,
      host: host.addr,
      addr: host.addr,
      user: host.user,
      principal: host.principal,
      command: describeSignRequest(request),
      ...factsOfRequest(request),
      ...recordDecision(decision, request),
      ttl: `${decision.ttlSeconds}s`,
      serial: issued.serial,
      outcome: "issued",
      elevation: decision.elevation,
      pty: decision.pty,
      policy_rule: decision.matchedRule,
      warning: decision.warning,
    });
    return { kind: "issued", ...issued, decision: toWireDecision(decision), elevationPrefix, waited: false };
  }

  async token(body: TokenRequest, { signal }: Pick<SignOptions, "signal">): Promise<TokenAnswer> {
    const request = signRequest.parse(body);
    const checked = attempt(() => checkSignFields(request));
    if ("rejection" in checked) return checked.rejection;
    const gate = findCluster(this.#ports.policy, LOCAL_CALLER, request.host);
    if (gate.kind === "closed") return reject("denied", gate.reason);
    const { cluster } = gate;
    const { k8s_manifest: manifest } = request;
    const digest = manifest === "" ? "" : createHash("sha256").update(manifest).digest("hex");
    const decision = decideCluster(cluster, clusterIntentOf(request, LOCAL_CALLER, digest));
    if (decision.kind === "mismatch") {
      return reject("invalid_request", "command is not the canonical form of the k8s action");
    }
    if (request.dry_run) return { kind: "decided", decision: toWireClusterDecision(decision) };
    if (decision.kind === "denied") return reject("denied", decision.reason);
    if (decision.requireApproval) return { kind: "needs_approval", rule: decision.matchedRule };
    const { binding } = decision;
    const doing = `minting token for ${binding.namespace}/${binding.serviceAccount} on ${
      quoteText(cluster.name)
    }`;
    const answer = await this.#ports.api.request(
      { cluster, ca: this.#ports.cas.get(cluster.name) ?? "" },
      {
        ...{
          method: "POST",
          path: tokenPath(binding),
          timeoutMs: MINT_MS,
          maxBytes: MAX_ANSWER_BYTES,
          signal,
        },
        body: tokenRequest(cluster.tokenTtlSeconds),
      },
    );
    const read = attempt(() => readToken(answer, doing), ({ code }) => code === "denied");
    if ("rejection" in read) return read.rejection;
    const { token, jti } = read.value;
    const serial = randomSerial(this.#ports.random);
    const { action: { resource, namespace: k8s_namespace }, ttlSeconds } = decision;
    const asked = { ...request, k8s_group: resource.group, k8s_namespace };
    await this.#ports.events.require({
      caller: LOCAL_CALLER,
      host: cluster.apiServer,
      addr: cluster.apiServer,
      command: describeClusterRequest(asked),
      ...factsOfRequest(request),
      ...recordDecision(decision, request),
      jti,
      target_type: "k8s",
      ttl: `${ttlSeconds}s`,
      serial,
      outcome: "issued",
      policy_rule: decision.matchedRule,
      ...(digest !== "" && { body_sha256: digest }),
    });
    return { kind: "issued", token, serial, decision: toWireClusterDecision(decision), waited: false };
  }
}

/**
 * Runs a step. An `AppError` from the step rejects the request, unless it reports a fault of this service.
 */
function attempt<T>(step: () => T, isRejection: (error: AppError) => boolean = () => true) {
  try {
    return { value: step() };
  } catch (error) {
    if (!(error instanceof AppError) || !isRejection(error)) throw error;
    return { rejection: reject(error.code, error.message) };
  }
}

function reject(code: ErrorCode, detail: string) {
  return { kind: "rejected", status: STATUS[code], detail } as const;
}
