import assert from "node:assert/strict";
import {
  compileCommandPolicy,
  type CompiledCommandPolicy,
  composePolicies,
  decideCommand,
} from "./command.ts";
import type { CommandPolicy } from "./model.ts";

function compile(policy: CommandPolicy): CompiledCommandPolicy {
  const problems: string[] = [];
  const compiled = compileCommandPolicy(policy, "p", problems);
  assert.deepEqual(problems, []);
  return compiled;
}

function decide(policies: readonly CommandPolicy[], command: string) {
  return decideCommand(composePolicies(policies.map(compile)), command);
}

const LIST: CommandPolicy = { mode: "allowlist", allow: ["^ps", "^head$"] };

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["reports the allow rule", [LIST], "ps aux", "allow:^ps"],
  ["reports the last command's rule", [LIST], "ps | head", "allow:^head$"],
  ["reports no rule on a denylist", [{ mode: "denylist", deny: ["rm"] }], "ps", ""],
  ["matches decoded words", [LIST], "'p's aux", "allow:^ps"],
  ["joins words by one space", [{ mode: "allowlist", allow: ["^ps a b$"] }], "ps  a\tb", "allow:^ps a b$"],
  [
    "gives a quoted blank the same text",
    [{ mode: "allowlist", allow: ["^ps a b$"] }],
    "ps 'a b'",
    "allow:^ps a b$",
  ],
  ["drops a duplication", [{ mode: "allowlist", allow: ["^ps$"] }], "ps 2>&1", "allow:^ps$"],
  ["matches the raw text without parsing", [{ ...LIST, shell_parse: false }], "ps; rm x", "allow:^ps"],
  [
    "leaves wrappers to the rules without parsing",
    [{ mode: "allowlist", allow: ["^env"], shell_parse: false }],
    "env ps",
    "allow:^env",
  ],
  ["ignores the lists of a policy that is off", [LIST, { mode: "off", deny: ["ps"] }], "ps", "allow:^ps"],
  [
    "ignores the allow rules of a policy that is off",
    [{ mode: "denylist", deny: ["x"] }, { mode: "off", allow: ["^id"] }],
    "ps",
    "",
  ],
  ["joins allowlists", [LIST, { mode: "allowlist", allow: ["^id$"] }], "id", "allow:^id$"],
])("decideCommand() %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: false });
});

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["a command that no rule allows", [LIST], "id", "allowlist:no-match"],
  ["an empty allowlist's every command", [{ mode: "allowlist" }], "id", "allowlist:no-match"],
  ["the second command of a list", [LIST], "ps; id", "allowlist:no-match"],
  ["the last stage of a pipe", [LIST], "ps | id", "allowlist:no-match"],
  ["by a denylist", [{ mode: "denylist", deny: ["x", "^rm"] }], "rm a", "deny:^rm"],
  ["what a denylist names behind &&", [{ mode: "denylist", deny: ["^rm"] }], "ps && rm a", "deny:^rm"],
  ["what is allowed and denied", [{ ...LIST, deny: ["aux"] }], "ps aux", "deny:aux"],
  ["what another policy allows", [LIST, { mode: "denylist", deny: ["aux"] }], "ps aux", "deny:aux"],
  [
    "by the first member's rule",
    [{ mode: "denylist", deny: ["b"] }, { mode: "denylist", deny: ["a"] }],
    "ab",
    "deny:b",
  ],
  [
    "an invisible match over a pipe",
    [{ mode: "allowlist", allow: ["^ps [|] rm$"] }],
    "ps | rm",
    "allowlist:no-match",
  ],
  ["raw text without parsing", [{ mode: "denylist", deny: ["rm"], shell_parse: false }], "ps; rm", "deny:rm"],
])("decideCommand() denies %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), {
    kind: "denied",
    rule,
    requireApproval: false,
  });
});

Deno.test("decideCommand() denies by structure before any rule", () => {
  assert.deepEqual(decide([{ mode: "allowlist", allow: [""] }], "ps $(id)"), {
    kind: "denied",
    rule: "shell-parse:command substitution",
    requireApproval: false,
  });
});

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["off with approval rules", [{ require_approval: ["^reboot"] }], "reboot", "require_approval:^reboot"],
  [
    "an allowlist, over its allow rule",
    [{ ...LIST, require_approval: ["aux"] }],
    "ps aux",
    "require_approval:aux",
  ],
  ["a denylist", [{ mode: "denylist", deny: ["x"], require_approval: ["b"] }], "b", "require_approval:b"],
  ["the first of several commands", [{ require_approval: ["^a", "^b"] }], "c; b; a", "require_approval:^b"],
  [
    "an earlier command, kept to the end",
    [{ ...LIST, require_approval: ["aux"] }],
    "ps aux | head",
    "require_approval:aux",
  ],
])("decideCommand() requires approval: %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: true });
});

Deno.test.each<[name: string, policy: CommandPolicy, rule: string]>([
  ["by deny", { mode: "denylist", deny: ["a"], require_approval: ["a"] }, "deny:a"],
  ["by no match", { mode: "allowlist", require_approval: ["a"] }, "allowlist:no-match"],
])("decideCommand() keeps the approval flag of a command denied %s", (_name, policy, rule) => {
  assert.deepEqual(decide([policy], "a"), { kind: "denied", rule, requireApproval: true });
});

Deno.test.each<[name: string, policies: CommandPolicy[], parses: boolean]>([
  ["on for no member", [], true],
  ["on by default", [{}], true],
  ["on when explicitly so", [{ shell_parse: true }], true],
  ["off when the only member says so", [{ shell_parse: false }], false],
  ["on when one member is silent", [{ shell_parse: false }, {}], true],
  ["off when all members say so", [{ shell_parse: false }, { shell_parse: false }], false],
])("composePolicies() has parsing %s", (_name, policies, parses) => {
  assert.equal(composePolicies(policies.map(compile)).parses, parses);
});

Deno.test.each<[name: string, policies: CommandPolicy[], enforcement: string, restricts: boolean]>([
  ["enforces when one restricting member does", [{ ...LIST, enforcement: "audit" }, LIST], "enforce", true],
  ["audits when all restricting members do", [{ ...LIST, enforcement: "audit" }], "audit", true],
  [
    "does not count members that are off",
    [{ ...LIST, enforcement: "audit" }, { mode: "off", deny: ["x"] }],
    "audit",
    true,
  ],
  [
    "counts a member with approval rules only",
    [{ ...LIST, enforcement: "audit" }, { require_approval: ["x"] }],
    "enforce",
    true,
  ],
  ["restricts nothing when all are off", [{ mode: "off", allow: ["x"], deny: ["x"] }], "enforce", false],
])("composePolicies() %s", (_name, policies, enforcement, restricts) => {
  const set = composePolicies(policies.map(compile));
  assert.equal(set.enforcement, enforcement);
  assert.equal(set.restricts, restricts);
});

Deno.test("decideCommand() tests equal simple commands once, and reports the last one's rule", () => {
  const tested: string[] = [];
  const pattern = (source: string, text: string) => ({
    source,
    test: (candidate: string) => tested.push(candidate) > 0 && candidate === text,
  });
  const set = composePolicies([{ ...compile(LIST), allow: [pattern("a", "a"), pattern("b", "b")] }]);
  const verdict = decideCommand(set, "a | b; a && b | a");
  assert.deepEqual(tested, ["a", "b", "b"]);
  assert.deepEqual(verdict, { kind: "allowed", rule: "allow:a", requireApproval: false });
});

Deno.test("decideCommand() denies a line of more than 64 simple commands", () => {
  assert.equal(decide([LIST], "ps;".repeat(64)).kind, "allowed");
  const reason = "more than 64 simple commands";
  assert.deepEqual(decide([LIST], "ps;".repeat(64) + "ps"), {
    ...{ kind: "denied", rule: `shell-parse:${reason}`, requireApproval: false },
  });
});
