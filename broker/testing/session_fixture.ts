import { AuditGate } from "@gateway/shared/audit";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock, FixedRandom, MemoryAuditLog } from "@gateway/shared/testing";
import type { Random } from "@gateway/shared/clock";
import type { SignAnswer } from "../authority/authority.ts";
import type { Recorder, StartRecording } from "../sessions/recorder.ts";
import { countEvents, type Runs, trackRuns } from "../request/records.ts";
import { Inventory } from "../request/route.ts";
import type { ConnectSessionOptions } from "../sessions/connect_session.ts";
import type { ExecRequest } from "../sessions/exec.ts";
import type { OpenRequest } from "../sessions/open.ts";
import { SessionRegistry } from "../sessions/registry.ts";
import { createSessions, type Sessions } from "../sessions/sessions.ts";
import { TEST_LIMITS } from "./broker_fixture.ts";
import { FakeAuthority } from "./fake_authority.ts";
import { FakeLink } from "./fake_link.ts";

/** The caller of the sessions of a {@linkcode SessionFixture}. */
export const CALLER = "alice";

/** The lifetimes of the sessions of a {@linkcode SessionFixture}. */
const LIFETIMES = { idleSeconds: 300, maxSeconds: 1800 };

/** Sessions without network, disk and hosts. */
export class SessionFixture {
  readonly authority = new FakeAuthority();
  readonly log = new MemoryAuditLog();
  readonly clock = new FakeClock();
  readonly hosts = new Inventory(() => this.authority.hosts());
  readonly registry: SessionRegistry;
  readonly runs: Runs = trackRuns();
  readonly sessions: Sessions;
  /** The links of the sessions, in the order of their opening. */
  readonly links: FakeLink[] = [];
  readonly limits = TEST_LIMITS;
  readonly random = new FixedRandom([0xab]);
  readonly connects: ConnectSessionOptions[] = [];
  /** Creates the link of the next session. */
  connect: () => FakeLink | Promise<FakeLink> = () => new FakeLink();
  startRecording: (() => Promise<Recorder | undefined>) | undefined;

  constructor() {
    const gate = new AuditGate({
      log: this.log,
      failMode: "closed",
      onAppendFailure: () => {},
      onBlocked: () => {},
    });
    const events = countEvents(gate, () => {});
    const { authority, clock, hosts } = this;
    this.registry = new SessionRegistry({ clock, events, lifetimes: LIFETIMES });
    const startRecording: StartRecording = async () => await this.startRecording?.();
    this.sessions = createSessions({
      ...{ authority, clock, hosts, events, startRecording },
      registry: this.registry,
      createKey: createNumberedKeys(),
      random: new CountingRandom(),
      redact: createRedactor(),
      maxTtlSeconds: 300,
      sessionMaxSeconds: LIFETIMES.maxSeconds,
      connect: async (options) => {
        this.connects.push(options);
        const link = await this.connect();
        this.links.push(link);
        return link;
      },
    }, this.runs);
  }

  /** The outcomes in the audit log, in order. */
  get outcomes(): readonly string[] {
    return this.log.entries.map(({ outcome }) => outcome);
  }

  /** Opens an exec session on `web01`, with the given fields changed. */
  async open(request: Partial<OpenRequest> = {}, signal = new AbortController().signal): Promise<string> {
    const { sessionId } = await this.sessions.open({
      caller: CALLER,
      callerGroups: null,
      host: "web01",
      mode: "",
      ttlSeconds: 0,
      sudo: false,
      sudoUser: "",
      ...request,
    }, signal);
    return sessionId;
  }

  exec(
    sessionId: string,
    request: Partial<ExecRequest> = {},
    signal = new AbortController().signal,
  ) {
    return this.sessions.exec(
      { caller: CALLER, callerGroups: null, command: "uptime", ...request, sessionId },
      signal,
    );
  }

  /** Answers the preflight of one host differently from the others. */
  answerPreflight(answer: SignAnswer, host = "web01"): void {
    const { answer: usual } = this.authority;
    this.authority.answer = (request, signal, options) =>
      request.preflight === true && request.host === host ? answer : usual(request, signal, options);
  }

  close(sessionId: string, caller = CALLER) {
    return this.sessions.close({ sessionId, caller }, new AbortController().signal);
  }
}

/** A broker with one open session. */
export async function openedSession(...request: Parameters<SessionFixture["open"]>) {
  const broker = new SessionFixture();
  return { broker, id: await broker.open(...request) };
}

/** A deterministic sequence in which no number repeats. */
class CountingRandom implements Random {
  #count = 0;

  bytes(length: number): Uint8Array {
    this.#count += 1;
    const bytes = new Uint8Array(length);
    new DataView(bytes.buffer).setUint32(0, this.#count);
    return bytes;
  }
}

function createNumberedKeys() {
  let count = 0;
  return () => {
    count += 1;
    return { publicKeyLine: `ssh-ed25519 KEY${count}`, sign: () => new Uint8Array(64) };
  };
}
