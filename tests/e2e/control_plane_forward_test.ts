import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { parseCertificate } from "@gateway/shared/ssh";
import type { SignRequest } from "@gateway/shared/wire";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { HOST, post } from "../stage/stage.ts";
import {
  type AuditRecord,
  type ControlPlaneScene,
  FREE,
  startAsSigner,
  withControlPlane,
} from "./control_plane_scene.ts";

const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";

/** A non-default value for every field that a broker may set. */
const EVERYTHING: Omit<SignRequest, keyof typeof CLAIMS | "end_user_groups"> = {
  host: "web01",
  role: "bastion",
  purpose: "session",
  session_mode: "pty",
  command: "ls 'a b' \u00e4 \ud83d\ude00",
  ttl_seconds: 77,
  public_key: PUBLIC_KEY,
  sudo: true,
  sudo_user: "db",
  pty: true,
  file_transfer: true,
  content_sha256: "0123456789abcdef".repeat(4),
  content_bytes: 3,
  session_max_seconds: 1800,
  session_id: "s-1",
  content_head: "abc",
  reason: "why",
  dry_run: true,
  preflight: true,
  end_user: "alice",
  bearer_token: "token",
  target_type: "ssh",
  k8s_verb: "get",
  k8s_resource: "pods",
  k8s_group: "apps",
  k8s_namespace: "prod",
  k8s_name: "web-1",
  k8s_manifest: "{}",
  k8s_force_fields: ["spec.replicas"],
};

const CLAIMS = {
  on_behalf_of: "broker-9",
  approved: true,
  learn_ttl_seconds: 60,
  learn_approver: "me",
  learn_approval_id: "abc",
  approval_proofs: [{ kind: "ssh" as const, document: "{}", signature: "AAAA" }],
};

const ANSWER =
  '{"certificate":"ssh-ed25519-cert-v01@openssh.com AAAA\\n","serial":18446744073709551615,"elevation_prefix":' +
  '"sudo -n","decision":{"allowed":true,"reason":"r","matched_rule":"allow:^x","force_command":"x","ttl_seconds":60,' +
  '"elevation":"sudo -n","enforcement":"audit","warning":"w","would_deny":true,"would_require_approval":true},' +
  '"envelope":{"payload":"e30=","n":9007199254740993}}';

const HOSTS =
  '{"web01":{"addr":"10.0.0.1:22","user":"u","host_key":"ssh-ed25519 AAAA","jump":"b","allow_sudo":true,' +
  '"allow_pty":true,"allow_file_transfer":true,"groups":["web"]}}';

const json = (text: string, status = 200, headers: Record<string, string> = {}) =>
  new Response(text, { status, headers: { "content-type": "application/json", ...headers } });

Deno.test("the control plane forwards every known field of a request, and the signer's exact response", () =>
  withControlPlane({}, async (scene) => {
    const bodies: Record<string, unknown>[] = [];
    const behalf: (string | null)[] = [];
    await using _signer = await startAsSigner(scene.stage, async (request) => {
      if (request.method === "POST") {
        bodies.push(parseJson(await request.text()) as Record<string, unknown>);
        return json(ANSWER);
      }
      behalf.push(request.headers.get("x-on-behalf-of"));
      return request.url.endsWith("/v1/hosts") ? json(HOSTS) : json("{}", 404);
    });
    await scene.stage.startControlPlane();
    const own = {
      on_behalf_of: "broker-local",
      approved: false,
      learn_ttl_seconds: 0,
      learn_approver: "",
      learn_approval_id: "",
      approval_proofs: [],
    };
    const groups = [
      { sent: { end_user_groups: ["web", "db"] }, arrives: ["web", "db"] },
      { sent: { end_user_groups: [] }, arrives: [] },
      { sent: { end_user_groups: null }, arrives: null },
      { sent: {}, arrives: null },
    ];
    for (const { sent, arrives } of groups) {
      const path = "/v1/sign";
      const body = { ...EVERYTHING, ...CLAIMS, unknown_field: 1, ...sent };
      const { status } = await scene.request("broker", { method: "POST", path, body });
      assert.equal(status, 200);
      assert.deepEqual(bodies.pop(), { ...EVERYTHING, ...own, end_user_groups: arrives });
    }
    const { dry_run: _, preflight: __, ...real } = EVERYTHING;
    const { text } = await scene.request("broker", { method: "POST", path: "/v1/sign", body: real });
    assert.equal(text, `${ANSWER}\n`, "to the last digit");
    assert.equal((await scene.get("broker", "/v1/hosts")).text, `${HOSTS}\n`);
    const clusters = await scene.get("broker", "/v1/clusters");
    assert.deepEqual([clusters.status, (clusters.body as { code?: string }).code], [200, undefined]);
    assert.deepEqual(behalf, ["broker-local", "broker-local"]);
  }));

const withShared = share<ControlPlaneScene>((use) => {
  const other = {
    path: ["hosts", "db01"],
    value: { addr: "10.0.0.1:22", user: "u", host_key: PUBLIC_KEY, groups: ["db"] },
  };
  const notOurs = { ...other.value, groups: ["local"], allowed_callers: ["broker-2"] };
  return withControlPlane(
    { signer: [other, { path: ["hosts", "web02"], value: notOurs }] },
    async (scene) => {
      await scene.stage.startSigner();
      await scene.stage.startControlPlane();
      await use(scene);
    },
  );
});

Deno.test("the signer issues certificates to a broker behind the control plane, and both record them", () =>
  withShared(async (scene) => {
    const { status, body } = await scene.sign({ command: FREE, end_user: "alice" });
    const { certificate, serial } = body as { readonly certificate: string; readonly serial: bigint };
    assert.equal(status, 200);
    const issued = parseCertificate(certificate);
    assert.match(issued.keyId, /^agent=broker-local host=web01 .* user=alice/);
    assert.equal(issued.serial, BigInt(serial));
    let forwarded: readonly AuditRecord[] = [];
    // Forwarded requests are recorded after the answer.
    await poll(async () => {
      forwarded = (await scene.records()).filter(({ outcome }) => outcome === "forwarded");
      return forwarded.length > 0;
    }, { what: "the record" });
    assert.deepEqual(forwarded.map(({ caller, host, serial }) => [caller, host, BigInt(serial)]), [
      ["broker-local", HOST, issued.serial],
    ]);
    assert.equal(forwarded[0]?.command, FREE);
    await scene.assertLogVerifies();
  }));

Deno.test("GET /v1/hosts returns the broker's hosts, and an approver's certificate is denied", () =>
  withShared(async (scene) => {
    const { body } = await scene.get("broker", "/v1/hosts");
    assert.deepEqual(Object.keys(body as object), [HOST]);
    for (const path of ["/v1/hosts", "/v1/revocations", "/v1/sign/result/x"]) {
      assert.equal((await scene.get("approver", path)).status, 403, path);
    }
    const signed = await scene.request("approver", { method: "POST", path: "/v1/sign", body: EVERYTHING });
    assert.equal(signed.status, 403);
    assert.equal((await scene.get("broker", "/v1/approvals")).status, 403);
    assert.equal((await scene.get("broker", "/ui/approvals")).status, 403);
    assert.equal((await scene.get("approver", "/ui/approvals")).status, 200);
  }));

Deno.test("a freeze of the broker or the control plane stops forwarded requests and appears in the revocations", () =>
  withShared(async (scene) => {
    const operator = await scene.stage.signerClient("operator");
    for (const value of ["broker-local", "control-plane-local"]) {
      const subject = { kind: "caller", value, reason: "incident" };
      await post(operator, "/v1/freeze", subject);
      const { status, body } = await scene.sign();
      assert.deepEqual([status, (body as { code?: string }).code], [403, "frozen"]);
      assert.equal((await scene.get("broker", "/v1/hosts")).status, 403);
      const revocations = (await scene.get("broker", "/v1/revocations")).body as readonly object[];
      const own = value === "broker-local" ? [["kind", "value", "frozen_at"]] : [];
      assert.deepEqual(revocations.map((entry) => Object.keys(entry)), own);
      await post(operator, "/v1/unfreeze", subject);
    }
    assert.equal((await scene.sign()).status, 200);
  }));

Deno.test("the signer denies direct requests of a broker that init placed behind the control plane", () =>
  withShared(async (scene) => {
    const signer = await scene.stage.signerClient("broker");
    const body = { host: HOST, role: "target", purpose: "oneshot", command: FREE, public_key: PUBLIC_KEY };
    const answer = await post(signer, "/v1/sign", body);
    assert.equal(answer.status, 403, answer.text);
    assert.equal((await signer.request({ method: "GET", path: "/v1/hosts" })).status, 403);
    assert.equal((await scene.sign({ command: FREE })).status, 200);
    assert.equal((await scene.get("broker", "/v1/hosts")).status, 200);
  }));

Deno.test("the signer's limit of one end user does not affect other end users of the same broker", () =>
  withControlPlane({ signer: [{ path: ["sign_rate_limit_per_min"], value: 2 }] }, async (scene) => {
    await scene.stage.startSigner();
    await scene.stage.startControlPlane();
    const ask = async (changes: object) => (await scene.sign({ command: FREE, ...changes })).status;
    const statuses = [];
    for (let count = 0; count < 3; count++) statuses.push(await ask({ end_user: "ann", dry_run: true }));
    for (let count = 0; count < 3; count++) statuses.push(await ask({ end_user: "ann" }));
    assert.deepEqual(statuses, [200, 200, 429, 200, 200, 429]);
    const { status, headers } = await scene.sign({ command: FREE, end_user: "ann" });
    assert.ok(status === 429 && Number(headers["retry-after"]) >= 1, "429 stays 429 with Retry-After");
    assert.equal(await ask({ end_user: "bob" }), 200);
  }));
