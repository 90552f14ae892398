import assert from "node:assert/strict";
import { AuditGate, encodeRecord, formatTime } from "@gateway/shared/audit";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { callerFromCertificate, problemResponse } from "@gateway/shared/http";
import { parseJson } from "@gateway/shared/json";
import { createMetrics } from "@gateway/shared/service/metrics";
import { finish } from "@gateway/shared/clock";
import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom, MemoryAuditLog } from "@gateway/shared/testing";
import { createSignerApp } from "../app.ts";
import { openAuthority } from "../sign/authority.ts";
import { type SignerConfig, signerConfig } from "../config/config.ts";
import {
  compileSnapshot,
  type ConfigFile,
  type LoadedParts,
  parseSignerConfig,
  type Snapshot,
} from "../config/snapshot.ts";
import type { ClusterApi } from "@gateway/shared/kubernetes";
import { findAnswers } from "../live/krl/recorded.ts";
import { ALONE, type InstanceGroup } from "@gateway/shared/instances";
import { memoryStore } from "./failing_store.ts";
import type { StateStore } from "../live/state/store.ts";

export const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoI43F0CfGV/VLbTCz6XXLKZwm/HZQSG/N0iAG0D28c";
const CA_KEY = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const PARTS: LoadedParts = {
  caKeys: { fallback: CA_KEY, byGroup: new Map() },
  clusterCas: new Map([["prod", "-----BEGIN CERTIFICATE-----\n"]]),
  endUsers: undefined,
  envelopeKey: undefined,
};
export const NOW_MS = 1_700_000_000_000;
/** Random bytes that give each certificate, token and grant a different serial or id. */
export const DISTINCT: readonly number[] = Array.from({ length: 251 }, (_, index) => index + 1);

export const CONFIG = {
  server_cert: "c",
  server_key: "k",
  client_ca: "a",
  ca_key: "ca",
  audit_log: "log/audit.log",
  audit_key: "seed",
  reload_callers: ["operator", ""],
  trusted_forwarders: ["control-plane"],
  callers: {
    "broker-1": { allowed_groups: ["web"] },
    "approver-broker": { allowed_groups: ["web"], self_approve: true },
  },
  hosts: {
    web01: {
      addr: "10.0.0.1:22",
      user: "deploy",
      host_key: HOST_KEY,
      principal: "host:web01",
      source_address: "10.9.0.0/16",
      max_ttl_seconds: 120,
      groups: ["web"],
      allow_sudo: true,
      command_policy: {
        mode: "allowlist",
        allow: ["^uptime$", "^systemctl restart [a-z]+$"],
        require_approval: ["^systemctl restart"],
      },
    },
    open01: {
      addr: "10.0.0.2:22",
      user: "deploy",
      host_key: HOST_KEY,
      principal: "host:open01",
      groups: ["web"],
      allowed_callers: ["broker-1"],
    },
    db01: { addr: "10.0.0.3:22", user: "db", host_key: HOST_KEY, principal: "host:db01", groups: ["db"] },
  },
};

export const ONE_SHOT = {
  host: "web01",
  role: "target",
  purpose: "oneshot",
  command: "uptime",
  public_key: HOST_KEY,
};

export interface MemorySignerOptions {
  readonly store?: StateStore;
  readonly instances?: InstanceGroup;
  readonly parts?: Partial<LoadedParts>;
  /** Repeated endlessly. Each serial and ID consists of its next bytes. */
  readonly randomBytes?: readonly number[];
  /** The answers of API servers. By default there are no API servers. */
  readonly clusterApi?: ClusterApi["request"];
}

/** A signer's routes over memory. Errors become responses, as in its listener. */
export async function startSigner(
  changes: Partial<Record<keyof SignerConfig, unknown>> = {},
  options: MemorySignerOptions = {},
) {
  const snapshot = snapshotOf({ ...CONFIG, ...changes }, options.parts);
  const log = new MemoryAuditLog();
  const metrics = createMetrics();
  const clock = new FakeClock(NOW_MS);
  const counts = { failures: 0, blocked: 0 };
  const logger = { info() {}, warn() {}, error() {} };
  const gate = new AuditGate({
    log,
    failMode: snapshot.config.audit_fail_mode,
    onAppendFailure: () => counts.failures++,
    onBlocked: () => counts.blocked++,
  });
  let next = () => Promise.resolve(snapshot);
  const file = { text: JSON.stringify({ ...CONFIG, ...changes }, null, 2) };
  const configFile: ConfigFile = {
    read: () => Promise.resolve(file.text),
    parse: (text) => Promise.resolve(finish(parseSignerConfig(text, "signer.json"))),
    compile: async (text) =>
      // A reload compiles the content of the file. An edit compiles the new content before it is written.
      text === file.text ? await next() : compileSnapshot(await configFile.parse(text), PARTS),
    replace(expected, text) {
      if (file.text !== expected) return Promise.resolve(false);
      file.text = text;
      return Promise.resolve(true);
    },
  };
  const authority = await openAuthority({
    ...{ initial: snapshot, configFile, gate, metrics, clock, logger },
    store: options.store ?? memoryStore(),
    instances: options.instances ?? ALONE,
    random: new FixedRandom(options.randomBytes ?? [0xfe]),
    clusters: {
      request: options.clusterApi ?? (() => Promise.resolve({ kind: "unreachable", cause: "no API server" })),
      close() {},
    },
    log: {
      readRecords: async function* () {},
      async *findAnswers(requests) {
        const time = formatTime(clock.now());
        const lines = ReadableStream.from(log.entries.map((entry) => {
          const { body, ext } = encodeRecord(entry, { time });
          return `${body}${ext && `,"ext":${ext}`}}`;
        }));
        yield* findAnswers(lines, requests, 0);
      },
    },
  }, new AsyncDisposableStack());
  const handler = createSignerApp(authority);
  const fetch = async (request: Request, cn = "broker-1") => {
    const caller = callerFromCertificate(true, cn);
    assert.ok(caller);
    try {
      return await handler(request, { caller });
    } catch (error) {
      return problemResponse(error);
    }
  };
  const send = async (request: Request, cn?: string) => {
    const response = await fetch(request, cn);
    const text = await response.text();
    // HEAD responses have no body.
    const body = (text === "" ? {} : parseJson(text)) as Body;
    return { status: response.status, headers: response.headers, body };
  };
  const { state, live, leases, krl } = authority;
  return {
    ...{ log, gate, metrics, clock, counts, file, fetch, send, state, live, leases, krl },
    setNext: (load: () => Promise<Snapshot>) => next = load,
    /** Reloads a config of {@linkcode CONFIG} with these changes. */
    async reload(changes: Partial<Record<keyof SignerConfig, unknown>>, parts?: Partial<LoadedParts>) {
      next = () => Promise.resolve(snapshotOf({ ...CONFIG, ...changes }, parts));
      await state.reload("operator");
    },
    async freeze(kind: string, value: string) {
      const answer = await send(post("/v1/freeze", { kind, value, allow_volatile: true }), "operator");
      assert.equal(answer.status, 200);
      return answer;
    },
    sign: (changes: Record<string, unknown>, cn?: string) =>
      send(post("/v1/sign", { ...ONE_SHOT, ...changes }), cn),
  };
}

export function snapshotOf(config: unknown, parts: Partial<LoadedParts> = {}): Snapshot {
  return compileSnapshot(signerConfig.parse(config), { ...PARTS, ...parts });
}

export interface Body {
  readonly [key: string]: unknown;
  readonly certificate?: string;
  readonly serial?: bigint;
  readonly decision?: Record<string, unknown>;
  readonly detail?: string;
  readonly code?: string;
}

export function post(path: string, body: unknown, headers: Record<string, string> = {}): Request {
  return new Request(`https://signer${path}`, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

export const get = (path: string, headers: Record<string, string> = {}) =>
  new Request(`https://signer${path}`, { headers });
