import { AppError } from "@gateway/shared/errors";
import type { Histogram, Metrics } from "@gateway/shared/service";
import type {
  Authority,
  CertificateRequest,
  SignAnswer,
  SignOptions,
  TokenRequest,
} from "../authority/authority.ts";
import type { SshTimings } from "../ssh/run_command.ts";

/** How long the parts of a call take. */
interface Timings extends SshTimings {
  /** For certificates and decisions, the waits for a human aside. */
  readonly sign: Histogram;
  readonly approval: Histogram;
}

export function createTimings(metrics: Metrics): Timings {
  return {
    sign: metrics.histogram(
      "broker_sign_duration_seconds",
      "What the signer or control plane takes for a certificate or a decision",
      "exchange",
    ),
    approval: metrics.histogram(
      "broker_approval_wait_seconds",
      "Waits for a human's approval, until its result is there or nobody waits any longer",
      "human",
    ),
    connect: metrics.histogram(
      "broker_connect_duration_seconds",
      "From the first byte to a host until the login, through all bastions",
      "exchange",
    ),
    exec: metrics.histogram(
      "broker_exec_duration_seconds",
      "What remote commands take, once connected",
      "command",
    ),
  };
}

/** An authority whose answers are timed: as an approval from when it is waited for, as signing otherwise. */
export function timeAuthority(authority: Authority, { sign, approval }: Timings): Authority {
  const timed = <Request, Answer extends { readonly kind: SignAnswer["kind"] }>(
    ask: (request: Request, options: SignOptions) => Promise<Answer>,
  ) =>
  async (request: Request, options: SignOptions): Promise<Answer> => {
    let waited: ((result?: string) => void) | undefined;
    const onWaiting = (id: string) => {
      waited ??= approval.start();
      options.onWaiting?.(id);
    };
    const signed = sign.start();
    try {
      const answer = await ask(request, { ...options, onWaiting });
      (waited ?? signed)(answer.kind);
      return answer;
    } catch (error) {
      (waited ?? signed)(codeOf(error));
      throw error;
    }
  };
  return {
    hosts: () => authority.hosts(),
    rules: (hosts, signal) => authority.rules(hosts, signal),
    clusters: () => authority.clusters(),
    sign: timed((request: CertificateRequest, options) => authority.sign(request, options)),
    token: timed((request: TokenRequest, options) => authority.token(request, options)),
  };
}

function codeOf(error: unknown): string {
  return error instanceof AppError ? error.code : "internal";
}
