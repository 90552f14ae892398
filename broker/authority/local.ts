import type { AuditGate } from "@gateway/shared/audit";
import { type CaKey, type CaKeyRing, issueUserCertificate } from "@gateway/shared/ca";
import type { Clock, Random } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { STATUS } from "@gateway/shared/http";
import {
  type AllowedSsh,
  type CompiledPolicy,
  decideSsh,
  describeSignRequest,
  factsOfRequest,
  intentOf,
  type SshDecision,
  toWireDecision,
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
  CertificateRequest,
  SignAnswer,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "./authority.ts";
import type { LocalClusters } from "./local_clusters.ts";

/** Who asks for certificates in local mode: the name in their KeyIds, and the caller of policy. */
export const LOCAL_CALLER = "local";

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
