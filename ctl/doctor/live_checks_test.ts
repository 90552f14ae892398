import assert from "node:assert/strict";
import { judgeHost } from "./live_checks.ts";

const GOOD = [
  "ca: ssh-ed25519 AAAA",
  "sshd: forcecommand none",
  "sshd: revokedkeys /etc/ssh/gateway.krl",
  "sshd: authorizedkeysfile none",
  "sshd: authorizedkeyscommand none",
  "sshd: permituserenvironment no",
  "shell: /bin/bash",
  "login: yes",
  "time: 1000",
  "principal: yes",
];

function judge(lines: readonly string[], ca: string | undefined = "ssh-ed25519 AAAA") {
  return judgeHost({ name: "web01", ca, lines, asked: 1000, answered: 1002 })
    .filter(({ level }) => level !== "pass").map(({ level, check }) => `${level} ${check}`);
}

Deno.test("judgeHost() finds nothing where sshd is set as it should be", () => {
  assert.deepEqual(judge(GOOD), []);
});

Deno.test.each([
  { line: "ca: ssh-ed25519 BBBB", says: /^fail .*does not trust the CA/ },
  { line: "sshd: forcecommand /bin/menu", says: /^fail .*ForceCommand "\/bin\/menu"/ },
  { line: "sshd: revokedkeys none", says: /^warn .*no RevokedKeys/ },
  { line: "sshd: authorizedkeysfile .ssh/authorized_keys", says: /^warn .*\(authorizedkeysfile \.ssh/ },
  { line: "sshd: authorizedkeyscommand /bin/keys", says: /^warn .*\(authorizedkeyscommand \/bin\/keys\)/ },
  { line: "sshd: permituserenvironment yes", says: /^fail .*PermitUserEnvironment "yes"/ },
  { line: "shell: /usr/bin/fish", says: /^warn .*nothing is proved for fish/ },
  { line: "shell:", says: /^warn .*does not say/ },
  { line: "time: 900", says: /^fail .*100 s off/ },
  { line: "time: 1100", says: /^fail .*98 s off/ },
  { line: "login: locked", says: /^fail .*lets nobody into its account, which is locked/ },
  { line: "login: expired", says: /^fail .*lets nobody into its account, which expired/ },
  { line: "login: shell", says: /^fail .*lets nobody into its account, whose login shell/ },
  { line: "login: ask me", says: /^unknown .*does not say whether anybody gets in/ },
  { line: "principal: no", says: /^fail .*does not accept certificates/ },
])("judgeHost() finds $line", ({ line, says }) => {
  const label = line.split(" ").slice(0, line.startsWith("sshd:") ? 2 : 1).join(" ");
  const wrong = judge(GOOD.map((each) => each.startsWith(label) ? line : each));
  assert.equal(wrong.length, 1, wrong.join());
  assert.match(wrong[0] ?? "", says);
});

Deno.test("judgeHost() takes nothing that a host does not say for good", () => {
  assert.deepEqual(judge([]).filter((each) => each.startsWith("unknown")).length, 8);
  assert.equal(judge([]).length, 10);
  assert.match(judge(GOOD, "none").join(), /does not trust/);
  const { level } = judgeHost({
    ...{ name: "web01", ca: undefined, lines: GOOD, asked: 1000, answered: 1000 },
  })[0]!;
  assert.equal(level, "unknown");
});
