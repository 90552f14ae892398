import assert from "node:assert/strict";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { runInTerminal, SIGNER_KEYS, withConfig, words } from "./ctl_fixture.ts";

const HOST = `"addr": "10.0.0.1:22", "user": "deploy", "host_key": "${SAMPLE_HOST_KEY}", "groups": ["web"]`;
const CONFIG = `{
  ${JSON.stringify(SIGNER_KEYS).slice(1, -1)},
  "command_policies": {
    "base": { "mode": "denylist", "deny": ["^rm "] },
    "nginx": {
      "mode": "allowlist", // kept
      "allow": ["^uptime$"]
    },
    "web01": { "mode": "off" },
    "risky": { "mode": "allowlist", "allow": ["^tar "] }
  },
  "group_command_policies": { "_default": ["base"], "web": ["nginx"] },
  "hosts": { "web01": { ${HOST}, "principal": "host:web01" } }
}
`;
const ALLOW_ID = `sed -i 's/"^uptime$"/&, "^id$"/' "$1"`;

interface Row {
  readonly args: string;
  /** The editor: a shell script that gets the document, in the directory of the config. */
  readonly script: string;
  /** The typed key, and a change of the config before it; absent: no terminal. */
  readonly key?: string;
  /** The content of `policy_tests`. */
  readonly tests?: object;
}

/** Runs `policy edit` with an editor. `kept` is the document that stays after an error. */
async function edit({ args, script, key, tests }: Row) {
  await using config = await withConfig(CONFIG);
  const editor = `${config.folder}/vi`;
  await Deno.writeTextFile(editor, `#!/bin/sh\ncd ${config.folder}\n${script}\n`, { mode: 0o755 });
  if (tests !== undefined) {
    const path = `${config.folder}/policy_tests.jsonc`;
    await Deno.writeTextFile(path, JSON.stringify(tests));
    await Deno.writeTextFile(config.path, (await config.read()).replace("{", `{ "policy_tests": "${path}",`));
  }
  async function* type() {
    const [answer = "", from = "", to = ""] = (key ?? "").split(" -> ");
    if (from !== "") await Deno.writeTextFile(config.path, (await config.read()).replace(from, to));
    yield answer;
  }
  const variables = { EDITOR: `${editor}  `, VISUAL: "" };
  const terminal = { workingFolder: config.folder, variables, ...key !== undefined && { keys: type } };
  const ran = await runInTerminal(terminal, ...words(`policy edit ${args}`));
  const draft = /\/\S+\/policy\.jsonc$/m.exec(ran.err)?.[0] ?? "/none";
  const kept = await Deno.readTextFile(draft).catch(() => "");
  if (kept !== "") await Deno.remove(draft.slice(0, draft.lastIndexOf("/")), { recursive: true });
  return { ...ran, text: await config.read(), kept };
}

Deno.test.each<
  Row & { name: string; out: RegExp; err?: RegExp; change?: readonly [from: string, to: string] }
>([
  {
    name: "changes a command policy, keeps its comments, and shows findings and changes of access",
    ...{ args: "--group web --yes", script: `sed -i 's/"^uptime$"/&, "^tar "/' "$1"` },
    out: /^group "web" edited\n[^]*allows: {2}tar [^]*\+ host web01: denied becomes allowed\n/,
    change: [`["^uptime$"]`, `["^uptime$", "^tar "]`],
  },
  {
    name: "adds a host's own policy after a confirmation",
    args: "--host web01",
    script: `sed -i 's/"command_policy": {}/"command_policy": { "require_approval": ["^uptime"] }/' "$1"`,
    key: "y",
    out: /^host "web01" edited\nNot yet active/,
    err:
      /^- host web01: allowed becomes allowed after approval\n[^]*\nYour text: .*\nApply to host "web01"\? \[y\/N\] yes\n$/,
    change: [
      `"principal": "host:web01" }`,
      `"principal": "host:web01", "command_policy": { "require_approval": ["^uptime"] } }`,
    ],
  },
  {
    name: "adds a new command policy to a group",
    args: "--group web --yes",
    script: `sed -i 's/"web": \\["nginx"\\]/"web": ["nginx", "new"]/
s/"nginx": {/"new": { "mode": "allowlist", "allow": ["^id$"] },\\n&/' "$1"`,
    out: /^group "web" edited\n\+ host web01: denied becomes allowed\n.* id {3}/,
    change: [
      `"allow": ["^tar "] }\n  },\n  "group_command_policies": { "_default": ["base"], "web": ["nginx"] }`,
      `"allow": ["^tar "] },\n    "new": { "mode": "allowlist", "allow": ["^id$"] }\n  },\n` +
      `  "group_command_policies": { "_default": ["base"], "web": ["nginx", "new"] }`,
    ],
  },
  {
    name: "shows the findings of a command policy that no host used before",
    args: "--group web --yes",
    script: `sed -i 's/"web": \\["nginx"\\]/"web": ["nginx", "risky"]/' "$1"`,
    out: /^group "web" edited\ncommand_policies\.risky\.allow\[0\] "\^tar ": /,
    change: [`"web": ["nginx"]`, `"web": ["nginx", "risky"]`],
  },
  {
    name: "writes nothing with --dry-run",
    args: "--group web --dry-run",
    script: ALLOW_ID,
    out: /^--- [^]*\+.*id[^]*nothing was written/,
  },
  {
    name: "writes nothing without a change",
    args: "--group web --yes",
    script: ":",
    out: /^no change of group "web"\n$/,
  },
  {
    name: "writes nothing if the document is empty",
    args: "--group web",
    key: "y",
    script: `: > "$1"`,
    out: /^no change/,
  },
  {
    name: "keeps another change of the config that the document does not show",
    ...{
      args: "--group web",
      key: 'y -> "mode": "off" -> "mode": "denylist"',
      script: ALLOW_ID,
      out: /^group "web" edited/,
    },
    change: [
      `"^uptime$"]\n    },\n    "web01": { "mode": "off" }`,
      `"^uptime$", "^id$"]\n    },\n    "web01": { "mode": "denylist" }`,
    ],
  },
  {
    name: "opens an invalid document again, with the problem as a comment, until it is valid",
    args: "--group web",
    script:
      `grep '^// error: .*nginx.allow.1.' "$1" >> problems && sed -i 's/"(/"^id$/' "$1" || sed -i 's/"^uptime$"/&, "("/' "$1"`,
    ...{ key: "y", out: /^group "web" edited/ },
    change: [`["^uptime$"]`, `["^uptime$", "^id$"]`],
  },
  {
    name: "shows the other policies as comments, and keeps those of the rules",
    args: "--group web",
    script: ["//   base: {", '"mode": "denylist",', "// kept", '// group "web". Hosts: web01']
      .map((line) => `grep -qF '${line}' "$1"`).join(" && "),
    ...{ key: "y", out: /^no change/ },
  },
])("policy edit $name", async ({ out, err = /^/, change: [from, to] = ["", ""], ...row }) => {
  const { exit, text, ...ran } = await edit(row);
  assert.equal(text, CONFIG.replace(from, () => to));
  assert.match(ran.out, out);
  assert.match(ran.err, err);
  assert.deepEqual([exit, ran.kept], [0, ""]);
});

Deno.test.each<Row & { name: string; err: RegExp; exit?: number; kept?: RegExp }>([
  {
    name: "an unknown group",
    args: "--group nginx",
    script: ":",
    key: "y",
    err: /Cannot edit group "nginx": no host and no group_command_policies has this name/,
  },
  { name: "an unknown host", args: "--host gone", script: ":", key: "y", err: /Cannot find host "gone"/ },
  {
    name: "a name with control characters",
    args: "--group a\x1b[2J",
    script: ":",
    key: "y",
    err: /"a\\x1b\[2J"/,
  },
  {
    name: "a host and a group",
    args: "--host web01 --group web",
    script: ":",
    key: "y",
    exit: 2,
    err: /Pass either --host or --group/,
  },
  {
    name: "no terminal",
    args: "--group web",
    script: ALLOW_ID,
    exit: 2,
    err: /^error: Cannot ask .*\nfix: pass --dry-run, then --yes\n$/,
  },
  {
    name: "another answer than y",
    args: "--group web",
    script: ALLOW_ID,
    key: "\r",
    err: /was not confirmed\n/,
    kept: /\^id\$/,
  },
  {
    name: "an editor that fails",
    args: "--group web --yes",
    script: "exit 3",
    err: /exited with code 3; nothing was written/,
  },
  {
    name: "an invalid pattern",
    args: "--group web --yes",
    script: `sed -i 's/"^uptime/"(/' "$1"`,
    err: /command_policies\.nginx\.allow\[0\].*\nfix: broker-ctl policy edit --group web; your/,
    kept: /"\(\$"/,
  },
  {
    name: "an unchanged document with a problem",
    args: "--group web",
    key: "y",
    script: `sed -i 's/"^uptime/"(/' "$1"`,
    err: /allow\[0\]/,
    kept: /^\/\/ error: .*\n\/\/ group/,
  },
  {
    name: "a policy that fails its tests",
    args: "--group web --yes",
    script: `sed -i 's/uptime/id/' "$1"`,
    tests: { cases: [{ host: "web01", command: "uptime", expect: "allow" }] },
    err: /1 of 1 cases of "[^"]+policy_tests\.jsonc" fail/,
    kept: /\^id/,
  },
  {
    name: "an escape sequence",
    args: "--group web --yes",
    script: `printf '// \\033[2J' >> "$1"`,
    err: /invisible character in line \d+: .*\\x1b\[2J/,
    kept: /\[2J/,
  },
  {
    name: "a key outside the policy",
    args: "--host web01 --yes",
    script: `sed -i 's/"command_policy"/"allow_sudo": true, &/' "$1"`,
    err: /unknown key "hosts\.web01\.allow_sudo"/,
    kept: /sudo/,
  },
  {
    name: "a policy that it did not show",
    args: "--group web --yes",
    script: `sed -i 's/"nginx": /"base": {}, &/' "$1"`,
    err: /must contain .*nginx, .*web, and contains .*base, .*nginx/,
    kept: /base/,
  },
  {
    name: "a missing policy",
    args: "--group web --yes",
    script: `sed -i 's/"nginx"/"other"/' "$1"`,
    err: /must contain .*nginx/,
    kept: /other/,
  },
  {
    name: "a policy twice",
    args: "--group web --yes",
    script: `sed -i 's/"nginx": /"nginx": {}, &/' "$1"`,
    err: /nginx/,
    kept: /nginx/,
  },
  {
    name: "a document of a config that has changed",
    args: "--group web --yes",
    script: `${ALLOW_ID}; sed -i 's/rm /rm -r/' signer.json`,
    err: /have changed in the config\nfix: broker-ctl policy edit --group web; your/,
    kept: /\^id/,
  },
  {
    name: "a config that changed during the review",
    args: "--group web",
    key: "y -> ^rm  -> ^rm -r",
    script: ALLOW_ID,
    err: /Apply to [^]*have changed in the config\nfix: /,
    kept: /\^id/,
  },
])("policy edit rejects $name", async ({ err, exit = 1, kept = /^$/, ...row }) => {
  const ran = await edit(row);
  assert.match(ran.err, err);
  assert.match(ran.err, /^(?:\P{C}|\n)*$/u);
  assert.match(ran.kept, kept);
  assert.deepEqual([ran.exit, ran.out], [exit, ""]);
  assert.equal(/"\^id\$"|"base": \{\}/.test(ran.text), false, "nothing was written");
});
