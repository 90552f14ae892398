import { AuditGate } from "@gateway/shared/audit";
import { FakeClock, FixedRandom, MemoryAuditLog } from "@gateway/shared/testing";
import { countEvents, type Events } from "../request/records.ts";
import { type Execute, execute, type ExecuteRequest } from "../request/execute.ts";
import { Inventory } from "../request/route.ts";
import { type GetFile, getFile, type PutFile, putFile } from "../request/transfer.ts";
import type { Tool, ToolContext, ToolLimits } from "../tools/tool.ts";
import type { Toolset } from "../tools/toolset.ts";
import { FakeAuthority } from "./fake_authority.ts";
import { FakeRunner } from "./fake_runner.ts";

/** The longest certificate lifetime in tests, in seconds. */
export const MAX_TTL_SECONDS = 300;
/** The largest file in tests, in bytes. */
export const MAX_TRANSFER_BYTES = 1000;

/** The limits of tools in tests. */
export const TEST_LIMITS: ToolLimits = {
  maxOutputBytes: 409_600,
  maxFileBytes: MAX_TRANSFER_BYTES,
  maxTtlSeconds: MAX_TTL_SECONDS,
  approvalWaitSeconds: 0,
  sessionIdleSeconds: 300,
  sessionMaxSeconds: 1800,
};

/** The mark around output in the results of a fixture. */
export const MARK = "ab".repeat(8);

/** The request fields in every record of {@linkcode BrokerFixture.run}. */
export const ASKED = {
  caller: "agent-1",
  host_name: "web01",
  command: "uptime",
  elevation: "",
  pty: false,
  dry_run: false,
} as const;

/** Requests `uptime` on `web01`. */
export const UPTIME: ExecuteRequest = {
  caller: "agent-1",
  callerGroups: null,
  host: "web01",
  command: "uptime",
  ttlSeconds: 0,
  sudo: false,
  sudoUser: "",
  pty: false,
  dryRun: false,
};

/** The context of tool calls, for a caller with a group and a token. */
export const TOOL_CONTEXT: ToolContext = {
  caller: "mcp-stdio",
  callerGroups: ["ops"],
  bearerToken: "token",
  signal: new AbortController().signal,
};

/** A broker without network, disk and hosts. */
export class BrokerFixture {
  readonly authority = new FakeAuthority();
  readonly runner = new FakeRunner();
  readonly log = new MemoryAuditLog();
  readonly hosts = new Inventory(() => this.authority.hosts());
  /** The counted outcomes, in order. */
  readonly counted: string[] = [];
  blocked = 0;
  readonly execute: Execute;
  readonly putFile: PutFile;
  readonly getFile: GetFile;
  readonly events: Events;
  readonly currentHosts = () => this.hosts.current();
  readonly hostRules = (names: readonly string[]) => this.authority.rules(names);
  readonly limits = TEST_LIMITS;
  readonly random = new FixedRandom([0xab]);

  constructor(options: { readonly failMode?: "closed" | "open" } = {}) {
    const gate = new AuditGate({
      log: this.log,
      failMode: options.failMode ?? "closed",
      onAppendFailure: () => {},
      onBlocked: () => this.blocked += 1,
    });
    this.events = countEvents(gate, (outcome) => this.counted.push(outcome));
    const ports = {
      authority: this.authority,
      hosts: this.hosts,
      clock: new FakeClock(),
      createKey: () => ({ publicKeyLine: "ssh-ed25519 EEEE", sign: () => new Uint8Array(64) }),
      runCommand: this.runner.run,
      events: this.events,
      maxTtlSeconds: MAX_TTL_SECONDS,
    };
    this.execute = (request, signal) => execute(ports, request, signal);
    const transfer = { ...ports, maxBytes: MAX_TRANSFER_BYTES };
    this.putFile = (request, signal) => putFile(transfer, request, signal);
    this.getFile = (request, signal) => getFile(transfer, request, signal);
  }

  /** Executes `uptime` on `web01` with the given fields changed. */
  run(request: Partial<ExecuteRequest> = {}, signal: AbortSignal = new AbortController().signal) {
    return this.execute({ ...UPTIME, ...request }, signal);
  }
}

export function fixedTools(tools: readonly Tool[]): Toolset {
  return { tools, settled: () => Promise.resolve(), isOffered: () => true, watch: () => () => {} };
}
