import assert from "node:assert/strict";
import { compilePolicy } from "@gateway/shared/policy";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { Recommender, type SeenCommand } from "./recommend.ts";

const HOST = { user: "deploy", host_key: SAMPLE_HOST_KEY };
const compiled = compilePolicy({
  hosts: {
    web01: {
      ...HOST,
      addr: "10.0.0.1:22",
      principal: "host:web01",
      command_policy: { mode: "allowlist", allow: ["^uptime$", "^never$", "^up"], deny: ["^rm "] },
    },
    free: { ...HOST, addr: "10.0.0.2:22", principal: "host:free" },
    twin: { ...HOST, addr: "10.0.0.2:22", principal: "host:twin" },
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
  { name: "nothing for what is allowed, but rules that nothing matched", seen: [{}], found: DEAD },
  {
    name: "to allow what ran, quoted, as often as it ran",
    seen: [
      { command: "df -h /a.b" },
      { command: "df -h /a.b", caller: "b", host: "10.0.0.1:22" },
      {},
    ],
    found: ["promote web01 ^df -h /a\\.b$ 2", ...DEAD],
  },
  {
    name: "what was refused, of a record of the signer",
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
    name: "each command of a line that is not allowed yet",
    seen: [{ command: "uptime; id | wc" }],
    found: ["promote web01 ^id$ 1", "promote web01 ^wc$ 1", ...DEAD],
  },
  {
    name: "what was refused as it was asked",
    seen: [{ outcome: "denied", command: "id" }, {}],
    found: ["friction web01 id 1", ...DEAD],
  },
  {
    name: "what the signer refused a broker, and no other failure",
    seen: [
      { outcome: "error", command: "id", err: 'signing cert for "web01": signing rejected (403): no' },
      { outcome: "error", command: "w", err: "connection refused" },
      {},
    ],
    found: ["friction web01 id 1", ...DEAD],
  },
  {
    name: "no pattern for what a rule denies, or no parser reads",
    seen: [{ command: "rm -r x" }, { command: "echo $(id)" }, {}],
    found: ["dead-rule web01 ^never$ 0"],
  },
  {
    name: "nothing of a host without rules, or of which nobody knows which it was",
    seen: [{ host: "free" }, { host: "10.0.0.2:22" }],
    found: [],
  },
  {
    name: "nothing for an approval that was denied",
    seen: [{ outcome: "approval-denied", command: "id" }],
    found: [],
  },
  { name: "nothing for what is masked", seen: [{ command: "mysql -p[REDACTED:password]" }], found: [] },
])("recommend gives $name", ({ seen, found }) => assert.deepEqual(recommend(1, ...seen).found, found));

Deno.test("recommend leaves out what is rarer than asked, and counts what it passed over", () => {
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
