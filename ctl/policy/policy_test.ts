import assert from "node:assert/strict";
import { readAction } from "@gateway/shared/policy/analysis";
import { type CommandPolicy, compilePolicy } from "@gateway/shared/policy";
import { listContributions } from "./explain.ts";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { Recommender, type SeenCommand } from "./recommend.ts";
import { diffHosts } from "./versions.ts";

Deno.test.each<{ text: string; read: readonly string[] }>([
  { text: "get deployments.apps prod/api", read: ["get", "deployments", "apps", "prod", "api"] },
  {
    text: " get  ingresses.networking.k8s.io prod/a.b ",
    read: ["get", "ingresses", "networking.k8s.io", "prod", "a.b"],
  },
  { text: "list pods prod", read: ["list", "pods", "", "prod", ""] },
  { text: "list pods prod/-", read: ["list", "pods", "", "prod", ""] },
  { text: "list pods", read: ["list", "pods", "", "", ""] },
  { text: "get nodes -/n1", read: ["get", "nodes", "", "", "n1"] },
])("readAction() reads $text", ({ text, read }) => {
  const [verb, resource, group, namespace, name] = read;
  assert.deepEqual(readAction(text), { verb, resource, group, namespace, name });
});

Deno.test.each(["", "get", "get pods prod web-1", "get pods prod/a/b"].map((text) => ({ text })))(
  "readAction() rejects $text",
  ({ text }) => {
    assert.throws(() => readAction(text), { message: /Cannot read action/ });
  },
);

const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "" };

Deno.test("listContributions() lists each policy once, with the groups that add it", () => {
  const library = {
    command_policies: { a: {}, b: { mode: "off" }, c: { mode: "denylist", deny: ["x"] } },
    group_command_policies: { _default: ["c"], web: ["a", "c"], db: ["b", "a"], other: ["b"] },
  } as const;
  assert.deepEqual(listContributions(library, { ...HOST, groups: ["db", "web", "none"] }), [
    { name: "c", sources: ["_default", "web"], label: "denylist(deny:1)" },
    { name: "b", sources: ["db"], label: "off" },
    { name: "a", sources: ["db", "web"], label: "off" },
  ]);
});

Deno.test.each<{ policy: CommandPolicy; label: string | undefined }>([
  { policy: {}, label: undefined },
  { policy: { mode: "off", allow: ["x"] }, label: undefined },
  { policy: { require_approval: ["x"] }, label: "approval:1" },
  { policy: { mode: "allowlist" }, label: "allowlist(allow:0)" },
  { policy: { mode: "allowlist", allow: ["x"], deny: ["y"] }, label: "allowlist(allow:1) deny:1" },
  {
    policy: {
      mode: "denylist",
      deny: ["x"],
      require_approval: ["y"],
      shell_parse: false,
      enforcement: "audit",
    },
    label: "denylist(deny:1) approval:1 shell_parse:off audit",
  },
  { policy: { mode: "denylist", shell_parse: true, enforcement: "enforce" }, label: "denylist(deny:0)" },
])("listContributions() labels the inline policy of a host $label", ({ policy, label }) => {
  const empty = { command_policies: {}, group_command_policies: {} };
  assert.deepEqual(
    listContributions(empty, { ...HOST, command_policy: policy }),
    label === undefined ? [] : [{ name: "<inline>", sources: ["host"], label }],
  );
});

const HOST_RECOMMEND = { user: "deploy", host_key: SAMPLE_HOST_KEY };
const compiled = compilePolicy({
  hosts: {
    web01: {
      ...HOST_RECOMMEND,
      addr: "10.0.0.1:22",
      principal: "host:web01",
      command_policy: { mode: "allowlist", allow: ["^uptime$", "^never$", "^up"], deny: ["^rm "] },
    },
    free: { ...HOST_RECOMMEND, addr: "10.0.0.2:22", principal: "host:free" },
    twin: { ...HOST_RECOMMEND, addr: "10.0.0.2:22", principal: "host:twin" },
  },
  callers: {},
  command_policies: {},
  group_command_policies: {},
  max_ttl_seconds: 0,
});

function recommend(minCount: number, ...seen: Partial<SeenCommand>[]) {
  assert.ok(compiled.kind === "ok");
  const recommender = new Recommender(compiled.policy);
  const record = {
    time: "2026-01-01T00:00:00Z",
    caller: "a",
    host: "web01",
    outcome: "executed",
    command: "uptime",
  };
  for (const one of seen) recommender.add({ ...record, ...one });
  const { suggestions, ...rest } = recommender.finish({ minCount });
  return {
    ...rest,
    found: suggestions.map(({ type, host, pattern, count }) => `${type} ${host} ${pattern} ${count}`),
  };
}

const DEAD = ["dead-rule web01 ^never$ 0", "dead-rule web01 ^rm  0"];

Deno.test.each<{ name: string; seen: Partial<SeenCommand>[]; found: string[] }>([
  { name: "only unmatched rules if all commands are allowed", seen: [{}], found: DEAD },
  {
    name: "a pattern for an executed command, quoted, with its count",
    seen: [
      { command: "df -h /a.b" },
      { command: "df -h /a.b", caller: "b", host: "10.0.0.1:22" },
      {},
    ],
    found: ["promote web01 ^df -h /a\\.b$ 2", ...DEAD],
  },
  {
    name: "friction for a denial in a record of the signer",
    seen: [{
      outcome: "denied",
      host: "10.0.0.2:22",
      host_name: "web01",
      command: "role=target purpose=oneshot",
      command_line: "id",
    }],
    found: ["friction web01 id 1", "dead-rule web01 ^uptime$ 0", DEAD[0]!, "dead-rule web01 ^up 0", DEAD[1]!],
  },
  {
    name: "a pattern for each command of a line that is not allowed yet",
    seen: [{ command: "uptime; id | wc" }],
    found: ["promote web01 ^id$ 1", "promote web01 ^wc$ 1", ...DEAD],
  },
  {
    name: "friction for a denied command",
    seen: [{ outcome: "denied", command: "id" }, {}],
    found: ["friction web01 id 1", ...DEAD],
  },
  {
    name: "friction for a denial by the signer and for no other failure",
    seen: [
      { outcome: "error", command: "id", err: 'signing cert for "web01": signing rejected (403): no' },
      { outcome: "error", command: "w", err: "connection refused" },
      {},
    ],
    found: ["friction web01 id 1", ...DEAD],
  },
  {
    name: "no pattern for commands that are denied or cannot be parsed",
    seen: [{ command: "rm -r x" }, { command: "echo $(id)" }, {}],
    found: ["dead-rule web01 ^never$ 0"],
  },
  {
    name: "nothing for a host without rules or with an ambiguous address",
    seen: [{ host: "free" }, { host: "10.0.0.2:22" }],
    found: [],
  },
  {
    name: "nothing for an approval that was denied",
    seen: [{ outcome: "approval-denied", command: "id" }],
    found: [],
  },
  { name: "no pattern for a masked command", seen: [{ command: "mysql -p[REDACTED:password]" }], found: [] },
])("recommend returns $name", ({ seen, found }) => assert.deepEqual(recommend(1, ...seen).found, found));

Deno.test("recommend omits commands below the minimum count and counts skipped records", () => {
  const seen = [{ command: "id" }, { command: "id" }, { command: "w" }, { host: "gone" }, {
    command: "x ...[TRUNCATED]",
  }];
  assert.deepEqual(recommend(2, ...seen), {
    looked: 3,
    passedOver: 2,
    found: [
      "promote web01 ^id$ 2",
      "dead-rule web01 ^uptime$ 0",
      "dead-rule web01 ^never$ 0",
      "dead-rule web01 ^up 0",
      "dead-rule web01 ^rm  0",
    ],
  });
});

Deno.test.each<{
  name: string;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  lines: readonly string[];
}>([
  {
    name: "no change if only the order of keys differs",
    before: { a: { x: 1, y: [2] } },
    after: { a: { y: [2], x: 1 } },
    lines: [],
  },
  {
    name: "an added, a removed and a changed host",
    before: { gone: 1, same: 1, web: { addr: "a", user: "u" } },
    after: { web: { addr: "b", user: "u" }, new: 2, same: 1 },
    lines: [
      ...["--- hosts.gone", "+++ hosts.gone", "@@ -1,1 +1,1 @@", "-1", "+"],
      ...["--- hosts.new", "+++ hosts.new", "@@ -1,1 +1,1 @@", "-", "+2"],
      ...["--- hosts.web", "+++ hosts.web", "@@ -1,4 +1,4 @@", " {", '-  "addr": "a",', '+  "addr": "b",'],
      ...['   "user": "u"', " }"],
    ],
  },
])("diffHosts() shows $name", ({ before, after, lines }) => {
  assert.deepEqual(diffHosts(before, after), lines);
});
