import assert from "node:assert/strict";
import { type JsonClient, type JsonClientResponse, startMtlsServer } from "@gateway/shared/http";
import { signBody } from "../bench/sign_request.ts";
import { assertLogVerifies, recordsOf } from "../stage/audit.ts";
import type { Stage, StageIdentity, StageOptions } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

/** A command that the policy allows. */
export const FREE = "uptime";
/** A command that needs an approval each time. */
export const GATED = "hostname";

const GATE = { path: ["command_policies", "starter", "require_approval"], value: [`^${GATED}$`] };

export class ControlPlaneScene {
  readonly stage: Stage;
  readonly #clients = new Map<StageIdentity, JsonClient>();

  constructor(stage: Stage) {
    this.stage = stage;
  }

  async sign(changes: Readonly<Record<string, unknown>> = {}): Promise<JsonClientResponse> {
    const body = { ...JSON.parse(signBody()), ...changes };
    return await this.request("broker", { method: "POST", path: "/v1/sign", body });
  }

  /** Parks a request, by default one that is identical to no other, and returns its ID. */
  async park(changes: Readonly<Record<string, unknown>> = { reason: crypto.randomUUID() }): Promise<string> {
    const { status, text, body } = await this.sign({ command: GATED, ...changes });
    assert.equal(status, 202, text);
    return (body as { readonly approval_id: string }).approval_id;
  }

  async decide(
    id: string,
    decision: unknown,
    identity: StageIdentity = "approver",
  ): Promise<JsonClientResponse> {
    return await this.request(identity, { method: "POST", path: `/v1/approvals/${id}`, body: decision });
  }

  async poll(id: string, query = ""): Promise<JsonClientResponse> {
    return await this.request("broker", { method: "GET", path: `/v1/sign/result/${id}${query}` });
  }

  async get(identity: StageIdentity, path: string): Promise<JsonClientResponse> {
    return await this.request(identity, { method: "GET", path });
  }

  async request(
    identity: StageIdentity,
    request: Parameters<JsonClient["request"]>[0],
  ): Promise<JsonClientResponse> {
    let client = this.#clients.get(identity);
    if (client === undefined) {
      client = await this.stage.controlPlaneClient(identity);
      this.#clients.set(identity, client);
    }
    return await client.request(request);
  }

  async records(of: "control_plane" | "signer" = "control_plane"): Promise<readonly AuditRecord[]> {
    return await recordsOf(this.stage.init[`${of}_audit_log`]) as unknown as readonly AuditRecord[];
  }

  async assertLogVerifies(log = this.stage.init.control_plane_audit_log): Promise<void> {
    await assertLogVerifies(log, this.stage.init.control_plane_audit_key);
  }
}

export interface AuditRecord {
  readonly caller: string;
  readonly host: string;
  readonly command: string;
  readonly outcome: string;
  readonly serial: bigint | number;
  readonly err: string;
  readonly approval_id?: string;
  readonly approved_by?: string;
}

/**
 * Runs a test with a control plane and a policy that requires approval for {@linkcode GATED}.
 */
export async function withControlPlane(
  options: Omit<StageOptions, "dir" | "controlPlane">,
  test: (scene: ControlPlaneScene) => Promise<void>,
): Promise<void> {
  const signer = [GATE, ...(options.signer ?? [])];
  await withStage(
    { ...options, controlPlane: true, signer },
    (stage) => test(new ControlPlaneScene(stage)),
  );
}

/** A server at the signer's address that uses the signer's own certificate. */
export async function startAsSigner(
  { init }: Stage,
  answer: (request: Request) => Response | Promise<Response>,
): Promise<AsyncDisposable> {
  const [, listen = ""] = /"listen": "([^"]+)"/.exec(await Deno.readTextFile(init.signer_config)) ?? [];
  return await startMtlsServer({
    listen,
    cert: await Deno.readTextFile(`${init.folder}/pki/signer.crt`),
    key: await Deno.readTextFile(`${init.folder}/pki/signer.key`),
    clientCa: await Deno.readTextFile(init.mtls_ca),
    // The control plane requests this by itself to check that the signer is reachable.
    handler: (request) =>
      new URL(request.url).pathname === "/healthz" ? new Response("", { status: 404 }) : answer(request),
    onError: () => {},
    timeouts: { drainMs: 0 },
  });
}
