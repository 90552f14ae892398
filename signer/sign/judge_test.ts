import assert from "node:assert/strict";
import type { AuditEntry } from "@gateway/shared/audit";
import { stringifyJson } from "@gateway/shared/json";
import { sampleCluster } from "@gateway/shared/testing";
import { actionFields } from "../testing/cluster_scene.ts";
import { startLeaseSigner } from "../testing/lease_scene.ts";
import { CONFIG, post, snapshotOf } from "../testing/memory_signer.ts";

const { "broker-1": broker, "approver-broker": approver } = CONFIG.callers;
const { web01 } = CONFIG.hosts;
const FORWARDED = { on_behalf_of: "broker-1", end_user: "alice" };
const RESTART = { command: "systemctl restart nginx", approved: true };
const ANYBODY = { callers: { ...CONFIG.callers, _default: { allowed_groups: ["web"] } } };
const callers = (change: object) => ({
  callers: { ...CONFIG.callers, "broker-1": { ...broker, ...change } },
});
const host = (change: object) => ({ hosts: { ...CONFIG.hosts, web01: { ...web01, ...change } } });
const rules = (change: object) => host({ command_policy: { ...web01.command_policy, ...change } });
const cluster = (change: object) => ({
  kubernetes: { clusters: { prod: sampleCluster({ groups: ["web"], ...change }) } },
});

interface Gate {
  readonly gate: string;
  /** The peer; broker-1 by default. */
  readonly cn?: string;
  /** A request that the gate allows by the config at the start. */
  readonly fields?: Record<string, unknown>;
  /** The config by which the gate denies the request. */
  readonly change?: Record<string, unknown>;
  readonly freeze?: { readonly kind: string; readonly value: string };
  readonly detail: RegExp;
  /** What the caller is told if the gate denies before anything is signed. */
  readonly early?: RegExp;
}

const COMMON: readonly Gate[] = [
  {
    gate: "the forwarder",
    cn: "control-plane",
    fields: FORWARDED,
    change: { trusted_forwarders: [] },
    detail: /^on_behalf_of not allowed for this caller$/,
  },
  {
    gate: "a freeze of the caller",
    freeze: { kind: "caller", value: "broker-1" },
    detail: /^subject is frozen$/,
  },
  {
    gate: "a freeze of the end user",
    fields: { end_user: "alice" },
    freeze: { kind: "end_user", value: "alice" },
    detail: /^subject is frozen$/,
  },
  {
    gate: "a freeze of the forwarder",
    cn: "control-plane",
    fields: FORWARDED,
    freeze: { kind: "caller", value: "control-plane" },
    detail: /^subject is frozen$/,
  },
  {
    gate: "require_verified_end_user",
    change: callers({ require_verified_end_user: true }),
    detail: /^its end users have to be verified now$/,
    early: /^end-user identity could not be verified$/,
  },
  {
    gate: "krl_callers",
    cn: "reader",
    change: { ...ANYBODY, krl_callers: { reader: ["web01"] }, envelope_key: "envelope.key" },
    detail: /^callers in krl_callers may fetch the revocation list only$/,
  },
  {
    gate: "only_via",
    change: callers({ only_via: ["control-plane"] }),
    detail: /^direct requests not allowed for this caller$/,
  },
];

const GATES: readonly (Gate & { readonly target: string })[] = [
  ...COMMON.map((gate) => ({ ...gate, target: "a host" })),
  ...COMMON.map((gate) => ({
    ...gate,
    target: "a cluster",
    fields: { ...gate.fields, ...actionFields("get pods web/web-1") },
  })),
  ...[
    {
      gate: "the caller's groups",
      change: callers({ allowed_groups: ["db"] }),
      detail: /^host not authorised$/,
    },
    { gate: "the list of hosts", change: { hosts: {} }, detail: /^host not authorised$/ },
    {
      gate: "allowed_callers",
      change: host({ allowed_callers: ["broker-2"] }),
      detail: /^caller "broker-1" not authorised/,
    },
    { gate: "the command policy", change: rules({ allow: ["^id$"] }), detail: /allowlist/ },
    {
      gate: "require_approval",
      change: rules({ require_approval: ["^uptime$"] }),
      detail: /^it needs an approval now$/,
      early: /^$/,
    },
    {
      gate: "self_approve",
      cn: "approver-broker",
      fields: RESTART,
      change: { callers: { ...CONFIG.callers, "approver-broker": { ...approver, self_approve: false } } },
      detail: /^it needs an approval now$/,
      early: /^$/,
    },
  ].map((gate) => ({ ...gate, target: "a host" })),
  ...[
    { gate: "the caller's groups", change: cluster({ groups: ["db"] }), detail: /^cluster not authorised$/ },
    {
      gate: "the list of clusters",
      change: { kubernetes: { clusters: {} } },
      detail: /^unknown cluster$/,
    },
    {
      gate: "allowed_callers",
      change: cluster({ allowed_callers: ["broker-2"] }),
      detail: /^caller "broker-1" not authorised/,
    },
    {
      gate: "the rules",
      change: cluster({ rules: [{ verbs: ["list"], namespaces: ["web"], effect: "allow" }] }),
      detail: /^not allowed by cluster policy$/,
    },
  ].map((gate) => ({ ...gate, target: "a cluster", fields: actionFields("get pods web/web-1") })),
];

const start = () => startLeaseSigner({ config: ANYBODY });
type Signer = Awaited<ReturnType<typeof start>>;

async function close({ send, setNext, state }: Signer, { change, freeze }: Gate): Promise<void> {
  if (freeze !== undefined) {
    const answer = await send(
      post("/v1/freeze", stringifyJson({ ...freeze, allow_volatile: true })),
      "operator",
    );
    assert.equal(answer.status, 200);
  }
  if (change === undefined) return;
  setNext(() => Promise.resolve(snapshotOf({ ...CONFIG, ...cluster({}), ...change })));
  await state.reload("operator");
}

const hasLeft = ({ body }: Awaited<ReturnType<Signer["sign"]>>) =>
  body.certificate !== undefined || body["k8s_token"] !== undefined;

Deno.test.each([...GATES])("judge() applies $gate of $target before it signs", async (gate) => {
  const signer = await start();
  assert.ok(hasLeft(await signer.sign(gate.fields ?? {}, gate.cn)), "the gate is open");
  await close(signer, gate);
  const answer = await signer.sign(gate.fields ?? {}, gate.cn);
  assert.match(answer.body.detail ?? "", gate.early ?? gate.detail);
  assert.equal(hasLeft(answer), false);
});

Deno.test.each([...GATES])(
  "judge() applies $gate of $target again before the answer leaves",
  async (gate) => {
    const signer = await start();
    const append = signer.log.append.bind(signer.log);
    signer.log.append = async (entry: AuditEntry) => {
      await append(entry);
      if (entry.outcome === "issued") await close(signer, gate);
    };
    const answer = await signer.sign(gate.fields ?? {}, gate.cn);
    assert.match(answer.body.detail ?? "", gate.detail);
    assert.equal(hasLeft(answer), false);
    const { serial, outcome } = signer.log.entries.at(-1) ?? {};
    assert.deepEqual(
      [outcome, serial],
      [gate.freeze === undefined ? "denied" : "frozen_denied", 0xfefefefefefefefen],
    );
    await signer.leases.sweep();
    assert.ok(
      signer.krl.listed.has({ serial: serial ?? 0n }) || signer.secrets.uids.size === 0,
      "it is revoked",
    );
  },
);
