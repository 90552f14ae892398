import assert from "node:assert/strict";
import {
  canonicalSudoUser,
  elevateCommand,
  elevationLabel,
  elevationPrefix,
  isSudoUser,
  resolveElevation,
} from "./shell.ts";

Deno.test.each([
  { name: "one command", command: "systemctl restart nginx", text: "systemctl restart nginx" },
  { name: "decoded words", command: `r"m" 'a b' "c"`, text: "rm 'a b' c" },
  { name: "an empty word", command: "echo ''", text: "echo ''" },
  { name: "an argument with =", command: "make A=b", text: "make 'A=b'" },
  { name: "a single quote", command: `echo "it's"`, text: `echo 'it'\\''s'` },
  { name: "a trailing ;", command: "id ;", text: "id" },
  { name: "a comment", command: "id # x", text: "id" },
  { name: "a wrapper, which has nothing to do with elevation", command: "bash -c id", text: "bash -c id" },
  { name: "other scripts", command: "echo é", text: "echo 'é'" },
  { name: "every bare character", command: "a@%_+:,./-Z9 x", text: "a@%_+:,./-Z9 x" },
])("elevateCommand() prefixes $name directly", ({ command, text }) => {
  assert.equal(elevateCommand("sudo -n", command), `sudo -n -- ${text}`);
});

Deno.test.each([
  "id; id",
  "id | cat",
  "id && id",
  "id || id",
  "id &",
  "! id",
  "(id)",
  "{ id; }",
  "if id; then id; fi",
  "time id",
  "A=b id",
  "A=b",
  "=x id",
  "9A=b id",
  "'A=b' id",
  "id > x",
  "id 2>&1",
  "id >&-",
  "id <<< x",
  "echo *",
  "echo {a,b}",
  "echo ~",
  "r\\m x",
  "echo $x",
  "echo $(id)",
  'echo "$x"',
  "$'id'",
  "'' x",
  "echo 'it'\\''s'",
  "id\nid",
  "echo 'a",
  "# id",
  ". x",
  ": x",
  "cd /tmp",
  "umask 077",
  "export A",
  "exec id",
  "eval id",
  "command id",
  "ulimit -n",
  "times",
  "wait",
  "'cd' /tmp",
  "-x",
].map((command) => ({ command })))("elevateCommand() wraps $command", ({ command }) => {
  const quoted = `'${command.replaceAll("'", "'\\''")}'`;
  assert.equal(elevateCommand("sudo -n -u db", command), `sudo -n -u db -- /bin/sh -c ${quoted}`);
});

Deno.test("elevateCommand() turns a lone surrogate into U+FFFD", () => {
  assert.equal(elevateCommand("sudo -n", "echo \ud800"), "sudo -n -- echo '\ufffd'");
});

Deno.test.each([
  { name: "an empty user as root", user: "", prefix: "sudo -n" },
  { name: "root by name", user: "root", prefix: "sudo -n" },
  { name: "another user", user: "deploy", prefix: "sudo -n -u deploy" },
])("elevationPrefix() gives $name", ({ user, prefix }) => {
  assert.equal(elevationPrefix(user), prefix);
});

Deno.test("elevationPrefix() throws for what is not an account", () => {
  assert.throws(() => elevationPrefix("a; id"), RangeError);
});

Deno.test.each([
  { user: "deploy", valid: true },
  { user: "_www-data.1", valid: true },
  { user: "a".repeat(32), valid: true },
  { user: "a".repeat(33), valid: false },
  { user: "-u", valid: false },
  { user: ".a", valid: false },
  { user: "", valid: false },
  { user: "a b", valid: false },
  { user: "a\n", valid: false },
  { user: "#0", valid: false },
  { user: "é", valid: false },
  { user: "ALL=(ALL)", valid: false },
])("isSudoUser() finds $user $valid", ({ user, valid }) => {
  assert.equal(isSudoUser(user), valid);
});

const HOST = { name: "web01", allow_sudo: true, allowed_sudo_users: ["db"] };

Deno.test.each([
  { name: "root, implied beside a list", sudoUser: "", user: "root" },
  { name: "root by name", sudoUser: "root", user: "root" },
  { name: "a listed user", sudoUser: "db", user: "db" },
])("resolveElevation() allows $name", ({ sudoUser, user }) => {
  const elevation = resolveElevation(HOST, { sudo: true, sudoUser });
  assert.deepEqual(elevation, { kind: "elevated", user, prefix: elevationPrefix(user) });
});

Deno.test.each([
  { name: "an unlisted user", sudoUser: "www", reason: 'sudo_user "www" is not allowed on "web01"' },
  { name: "what is not an account", sudoUser: "a b", reason: 'invalid sudo_user: "a b"' },
  {
    name: "a host without sudo",
    allow_sudo: false,
    reason: 'host "web01" does not allow elevation (allow_sudo=false)',
  },
])("resolveElevation() denies $name", ({ sudoUser = "", allow_sudo = true, reason }) => {
  assert.deepEqual(resolveElevation({ ...HOST, allow_sudo }, { sudo: true, sudoUser }), {
    kind: "denied",
    reason,
  });
});

Deno.test("resolveElevation() ignores the user when sudo is not asked for", () => {
  assert.equal(resolveElevation({ ...HOST, allow_sudo: false }, { sudo: false, sudoUser: "a b" }), undefined);
});

Deno.test.each([
  { name: "no sudo", sudo: false, user: "", canonical: "", label: "" },
  { name: "a user without sudo", sudo: false, user: "db", canonical: "", label: "" },
  { name: "a wire object that says nothing", sudo: undefined, user: undefined, canonical: "", label: "" },
  { name: "sudo without user", sudo: true, user: "", canonical: "root", label: "sudo:root" },
  { name: "sudo with an absent user", sudo: true, user: undefined, canonical: "root", label: "sudo:root" },
  { name: "sudo to root", sudo: true, user: "root", canonical: "root", label: "sudo:root" },
  { name: "sudo to another", sudo: true, user: "db", canonical: "db", label: "sudo:db" },
])("canonicalSudoUser() of $name is '$canonical' (I25)", ({ sudo, user, canonical, label }) => {
  assert.equal(canonicalSudoUser(sudo, user), canonical);
  assert.equal(elevationLabel(sudo, user), label);
});
