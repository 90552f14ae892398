/** Clients that use several signers and control planes at the same time, and record the answers. */
import type { JsonClient } from "@gateway/shared/http";
import type { ApprovalAttempt, Attempt, History } from "./history.ts";
import { SIGN } from "./signers.ts";

/** The command that an approver decides on. */
export const GATED = "hostname";

const SUBJECTS = 4;
/** The number of freezes per subject. A check examines all actions of one subject. */
const FREEZES_EACH = 40;
const FLOWS = 3;
const GRANT_SECONDS = 86_400;

type Answer = Awaited<ReturnType<JsonClient["request"]>>;
type Ask = Parameters<JsonClient["request"]>[0];

/** The clients of each instance, by identity. */
export interface Clients {
  readonly operators: readonly JsonClient[];
  readonly brokers: readonly JsonClient[];
  readonly agents: readonly JsonClient[];
  readonly approvers: readonly JsonClient[];
}

export function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export class Workload implements History {
  readonly freezes: Attempt[] = [];
  readonly unfreezes: Attempt[] = [];
  readonly signs: Attempt[] = [];
  readonly approvals: ApprovalAttempt[] = [];
  readonly reasons: string[] = [];
  readonly serials: bigint[] = [];
  /** Approvals with an acknowledged decision. */
  readonly decided: string[] = [];
  /** Acknowledged grants that were not revoked. */
  readonly grants = new Set<string>();
  readonly revoked = new Set<string>();
  readonly #clients: Clients;
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();
  #count = 0;
  /** The subjects that a task currently freezes or unfreezes. */
  readonly #subjects: string[] = [];
  /** Approvals without a final answer. */
  readonly #open = new Set<string>();

  constructor(clients: Clients) {
    this.#clients = clients;
  }

  start(): void {
    const { brokers, agents } = this.#clients;
    this.#running = Promise.all([
      ...Array.from({ length: SUBJECTS }, (_, index) => this.#until(() => this.#freezeOne(index))),
      ...[...brokers, ...agents].map((broker) => this.#until(() => this.#signSubject(broker))),
      this.#until(() => this.#grant()),
      ...Array.from({ length: FLOWS }, () => this.#until(() => this.#approve())),
    ]);
  }

  /** Waits for pending requests. Then checks at every instance that frozen subjects are still frozen. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    const { brokers, agents } = this.#clients;
    for (const broker of [...brokers, ...agents]) {
      for (const subject of this.#subjects) await this.#sign(broker, subject, { end_user: subject });
    }
    for (const id of [...this.#open]) {
      for (const agent of agents) await this.#collect(agent, id);
    }
  }

  async #until(action: () => Promise<unknown>): Promise<void> {
    while (!this.#isOver) await action();
  }

  /** Uses one subject until its state is unknown, or until it has been checked for a long time. */
  async #freezeOne(index: number): Promise<void> {
    const value = `u${this.#count++}`;
    this.#subjects[index] = value;
    const subject = { kind: "end_user", value };
    const ask = (path: string, body: unknown) => pick(this.#clients.operators).request(post(path, body));
    for (let round = 0; round < FREEZES_EACH && !this.#isOver; round++) {
      // Each freeze has a unique reason, by which its audit record is found.
      const reason = `${value}-${round}`;
      const frozen = await this.#attempt(
        this.freezes,
        value,
        () => ask("/v1/freeze", { ...subject, reason }),
      );
      if (frozen?.status === 200) {
        this.reasons.push(reason);
        const { brokers, agents } = this.#clients;
        await Promise.all(
          [...brokers, ...agents].map((broker) => this.#sign(broker, value, { end_user: value })),
        );
      }
      await pause(Math.random() * (Math.random() < 0.1 ? 4_000 : 60));
      const lifted = await this.#attempt(this.unfreezes, value, () => ask("/v1/unfreeze", subject));
      if (lifted === undefined || lifted.status >= 500) return;
      await pause(Math.random() * 40);
    }
  }

  async #signSubject(broker: JsonClient): Promise<void> {
    const end_user = pick(this.#subjects);
    const answer = await this.#sign(broker, end_user, { end_user });
    await pause(answer === undefined ? 50 : 25);
  }

  async #sign(broker: JsonClient, subject: string, more: object): Promise<Answer | undefined> {
    const request = post(SIGN.path, { ...SIGN.body, ...more });
    const answer = await this.#attempt(this.signs, subject, () => broker.request(request));
    if (answer?.status === 200) this.serials.push(serialOf(answer));
    return answer;
  }

  /** A grant is also a subject: its revocation counts as a freeze. */
  async #grant(): Promise<void> {
    const operator = () => pick(this.#clients.operators);
    const command = `systemctl status granted-${this.#count++}`;
    const body = { allow: [`^${command}$`], ttl_seconds: GRANT_SECONDS };
    const made = await tried(() => operator().request(post("/v1/policy/hosts/web01/grants", body)));
    await pause(100);
    if (made?.status !== 201) return;
    const { id } = made.body as { readonly id: string };
    const isKept = Math.random() < 0.3;
    if (isKept) this.grants.add(id);
    await this.#sign(pick(this.#clients.brokers), id, { command });
    if (isKept) return;
    const path = `/v1/policy/grants/${id}`;
    const gone = await this.#attempt([], id, () => operator().request({ method: "DELETE", path }));
    if (gone?.status !== 200) return;
    this.revoked.add(id);
    const now = performance.now();
    this.freezes.push({ subject: id, asked: now, ended: now, result: "done" });
    await Promise.all(this.#clients.brokers.map((broker) => this.#sign(broker, id, { command })));
  }

  async #approve(): Promise<void> {
    const { agents, approvers } = this.#clients;
    const reason = crypto.randomUUID();
    const parked = await tried(() =>
      pick(agents).request(post(SIGN.path, { ...SIGN.body, command: GATED, reason }))
    );
    if (parked?.status !== 202) return await pause(50);
    const id = (parked.body as { readonly approval_id: string }).approval_id;
    this.#open.add(id);
    const isApproved = Math.random() < 0.8;
    // Two opposite decisions: one of them is rejected as too late.
    const votes = Math.random() < 0.2 ? [true, false] : [isApproved];
    const first = this.#collect(pick(agents), id);
    const decided = await Promise.all(votes.map((approve) => this.#decide(pick(approvers), id, approve)));
    let isDecided = decided.includes(true);
    await first;
    for (let attempt = 0; attempt < 20 && !this.#isOver; attempt++) {
      await Promise.all([this.#collect(pick(agents), id), this.#collect(pick(agents), id)]);
      if (!this.#open.has(id)) return;
      isDecided ||= await this.#decide(pick(approvers), id, isApproved);
      await pause(50);
    }
  }

  async #decide(approver: JsonClient, id: string, approve: boolean): Promise<boolean> {
    const step = approve ? "approve" : "deny";
    const answer = await this.#about(
      id,
      step,
      () => approver.request(post(`/v1/approvals/${id}`, { approve })),
    );
    if (answer?.status === 200) this.decided.push(id);
    return answer?.status === 200;
  }

  async #collect(agent: JsonClient, id: string): Promise<void> {
    const path = `/v1/sign/result/${id}`;
    const answer = await this.#about(id, "collect", () => agent.request({ method: "GET", path }));
    if (answer?.status === 200) this.serials.push(serialOf(answer));
    if ([200, 403, 410].includes(answer?.status ?? 0)) this.#open.delete(id);
  }

  async #about(
    subject: string,
    step: ApprovalAttempt["step"],
    ask: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const asked = performance.now();
    const answer = await tried(ask);
    const { status, body } = answer ?? { status: 0, body: undefined };
    const result = status === 200 ? "done" : status >= 500 || status === 0 ? "unknown" : "refused";
    const isPending = status === 202 && (body as { readonly status?: string }).status === "pending";
    this.approvals.push({ subject, step, asked, ended: performance.now(), result, status, isPending });
    return answer;
  }

  async #attempt(log: Attempt[], subject: string, ask: () => Promise<Answer>): Promise<Answer | undefined> {
    const asked = performance.now();
    const answer = await tried(ask);
    const { status } = answer ?? { status: 0 };
    // A change that the state database did not confirm in time may be stored.
    const result = status === 200 ? "done" : status >= 400 && status < 500 ? "refused" : "unknown";
    log.push({ subject, asked, ended: performance.now(), result });
    return answer;
  }
}

function post(path: string, body: unknown): Ask {
  return { method: "POST", path, body };
}

function serialOf({ body }: Answer): bigint {
  return BigInt((body as { readonly serial: bigint }).serial);
}

async function tried(ask: () => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch {
    return undefined;
  }
}
