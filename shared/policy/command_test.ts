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

Deno.test.each(
  [
    { name: "reports the allow rule", policies: [LIST], command: "ps aux", rule: "allow:^ps" },
    { name: "reports the last command's rule", policies: [LIST], command: "ps | head", rule: "allow:^head$" },
    {
      name: "reports no rule on a denylist",
      policies: [{ mode: "denylist", deny: ["rm"] }],
      command: "ps",
      rule: "",
    },
    { name: "matches decoded words", policies: [LIST], command: "'p's aux", rule: "allow:^ps" },
    {
      name: "joins words by one space",
      policies: [{ mode: "allowlist", allow: ["^ps a b$"] }],
      command: "ps  a\tb",
      rule: "allow:^ps a b$",
    },
    {
      name: "gives a quoted blank the same text",
      policies: [{ mode: "allowlist", allow: ["^ps a b$"] }],
      command: "ps 'a b'",
      rule: "allow:^ps a b$",
    },
    {
      name: "drops a duplication",
      policies: [{ mode: "allowlist", allow: ["^ps$"] }],
      command: "ps 2>&1",
      rule: "allow:^ps$",
    },
    {
      name: "matches the raw text without parsing",
      policies: [{ ...LIST, shell_parse: false }],
      command: "ps; rm x",
      rule: "allow:^ps",
    },
    {
      name: "leaves wrappers to the rules without parsing",
      policies: [{ mode: "allowlist", allow: ["^env"], shell_parse: false }],
      command: "env ps",
      rule: "allow:^env",
    },
    {
      name: "ignores the lists of a policy that is off",
      policies: [LIST, { mode: "off", deny: ["ps"] }],
      command: "ps",
      rule: "allow:^ps",
    },
    {
      name: "ignores the allow rules of a policy that is off",
      policies: [{ mode: "denylist", deny: ["x"] }, { mode: "off", allow: ["^id"] }],
      command: "ps",
      rule: "",
    },
    {
      name: "joins allowlists",
      policies: [LIST, { mode: "allowlist", allow: ["^id$"] }],
      command: "id",
      rule: "allow:^id$",
    },
  ] satisfies { name: string; policies: CommandPolicy[]; command: string; rule: string }[],
)(
  "decideCommand() $name",
  ({ policies, command, rule }) => {
    assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: false });
  },
);

Deno.test.each(
  [
    { name: "a command that no rule allows", policies: [LIST], command: "id", rule: "allowlist:no-match" },
    {
      name: "an empty allowlist's every command",
      policies: [{ mode: "allowlist" }],
      command: "id",
      rule: "allowlist:no-match",
    },
    { name: "the second command of a list", policies: [LIST], command: "ps; id", rule: "allowlist:no-match" },
    { name: "the last stage of a pipe", policies: [LIST], command: "ps | id", rule: "allowlist:no-match" },
    {
      name: "by a denylist",
      policies: [{ mode: "denylist", deny: ["x", "^rm"] }],
      command: "rm a",
      rule: "deny:^rm",
    },
    {
      name: "what a denylist names behind &&",
      policies: [{ mode: "denylist", deny: ["^rm"] }],
      command: "ps && rm a",
      rule: "deny:^rm",
    },
    {
      name: "what is allowed and denied",
      policies: [{ ...LIST, deny: ["aux"] }],
      command: "ps aux",
      rule: "deny:aux",
    },
    {
      name: "what another policy allows",
      policies: [LIST, { mode: "denylist", deny: ["aux"] }],
      command: "ps aux",
      rule: "deny:aux",
    },
    {
      name: "by the first member's rule",
      policies: [{ mode: "denylist", deny: ["b"] }, { mode: "denylist", deny: ["a"] }],
      command: "ab",
      rule: "deny:b",
    },
    {
      name: "an invisible match over a pipe",
      policies: [{ mode: "allowlist", allow: ["^ps [|] rm$"] }],
      command: "ps | rm",
      rule: "allowlist:no-match",
    },
    {
      name: "raw text without parsing",
      policies: [{ mode: "denylist", deny: ["rm"], shell_parse: false }],
      command: "ps; rm",
      rule: "deny:rm",
    },
  ] satisfies { name: string; policies: CommandPolicy[]; command: string; rule: string }[],
)(
  "decideCommand() denies $name",
  ({ policies, command, rule }) => {
    assert.deepEqual(decide(policies, command), {
      kind: "denied",
      rule,
      requireApproval: false,
    });
  },
);

Deno.test("decideCommand() denies by structure before any rule", () => {
  assert.deepEqual(decide([{ mode: "allowlist", allow: [""] }], "ps $(id)"), {
    kind: "denied",
    rule: "shell-parse:command substitution",
    requireApproval: false,
  });
});

Deno.test.each(
  [
    {
      name: "off with approval rules",
      policies: [{ require_approval: ["^reboot"] }],
      command: "reboot",
      rule: "require_approval:^reboot",
    },
    {
      name: "an allowlist, over its allow rule",
      policies: [{ ...LIST, require_approval: ["aux"] }],
      command: "ps aux",
      rule: "require_approval:aux",
    },
    {
      name: "a denylist",
      policies: [{ mode: "denylist", deny: ["x"], require_approval: ["b"] }],
      command: "b",
      rule: "require_approval:b",
    },
    {
      name: "the first of several commands",
      policies: [{ require_approval: ["^a", "^b"] }],
      command: "c; b; a",
      rule: "require_approval:^b",
    },
    {
      name: "an earlier command, kept to the end",
      policies: [{ ...LIST, require_approval: ["aux"] }],
      command: "ps aux | head",
      rule: "require_approval:aux",
    },
  ] satisfies { name: string; policies: CommandPolicy[]; command: string; rule: string }[],
)(
  "decideCommand() requires approval: $name",
  ({ policies, command, rule }) => {
    assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: true });
  },
);

Deno.test.each(
  [
    { name: "by deny", policy: { mode: "denylist", deny: ["a"], require_approval: ["a"] }, rule: "deny:a" },
    {
      name: "by no match",
      policy: { mode: "allowlist", require_approval: ["a"] },
      rule: "allowlist:no-match",
    },
  ] satisfies { name: string; policy: CommandPolicy; rule: string }[],
)(
  "decideCommand() keeps the approval flag of a command denied $name",
  ({ policy, rule }) => {
    assert.deepEqual(decide([policy], "a"), { kind: "denied", rule, requireApproval: true });
  },
);

Deno.test.each(
  [
    { name: "on for no member", policies: [], parses: true },
    { name: "on by default", policies: [{}], parses: true },
    { name: "on when explicitly so", policies: [{ shell_parse: true }], parses: true },
    { name: "off when the only member says so", policies: [{ shell_parse: false }], parses: false },
    { name: "on when one member is silent", policies: [{ shell_parse: false }, {}], parses: true },
    {
      name: "off when all members say so",
      policies: [{ shell_parse: false }, { shell_parse: false }],
      parses: false,
    },
  ] satisfies { name: string; policies: CommandPolicy[]; parses: boolean }[],
)(
  "composePolicies() has parsing $name",
  ({ policies, parses }) => {
    assert.equal(composePolicies(policies.map(compile)).parses, parses);
  },
);

Deno.test.each(
  [
    {
      name: "enforces when one restricting member does",
      policies: [{ ...LIST, enforcement: "audit" }, LIST],
      enforcement: "enforce",
      restricts: true,
    },
    {
      name: "audits when all restricting members do",
      policies: [{ ...LIST, enforcement: "audit" }],
      enforcement: "audit",
      restricts: true,
    },
    {
      name: "does not count members that are off",
      policies: [{ ...LIST, enforcement: "audit" }, { mode: "off", deny: ["x"] }],
      enforcement: "audit",
      restricts: true,
    },
    {
      name: "counts a member with approval rules only",
      policies: [{ ...LIST, enforcement: "audit" }, { require_approval: ["x"] }],
      enforcement: "enforce",
      restricts: true,
    },
    {
      name: "restricts nothing when all are off",
      policies: [{ mode: "off", allow: ["x"], deny: ["x"] }],
      enforcement: "enforce",
      restricts: false,
    },
  ] satisfies { name: string; policies: CommandPolicy[]; enforcement: string; restricts: boolean }[],
)(
  "composePolicies() $name",
  ({ policies, enforcement, restricts }) => {
    const set = composePolicies(policies.map(compile));
    assert.equal(set.enforcement, enforcement);
    assert.equal(set.restricts, restricts);
  },
);

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
