import assert from "node:assert/strict";
import { AuditGate, encodeRecord, formatTime } from "@gateway/shared/audit";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { ChangeLock } from "@gateway/shared/state";
import { callerFromCertificate, problemResponse } from "@gateway/shared/http";
import { parseJson } from "@gateway/shared/json";
import { createMetrics } from "@gateway/shared/service/metrics";
import { finish } from "@gateway/shared/clock";
import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom, MemoryAuditLog } from "@gateway/shared/testing";
import { createSignerApp } from "../app.ts";
import { type SignerConfig, signerConfig } from "../config/config.ts";
import type { ConfigFile } from "../config/config_file.ts";
import { DecisionTurns } from "../sign/decision_turns.ts";
import type { ClusterApi } from "@gateway/shared/kubernetes";
import { ApiPreviewer } from "../kubernetes/preview.ts";
import { TokenLeases } from "../live/token_leases.ts";
import { ApiTokenIssuer } from "../kubernetes/token_issuer.ts";
import { KnownSubjects } from "../sign/known_subjects.ts";
import { KrlReaders } from "../live/krl/readers.ts";
import { PolicySource } from "../live/policy_source.ts";
import { findAnswers } from "../live/krl/recorded.ts";
import { RevocationList } from "../live/krl/revocation_list.ts";
import { ALONE, type InstanceGroup } from "@gateway/shared/instances";
import { LiveState } from "../live/live_state.ts";
import { SignLimit } from "../sign/sign_limit.ts";
import {
  clusterAddress,
  compileSnapshot,
  type LoadedParts,
  parseSignerConfig,
  type Snapshot,
} from "../config/snapshot.ts";
import { SignerState } from "../live/signer_state.ts";
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
  /** Repeated for ever; each serial and id is cut from it. */
  readonly randomBytes?: readonly number[];
  /** What API servers answer; by default there are none. */
  readonly clusterApi?: ClusterApi["request"];
}

/** A signer's routes over memory, with the errors that its listener would turn into answers. */
export async function startSigner(
  changes: Partial<Record<keyof SignerConfig, unknown>> = {},
  options: MemorySignerOptions = {},
) {
  const snapshot = snapshotOf({ ...CONFIG, ...changes }, options.parts);
  const log = new MemoryAuditLog();
  const metrics = createMetrics();
  const clock = new FakeClock(NOW_MS);
  const counts = { failures: 0, blocked: 0, store: 0 };
  const logger = { info() {}, warn() {}, error() {} };
  const gate = new AuditGate({
    log,
    failMode: snapshot.config.audit_fail_mode,
    onAppendFailure: () => counts.failures++,
    onBlocked: () => counts.blocked++,
  });
  let next: () => Promise<Snapshot> = () => Promise.resolve(snapshot);
  const lock = new ChangeLock();
  const state = new SignerState({ initial: snapshot, load: () => next(), gate, logger, clock, lock });
  const random = new FixedRandom(options.randomBytes ?? [0xfe]);
  const store = options.store ?? memoryStore();
  const live = await LiveState.open({
    store,
    clock,
    random,
    logger,
    lock,
    onStoreError: () => counts.store++,
  });
  const krl = await RevocationList.open(
    {
      ...{ store, clock, logger, onStoreError: () => counts.store++, forwarders: [] },
      readRecords: async function* () {},
      async *findAnswers(requests) {
        const time = formatTime(clock.now());
        const lines = ReadableStream.from(log.entries.map((entry) => {
          const { body, ext } = encodeRecord(entry, { time });
          return `${body}${ext && `,"ext":${ext}`}}`;
        }));
        yield* findAnswers(lines, requests, 0);
      },
      async onLost(answers) {
        for (const { serial, isToken } of answers) {
          if (isToken) await leases.revoke({ kind: "serial", value: serial.toString() });
        }
      },
    },
    live.view.freezes,
  );
  const file = { text: JSON.stringify({ ...CONFIG, ...changes }, null, 2) };
  const configFile: ConfigFile = {
    read: () => Promise.resolve(file.text),
    parse: (text) => Promise.resolve(finish(parseSignerConfig(text, "signer.json"))),
    compile: async (text) => compileSnapshot(await configFile.parse(text), PARTS),
    replace(expected, text) {
      if (file.text !== expected) return Promise.resolve(false);
      file.text = text;
      return Promise.resolve(true);
    },
  };
  const api: ClusterApi = {
    request: options.clusterApi ?? (() => Promise.resolve({ kind: "unreachable", cause: "no API server" })),
    close() {},
  };
  const leases = await TokenLeases.open({
    store,
    api,
    clock,
    logger,
    onStoreError: () => counts.store++,
    addressOf: (name) => clusterAddress(state.current, name),
    isFrozen: (identity) => live.findFreeze(identity) !== undefined,
  });
  const handler = createSignerApp({
    state,
    gate,
    metrics,
    clock,
    logger,
    signLimit: new SignLimit({ clock }),
    turns: new DecisionTurns({ clock }),
    knownSubjects: new KnownSubjects(),
    tokens: new ApiTokenIssuer({ logger, clock, leases, api }),
    leases,
    previewer: new ApiPreviewer({ api, clock }),
    random,
    live,
    instances: options.instances ?? ALONE,
    krl,
    krlReaders: new KrlReaders(),
    configFile,
    policySource: new PolicySource({ from: "file", configFile }),
  });
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
    // HEAD has none.
    const body = (text === "" ? {} : parseJson(text)) as Body;
    return { status: response.status, headers: response.headers, body };
  };
  return {
    log,
    metrics,
    clock,
    counts,
    state,
    live,
    leases,
    krl,
    file,
    fetch,
    send,
    setNext: (load: () => Promise<Snapshot>) => next = load,
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
