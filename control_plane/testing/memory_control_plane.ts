import assert from "node:assert/strict";
import { AuditGate } from "@gateway/shared/audit";
import { callerFromCertificate, problemResponse } from "@gateway/shared/http";
import { ALONE, type InstanceGroup } from "@gateway/shared/instances";
import { parseJson } from "@gateway/shared/json";
import { createMetrics } from "@gateway/shared/service/metrics";
import { FakeClock, MemoryAuditLog } from "@gateway/shared/testing";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { createControlPlaneApp } from "../app.ts";
import { ApprovalRegistry } from "../approvals/registry.ts";
import { Guardrails } from "../guardrails/guardrails.ts";
import { type ControlPlaneConfig, controlPlaneConfig } from "../config/config.ts";
import { SignerClient } from "../routes/signer_client.ts";
import { openMemoryStore } from "./failing_control_store.ts";
import type { ControlStore } from "../state/store.ts";
import { FakeSigner, gate as wantApproval } from "./fake_signer.ts";

export const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
export const NOW_MS = 1_700_000_000_000;

export const CONFIG = {
  server_cert: "c",
  server_key: "k",
  client_ca: "a",
  signer: { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" },
  sign_callers: ["broker-1", "broker-2", "both"],
  approval: {
    callers: ["approver-1", "approver-2", "both"],
    timeout_seconds: 120,
    max_pending_per_caller: 3,
    approval_url_template: "https://cp:7443/ui/approvals/{id}",
  },
  trusted_forwarders: ["broker-2"],
  audit_log: "log/audit.log",
  audit_key: "seed",
};

export const ONE_SHOT = {
  host: "web01",
  role: "target",
  purpose: "oneshot",
  command: "uptime",
  public_key: PUBLIC_KEY,
};

export interface MemoryControlPlaneOptions {
  readonly store?: ControlStore;
  readonly instances?: InstanceGroup;
  /** The delay of late records in milliseconds; default 0. */
  readonly lateMs?: number;
}

/** A control plane's routes over memory. Errors become responses, as in its listener. */
export async function startControlPlane(
  changes: Partial<Record<keyof ControlPlaneConfig, unknown>> = {},
  options: MemoryControlPlaneOptions = {},
) {
  const config = controlPlaneConfig.parse({ ...CONFIG, ...changes });
  const log = new MemoryAuditLog();
  const metrics = createMetrics();
  const clock = new FakeClock(NOW_MS);
  const logger = { info() {}, warn() {}, error() {} };
  const counts = { failures: 0, blocked: 0 };
  const gate = new AuditGate({
    log,
    failMode: config.audit_fail_mode,
    onAppendFailure: () => counts.failures++,
    onBlocked: () => counts.blocked++,
  });
  const store = options.store ?? openMemoryStore();
  const registry = await ApprovalRegistry.open({
    store,
    clock,
    random: { bytes: (length) => crypto.getRandomValues(new Uint8Array(length)) },
    logger,
    timeoutSeconds: config.approval.timeout_seconds,
    maxPendingPerCaller: config.approval.max_pending_per_caller,
    onStoreError() {},
  });
  const guardrails = await Guardrails.open({ config: config.behavior, store, clock, logger });
  const signer = new FakeSigner();
  const notified: ApprovalRecord[] = [];
  const stopping = new AbortController();
  const { handler, pagesAt } = createControlPlaneApp({
    config,
    registry,
    instances: options.instances ?? ALONE,
    guardrails,
    notifier: { notify: (approval) => void notified.push(approval), close: () => Promise.resolve() },
    signer: new SignerClient(signer),
    gate,
    metrics,
    clock,
    logger,
    stopping: stopping.signal,
    lateMs: options.lateMs ?? 0,
  });
  const send = async (request: Request, cn: string): Promise<Answer> => {
    const caller = callerFromCertificate(true, cn);
    assert.ok(caller);
    let response: Response;
    try {
      response = await handler(request, { caller });
    } catch (error) {
      response = problemResponse(error);
    }
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? parseJson(text) as Body : {},
    };
  };
  const sign = (changes: Record<string, unknown> = {}, cn = "broker-1") =>
    send(post("/v1/sign", { ...ONE_SHOT, ...changes }), cn);
  return {
    clock,
    counts,
    guardrails,
    log,
    metrics,
    notified,
    pagesAt,
    registry,
    send,
    sign,
    signer,
    stop: () => stopping.abort(),
    outcomes: () => log.entries.map(({ outcome }) => outcome),
    get: (path: string, cn: string) => send(get(path), cn),
    /** Parks a request and returns its ID. */
    async park(changes: Record<string, unknown> = {}, cn?: string) {
      const { status, body } = await sign({ command: "rm x", ...changes }, cn);
      assert.equal(status, 202);
      return String(body.approval_id);
    },
    decide: (id: string, decision: unknown, cn = "approver-1", headers: Record<string, string> = {}) =>
      send(post(`/v1/approvals/${id}`, decision, headers), cn),
    poll: (id: string, cn = "broker-1", query = "") => send(get(`/v1/sign/result/${id}${query}`), cn),
  };
}

/** A control plane behind a signer that requires an approval for every command. */
export async function startGated(...parts: Parameters<typeof startControlPlane>) {
  const plane = await startControlPlane(...parts);
  plane.signer.reply = wantApproval;
  return plane;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Body;
}

/** The checked parts of an answer. */
export interface Body {
  readonly [key: string]: unknown;
  readonly detail?: string;
  readonly code?: string;
  readonly status?: unknown;
}

export function post(path: string, body: unknown, headers: Record<string, string> = {}): Request {
  return new Request(`https://localhost${path}`, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

export const get = (path: string, headers: Record<string, string> = {}) =>
  new Request(`https://localhost${path}`, { headers });
