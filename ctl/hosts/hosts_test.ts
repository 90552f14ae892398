import assert from "node:assert/strict";
import { formatHosts, labelPolicy } from "./host.ts";
import { INSTALLER_TEXT, SHIM_TEXT, SHIM_V1_TEXT } from "@gateway/shim/texts";
import { formatInstallScript, parseSignerKeys } from "./install_shim.ts";

Deno.test.each<{ policy: Parameters<typeof labelPolicy>[0]; label: string }>([
  { policy: undefined, label: "—" },
  { policy: {}, label: "—" },
  { policy: { mode: "", allow: ["a"] }, label: "—" },
  { policy: { mode: "off" }, label: "off" },
  { policy: { mode: "off", require_approval: ["a", "b"] }, label: "off+approval(2)" },
  { policy: { require_approval: ["a"], enforcement: "audit" }, label: "approval(1) audit" },
  { policy: { mode: "allowlist" }, label: "allowlist(0 allow)" },
  { policy: { mode: "allowlist", allow: ["a"], deny: ["b"] }, label: "allowlist(1 allow)" },
  { policy: { mode: "denylist", deny: ["a"], enforcement: "audit" }, label: "denylist(1 deny) audit" },
  { policy: { mode: "denylist", deny: null, enforcement: "enforce" }, label: "denylist(0 deny)" },
  { policy: { mode: "quarantine" }, label: "?" },
])("labelPolicy() returns $label", ({ policy, label }) => {
  assert.equal(labelPolicy(policy), label);
});

Deno.test("formatHosts() shows policies, seals, shared principals and unproven login shells", () => {
  const host = { addr: "10.0.0.1:22", user: "deploy", principal: "host:web" };
  const [table, ...notes] = formatHosts({
    web02: { ...host, login_shell: "/usr/bin/fish", groups: ["web"], command_policy: { mode: "allowlist" } },
    web01: { ...host, sealed_exec: true, login_shell: "/bin/bash" },
    web03: { ...host, principal: "host:web03", sealed_exec: true, envelope: "v1" },
  }, { command_policies: {}, group_command_policies: { _default: ["starter"], web: ["nginx", "starter"] } });
  assert.ok(typeof table === "object");
  assert.deepEqual(table.rows.map((row) => row.slice(0, 6)), [
    ["web01", "10.0.0.1:22", "deploy", "—", "starter", "v2"],
    ["web02", "10.0.0.1:22", "deploy", "web", "starter,nginx,allowlist(0 allow)", ""],
    ["web03", "10.0.0.1:22", "deploy", "—", "starter", "v1"],
  ]);
  assert.deepEqual(
    notes.map((note) => String(note).slice(0, 60)),
    [
      '2 hosts share the principal "host:web" ("web02", "web01"): a ',
      "login shell /usr/bin/fish of web02: command rules are not pr",
    ].map((note) => note.slice(0, 60)),
  );
});

const KEY =
  'signer namespaces="gateway-sealed-exec-v2" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c';
const KEY_V1 = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";

function script(options: Partial<Parameters<typeof formatInstallScript>[0]> = {}): string {
  return formatInstallScript({ format: "v2", accounts: ["deploy"], check: false, more: [], ...options }).join(
    "\n",
  );
}

/** The last command of the shell. */
function lastCommand(text: string): string {
  return text.split("\n").find((line) => line.startsWith('sh "$work/install"')) ?? "";
}

Deno.test("formatInstallScript() contains both files in full, without the end mark in their lines", () => {
  const text = script({ keys: { how: "replace", lines: [KEY] } });
  for (const file of [SHIM_TEXT, INSTALLER_TEXT, `${KEY}\n`]) {
    assert.ok(text.includes(`<<'END_OF_GATEWAY_FILE'\n${file}END_OF_GATEWAY_FILE\n`));
  }
});

Deno.test("formatInstallScript() contains the launcher and the verifier of v1", () => {
  const text = script({
    format: "v1",
    verifier: "// bundle\nmain();\n",
    keys: { how: "add", lines: [KEY_V1] },
  });
  for (const file of [SHIM_V1_TEXT, INSTALLER_TEXT, "// bundle\nmain();\n", `${KEY_V1}\n`]) {
    assert.ok(text.includes(`<<'END_OF_GATEWAY_FILE'\n${file}END_OF_GATEWAY_FILE\n`));
  }
  assert.match(lastCommand(text), / --format v1 --verifier "\$work\/verifier" /);
});

Deno.test("formatInstallScript() rejects a verifier that contains the end mark of its here-document", () => {
  assert.throws(
    () => script({ format: "v1", verifier: "//\nEND_OF_GATEWAY_FILE\nid\n" }),
    /Cannot use the verifier/,
  );
});

Deno.test.each(
  [
    { name: "installs", options: {}, words: "--format v2 --accounts 'deploy' </dev/null" },
    {
      name: "only checks",
      options: { check: true },
      words: "--format v2 --accounts 'deploy' --check </dev/null",
    },
    {
      name: "replaces the keys",
      options: { keys: { how: "replace", lines: [KEY] } },
      words: `--format v2 --accounts 'deploy' --pubkey "$work/keys" </dev/null`,
    },
    {
      name: "adds keys",
      options: { keys: { how: "add", lines: [KEY] } },
      words: `--format v2 --accounts 'deploy' --add-pubkey "$work/keys" </dev/null`,
    },
    {
      name: "quotes values from the options",
      options: { accounts: ["a'b", "$(id)"], more: ["--bindir", "/opt/it's"] },
      words: String.raw`--format v2 --accounts 'a'\''b $(id)' '--bindir' '/opt/it'\''s' </dev/null`,
    },
  ] as const,
)("formatInstallScript() $name", ({ options, words }) => {
  assert.equal(lastCommand(script(options)), `sh "$work/install" --src "$work/gateway-shim" ${words}`);
});

Deno.test("parseSignerKeys() ignores comments and empty lines", () => {
  assert.deepEqual(parseSignerKeys(`# key\n\n  ${KEY} a comment\r\n${KEY}`, "v2"), [`${KEY} a comment`, KEY]);
  assert.deepEqual(parseSignerKeys(`# key\n ${KEY_V1}\r\n`, "v1"), [KEY_V1]);
});

Deno.test("parseSignerKeys() accepts keys of v2, of v3 and of both for either format", () => {
  const v3 = KEY.replace("exec-v2", "exec-v3");
  const both = KEY.replace("exec-v2", "exec-v2,gateway-sealed-exec-v3");
  for (const format of ["v2", "v3"] as const) {
    assert.deepEqual(parseSignerKeys([KEY, v3, both].join("\n"), format), [KEY, v3, both]);
  }
});

Deno.test.each([
  { name: "another principal", text: KEY.replace("signer", "*") },
  { name: "any namespace", text: KEY.replace(/ namespaces=\S*/, "") },
  { name: "a truncated key", text: KEY.slice(0, -1) },
  { name: "the key of format v1", text: KEY_V1 },
  { name: "a text without a key", text: "# no key\n" },
  { name: "the program's end-of-file marker", text: `${KEY}\nEND_OF_GATEWAY_FILE\nid` },
])("parseSignerKeys() rejects $name", ({ text }) => {
  assert.throws(
    () => parseSignerKeys(text, "v2"),
    /Cannot use the keys: (?:line \d is not a key of|the file contains none)/,
  );
});
