import { createHash } from "node:crypto";
import type { AuditGate } from "@gateway/shared/audit";
import { type Clock, type Random, randomSerial } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { STATUS } from "@gateway/shared/http";
import { stringifyJson } from "@gateway/shared/json";
import {
  type ClusterApi,
  type IssuedToken,
  readToken,
  tokenPath,
  tokenRequest,
} from "@gateway/shared/kubernetes";
import {
  type AllowedCluster,
  clusterIntentOf,
  type CompiledCluster,
  type CompiledPolicy,
  decideCluster,
  describeClusterRequest,
  factsOfRequest,
  findCluster,
  toWireClusterDecision,
  visibleClusters,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { checkSignFields, type ClustersResponse, type SignRequest, signRequest } from "@gateway/shared/wire";
import type { TokenAnswer, TokenRequest } from "./authority.ts";

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
