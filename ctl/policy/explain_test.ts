import assert from "node:assert/strict";
import type { CommandPolicy } from "@gateway/shared/policy";
import { listContributions } from "./explain.ts";

const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "" };

Deno.test("listContributions() names each policy once, by what brings it first", () => {
  const library = {
    command_policies: { a: {}, b: { mode: "off" }, c: { mode: "denylist", deny: ["x"] } },
    group_command_policies: { _default: ["c"], web: ["a", "c"], db: ["b", "a"], other: ["b"] },
  } as const;
  assert.deepEqual(listContributions(library, { ...HOST, groups: ["db", "web", "none"] }), [
    { name: "c", via: "_default", label: "denylist(deny:1)" },
    { name: "b", via: "db", label: "off" },
    { name: "a", via: "db", label: "off" },
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
])("listContributions() labels a host's own policy $label", ({ policy, label }) => {
  const empty = { command_policies: {}, group_command_policies: {} };
  assert.deepEqual(
    listContributions(empty, { ...HOST, command_policy: policy }),
    label === undefined ? [] : [{ name: "<inline>", via: "host", label }],
  );
});
