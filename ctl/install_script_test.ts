import assert from "node:assert/strict";
import { INSTALLER_TEXT, SHIM_TEXT } from "@gateway/shim/texts";
import { formatInstallScript, parseSignerKeys } from "./install_script.ts";

const KEY =
  'signer namespaces="gateway-sealed-exec-v2" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c';

function script(options: Partial<Parameters<typeof formatInstallScript>[0]> = {}): string {
  return formatInstallScript({ accounts: ["deploy"], check: false, more: [], ...options }).join("\n");
}

/** What the shell is told to run at the end. */
function lastCommand(text: string): string {
  return text.split("\n").find((line) => line.startsWith('sh "$work/install"')) ?? "";
}

Deno.test("formatInstallScript() carries both files whole, and no line of them ends them early", () => {
  const text = script({ keys: { how: "replace", lines: [KEY] } });
  for (const file of [SHIM_TEXT, INSTALLER_TEXT, `${KEY}\n`]) {
    assert.ok(text.includes(`<<'END_OF_GATEWAY_FILE'\n${file}END_OF_GATEWAY_FILE\n`));
  }
});

Deno.test.each(
  [
    { name: "installs", options: {}, words: "--accounts 'deploy' </dev/null" },
    { name: "only looks", options: { check: true }, words: "--accounts 'deploy' --check </dev/null" },
    {
      name: "replaces the keys",
      options: { keys: { how: "replace", lines: [KEY] } },
      words: `--accounts 'deploy' --pubkey "$work/keys" </dev/null`,
    },
    {
      name: "adds keys",
      options: { keys: { how: "add", lines: [KEY] } },
      words: `--accounts 'deploy' --add-pubkey "$work/keys" </dev/null`,
    },
    {
      name: "quotes what comes from elsewhere",
      options: { accounts: ["a'b", "$(id)"], more: ["--bindir", "/opt/it's"] },
      words: String.raw`--accounts 'a'\''b $(id)' '--bindir' '/opt/it'\''s' </dev/null`,
    },
  ] as const,
)("formatInstallScript() $name", ({ options, words }) => {
  assert.equal(lastCommand(script(options)), `sh "$work/install" --src "$work/gateway-shim" ${words}`);
});

Deno.test("parseSignerKeys() leaves comments and blank lines out", () => {
  assert.deepEqual(parseSignerKeys(`# key\n\n  ${KEY} a comment\r\n${KEY}`), [`${KEY} a comment`, KEY]);
});

Deno.test.each([
  { name: "another principal", text: KEY.replace("signer", "*") },
  { name: "any namespace", text: KEY.replace(/ namespaces=\S*/, "") },
  { name: "a key that is cut short", text: KEY.slice(0, -1) },
  { name: "the key of format v1", text: "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=" },
  { name: "nothing", text: "# no key\n" },
  { name: "the end of the file in the program", text: `${KEY}\nEND_OF_GATEWAY_FILE\nid` },
])("parseSignerKeys() refuses $name", ({ text }) => {
  assert.throws(() => parseSignerKeys(text), /Cannot use the keys: (?:line \d is none|there is none)/);
});
