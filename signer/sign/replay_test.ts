import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeRecord } from "@gateway/shared/audit";
import { startReplay } from "@gateway/shared/policy/analysis";
import { actionFields, startClusterSigner } from "../testing/cluster_scene.ts";
import { CONFIG, DISTINCT, post } from "../testing/memory_signer.ts";

const MANIFEST = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"api"}}';
/** Mostly the first value. */
const mostly = <const T>(usual: T, ...others: readonly T[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, fc.constantFrom(...others));
const target = fc.constantFrom(
  "uptime",
  "systemctl restart nginx",
  "systemctl restart nginx",
  "df -h",
  "id; uptime",
  "",
)
  .map((command) => ({ command }));
const action = fc.constantFrom<Record<string, unknown>>(
  actionFields("get pods web/web-1"),
  actionFields("list nodes -/-"),
  actionFields("delete pods web/web-1"),
  actionFields("get pods kube-system/web-1"),
  actionFields("get pods"),
  { ...actionFields("apply deployments.apps web/api"), k8s_manifest: MANIFEST },
  { ...actionFields("apply deployments.apps web/api"), k8s_manifest: MANIFEST, k8s_force_fields: ["a"] },
);
const session = (session_mode: string) => ({ purpose: "session", session_mode });
const request = fc.record({
  what: fc.oneof({ weight: 3, arbitrary: target }, action),
  host: fc.constantFrom("web01", "web01", "audit01", "open01", "db01", "gone"),
  end_user: fc.constantFrom("", "alice"),
  end_user_groups: mostly<readonly string[] | null>(null, [], ["web", "x"], ["db"]),
  how: mostly<object>({}, session("exec"), session("shell"), session("x"), { role: "bastion" }),
  elevation: mostly({}, { sudo: true }, { sudo: true, sudo_user: "db" }),
  more: mostly({}, { pty: true }, { file_transfer: true }),
  mode: fc.constantFrom({}, { approved: true, learn_ttl_seconds: 60 }, { dry_run: true }),
  sender: mostly("control-plane", "broker-1", "broker-2"),
}).map(({ what, host, how, elevation, more, mode, sender, ...rest }) => ({
  sender,
  fields: {
    ...{ host, ...rest, ...how, ...elevation, ...more, ...mode, ...what },
    ...sender === "control-plane" && { on_behalf_of: "broker-1" },
  },
}));

Deno.test("a replay of a log by the config that wrote it judges every decision of the policy, and changes none", async () => {
  const { web01, ...others } = CONFIG.hosts;
  const audited = { ...web01.command_policy, enforcement: "audit" };
  const signer = await startClusterSigner({
    randomBytes: DISTINCT,
    config: {
      ...{ sign_rate_limit_per_min: 1_000_000, reload_callers: ["operator"] },
      callers: {
        "broker-1": { allowed_groups: ["web"], only_via: ["control-plane"] },
        "broker-2": CONFIG.callers["broker-1"],
      },
      hosts: { web01, ...others, audit01: { ...web01, principal: "host:audit01", command_policy: audited } },
    },
    cluster: {
      rules: [
        { verbs: ["get", "apply"], namespaces: ["web"], effect: "allow" },
        { verbs: ["list"], namespaces: ["-"], effect: "allow" },
        { verbs: ["delete"], effect: "require_approval" },
      ],
    },
  });
  for (const host of ["web01", "audit01"]) {
    const grant = post(`/v1/policy/hosts/${host}/grants`, { allow: ["^df -h$"], ttl_seconds: 3600 });
    assert.equal((await signer.send(grant, "operator")).status, 201);
  }
  const outcomes = new Set<string>();
  const requests = fc.sample(request, { numRuns: 1000, seed: 36 });
  for (const { sender, fields } of requests) {
    signer.log.entries.length = 0;
    await signer.sign(fields, sender);
    const { policy, config } = signer.state.current;
    const replay = startReplay({ policy, trustedForwarders: config.trusted_forwarders, krlCallers: [] });
    for (const entry of signer.log.entries) {
      const { body, ext } = encodeRecord(entry, { time: "t" });
      const empty = { host_name: "", command_line: "", command_sha256: "", decision: "" };
      replay.add({ ...empty, ...JSON.parse(`${body}}`), ...JSON.parse(ext || "{}") });
    }
    const { changes, not_judged } = replay.finish();
    assert.deepEqual(changes, [], JSON.stringify(fields));
    const [entry] = signer.log.entries;
    const isOther = /direct requests not allowed/.test(entry?.err ?? "");
    assert.equal(not_judged.length, isOther ? 1 : 0, Deno.inspect([not_judged, fields, entry]));
    // The config alone denies what a grant allowed.
    const isGranted = /^(?:issued|dry_run_allowed)$/.test(entry?.outcome ?? "") &&
      entry?.decision?.includes('"outcome":"denied"') === true;
    outcomes.add(`${entry?.outcome}${isGranted ? " with grant" : ""}`);
  }
  assert.deepEqual([...outcomes].toSorted(), [
    ...["approval-required", "denied", "dry_run_allowed", "dry_run_allowed with grant", "dry_run_denied"],
    ...["issued", "issued with grant"],
  ]);
});
