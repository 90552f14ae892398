import type { ClustersResponse, HostsResponse } from "@gateway/shared/wire";
import type {
  Authority,
  CertificateRequest,
  SignAnswer,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "../authority/authority.ts";

/** The certificate serial of a {@linkcode FakeAuthority}. It exceeds the safe range of `number`. */
export const SERIAL = 18446744073709551615n;

/** Two hosts as a signer lists them. One is behind a bastion. */
export const HOSTS: HostsResponse = {
  web01: {
    addr: "10.0.0.1:22",
    user: "deploy",
    host_key: "ssh-ed25519 AAAA",
    allow_sudo: true,
    groups: ["web"],
  },
  db01: {
    addr: "10.0.0.2:22",
    user: "dba",
    host_key: "ssh-ed25519 BBBB",
    jump: "bastion01",
    allow_pty: true,
  },
};

/** {@linkcode HOSTS} and the bastion. */
export const CHAINED_HOSTS: HostsResponse = {
  ...HOSTS,
  bastion01: { addr: "10.0.0.9:22", user: "jump", host_key: "k" },
};

/** A certificate for `uptime` that needed no approval. */
export const ISSUED_UPTIME = {
  kind: "issued",
  certificate: "ssh-ed25519-cert-v01@openssh.com CCCC",
  serial: SERIAL,
  decision: { allowed: true, matched_rule: "allow:^uptime$" },
  elevationPrefix: "",
  waited: false,
} as const satisfies SignAnswer;

/** An authority with scripted answers that records its requests. */
export class FakeAuthority implements Authority {
  readonly requests: CertificateRequest[] = [];
  fetches = 0;
  /** The hosts whose rules were requested. */
  readonly rulesAsked: (readonly string[])[] = [];
  rulesOf: (hosts: readonly string[]) => HostsResponse | Promise<HostsResponse> = () => ({});
  list: () => HostsResponse | Promise<HostsResponse> = () => HOSTS;
  answer: (
    request: CertificateRequest,
    signal: AbortSignal,
    options: SignOptions,
  ) => SignAnswer | Promise<SignAnswer> = (
    request,
  ) =>
    request.dry_run === true
      ? { kind: "decided", decision: { allowed: true, matched_rule: "allow:^uptime$", ttl_seconds: 120 } }
      : ISSUED_UPTIME;

  readonly tokenRequests: TokenRequest[] = [];
  clusterList: () => ClustersResponse | Promise<ClustersResponse> = () => ({});
  tokenAnswer: (request: TokenRequest, options: SignOptions) => TokenAnswer | Promise<TokenAnswer> = (
    request,
  ) =>
    request.dry_run === true
      ? { kind: "decided", decision: { allowed: true, matched_rule: "allow:^get .*$", ttl_seconds: 600 } }
      : {
        kind: "issued",
        token: "token-1",
        serial: SERIAL,
        decision: { allowed: true, matched_rule: "allow:^get .*$" },
        waited: false,
      };

  async hosts(): Promise<HostsResponse> {
    this.fetches += 1;
    return await this.list();
  }

  async rules(hosts: readonly string[]): Promise<HostsResponse> {
    this.rulesAsked.push(hosts);
    return await this.rulesOf(hosts);
  }

  async clusters(): Promise<ClustersResponse> {
    return await this.clusterList();
  }

  async token(request: TokenRequest, options: SignOptions): Promise<TokenAnswer> {
    this.tokenRequests.push(request);
    return await this.tokenAnswer(request, options);
  }

  async sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer> {
    this.requests.push(request);
    return await this.answer(request, options.signal, options);
  }
}
