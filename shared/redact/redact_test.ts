import assert from "node:assert/strict";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { AppError } from "../errors.ts";
import { finish } from "../clock.ts";
import { createRedactor, findSecrets, maskSecrets } from "./redact.ts";
import { Searched } from "./steps.ts";
import { COMMAND_SAMPLES, DOCUMENT_SAMPLES } from "./testing/samples.ts";

const redact = createRedactor(undefined);
const m = (name: string) => `[REDACTED:${name}]`;

Deno.test.each(COMMAND_SAMPLES)("createRedactor() masks $name", ({ text, masked }) => {
  assert.equal(redact(text), masked);
});

Deno.test.each([
  "",
  "ls -l /tmp",
  "mysql -p -u x",
  "ssh -p 2222 h",
  "useradd -u 1000 x",
  "cat /etc/passwd",
  "--password-file=/etc/x",
  "mysql db; rm -paxos.txt",
  "redis-cli ping | grep -a x",
  "redis-cli -area x",
  "AUTHOR=x",
  "XAUTHORITY=x",
  "PWD=/tmp",
  "OLDPWD=/tmp",
  "https://h:443/x",
  "https://h/a:b@c",
  "eyJhbGciOiJ.eyJzdWIiOi-_",
  "AKIAIOSFODNN7EXAMPL",
  "xAKIAIOSFODNN7EXAMPLE",
  "ghp_short",
  "glpat-short",
  "xoxz-1234567890-abc",
  "-----BEGIN PUBLIC KEY-----\nb",
  "authorization: Digest x",
  "role=target purpose=oneshot user=alice elev=sudo:root pty=1",
  "path=/srv/token.txt bytes=3 sha256=ab",
].map((text) => ({ name: JSON.stringify(text), text })))(
  "createRedactor() leaves $name alone (L17)",
  ({ text }) => {
    assert.equal(redact(text), text);
  },
);

Deno.test("createRedactor() does not change masked text", () => {
  const once = redact("cmd --password=x TOKEN=y mysql -pz https://u:p@h");
  assert.equal(redact(once), once);
});

Deno.test("createRedactor() applies the built-in rules for an empty block and not if they are disabled", () => {
  assert.equal(createRedactor({})("TOKEN=x"), `TOKEN=${m("env-assignment")}`);
  assert.equal(createRedactor({ disable_defaults: true })("TOKEN=x"), "TOKEN=x");
});

Deno.test.each([
  ["masks the whole match", "T-[0-9]+", "see T-12, T-3", `see ${m("op")}, ${m("op")}`],
  ["masks the secret group only", "pin (?P<secret>[0-9]+)!", "pin 12!", `pin ${m("op")}!`],
  ["accepts the other syntax of a named group", "pin (?<secret>[0-9]+)", "pin 12", `pin ${m("op")}`],
  ["masks all where the group took no part", "a(?P<secret>b)?", "a ab", `${m("op")} a${m("op")}`],
  ["ignores empty matches", "x*", "axb", `a${m("op")}b`],
  ["works on the output of the rules before it", "REDACTED", "TOKEN=x", `TOKEN=[${m("op")}:env-assignment]`],
])("createRedactor() with an operator rule %s", (_name, regex, text, masked) => {
  assert.equal(createRedactor({ patterns: [{ name: "op", regex }] })(text), masked);
});

Deno.test("createRedactor() reports every operator rule that is not RE2", () => {
  const patterns = [{ name: "a", regex: "(" }, { name: "b", regex: "ok" }, { name: "c", regex: "(?<=x)y" }];
  assert.throws(() => createRedactor({ patterns }), (error: unknown) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /^redact\.patterns\[0\]\.regex: .+\nredact\.patterns\[2\]\.regex: .+$/);
    return true;
  });
});

const VALUE = `(?P<secret>"[^"]+"|'[^']+'|[^\\s"']+)`;
const WORDS = "PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?|AUTH";
/** The patterns of the built-in rules in the specification, as RE2. */
const SPECIFIED = [
  `(?i)--?(?:password|passwd|pwd|pass|token|secret|api-key|api_key|apikey)(?:=|\\s+)${VALUE}`,
  "(?i)\\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\\b[^\\n|;&]*?\\s-p(?P<secret>[^\\s-]\\S*)",
  `(?i)\\b(?:(?:[A-Z0-9]+_)*(?:${WORDS})|(?:[A-Z0-9]+_)+PWD)(?:_[A-Z0-9]+)*=${VALUE}`,
  "://[^/\\s:@]*:(?P<secret>[^@\\s/]+)@",
  `(?i)\\b(?:authorization|proxy-authorization)["']?\\s*[:=]\\s*["']?(?:bearer|basic|token)\\s+` +
  "(?P<secret>[A-Za-z0-9+/=_.~-]+)",
  `(?:^|\\s)(?:-u|--user)(?:=|\\s+)[^\\s:]+:${VALUE}`,
  "(?P<secret>\\beyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\b)",
  "(?P<secret>\\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\\b)",
  "(?P<secret>\\b(?:ghp|gho|ghu|ghs|ghr|github_pat)_[A-Za-z0-9_]{20,})",
  "(?P<secret>\\bglpat-[A-Za-z0-9_-]{20,})",
  "(?P<secret>\\bxox[baprs]-[A-Za-z0-9-]{10,})",
  "(?P<secret>(?s)-----BEGIN[A-Z0-9 ]*PRIVATE KEY-----(?:.*?-----END[A-Z0-9 ]*PRIVATE KEY-----|.*))",
].map((regex) => RE2JS.compile(regex));

Deno.test.each([{ kind: "commands" }, { kind: "documents" }] as const)(
  "findSecrets() finds every form of the specification in $kind",
  ({ kind }) => {
    const unit = fc.constantFrom(
      "--pass",
      "PWD",
      "_",
      "TOKEN",
      "to\u212aen",
      "PA\u017f\u017fWORD",
      "=",
      " ",
      "\n",
      '"',
      "'",
      ":",
      "://",
      "@",
      "-u",
      "x",
      "mysql",
      " -p",
      "authorization",
      "bearer ",
      "-----BEGIN",
      "PRIVATE KEY-----",
      "eyJaaaaaaaa",
      ".bbbbbbbb",
      "AKIA0123456789ABCDEF",
      "xoxb-0123456789",
      "\ud800",
      "é",
      "[REDACTED:",
      "mariadb-dump",
      "RSA ",
      "-----END",
      " --user ",
      "name: ",
      ".",
    );
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 12 }), (pieces) => {
        const text = pieces.join("");
        const { found } = finish(findSecrets(new Searched(text), kind));
        for (const pattern of SPECIFIED) {
          const matcher = pattern.matcher(text);
          while (matcher.find()) {
            const [start, end] = [matcher.start("secret"), matcher.end("secret")];
            for (let at = start; at < end; at++) {
              if (text.startsWith("[REDACTED:", start)) break;
              assert.ok(found.some((place) => place.start <= at && at < place.end), `${text} at ${at}`);
            }
          }
        }
      }),
      { numRuns: 2000 },
    );
  },
);

// Each text makes one rule start or match repeatedly. Eight times the longest command distinguishes linear from
// quadratic time, with a margin for a busy machine.
Deno.test.each([
  "mysql ",
  "mysql -px ",
  "A_TOKEN_",
  "a_",
  "TOKEN=x ",
  "://a:",
  ":a",
  "://a:b@",
  "--token=",
  '--token="',
  `--token="x --token='y --token=z `,
  "authorization: bearer ",
  "authorization  ",
  " -u a:",
  "eyJ",
  "eyJaaaaaaaa-",
  "eyJaaaaaaaa.eyJaaaaaaaa.",
  "AKIA",
  "ghp_",
  "glpat-",
  "xoxb-",
  "-----BEGIN ",
  "-----BEGIN PRIVATE KEY-----",
  "-----END PRIVATE KEY-----",
  "--token ",
  "a",
  " ",
  "-",
  '"',
  "\\",
  "=",
  "://",
  "key",
  "-u ",
  "login a ",
  "name:token ",
  'password="\\"',
  "cookie:",
  'password: \\\\\\"',
  "  password: |\n    ",
  "token:\n----\n",
  '--token",\n',
  "- --token\n",
  "<password>x\n",
  "<token><![CDATA[",
  "SG.aaaaaaaaaaaaaaaa.",
  "redis-cli ",
  "redis-cli -a ",
  "\n pass: a",
].map((unit) => ({ name: JSON.stringify(unit), unit })))(
  "createRedactor() takes linear time on $name",
  ({ unit }) => assertLinearWork((size) => redact(unit.repeat(Math.ceil(size / unit.length))), 131_072),
);

const mask = (text: string) => finish(maskSecrets(text, "documents", () => "[REDACTED]"));

Deno.test.each(DOCUMENT_SAMPLES)("maskSecrets() masks $name", ({ text, masked }) => {
  assert.equal(mask(text), masked);
  assert.equal(mask(masked), masked);
});

/** Commands keep their working directory and the scheme of credentials. */
const VISIBLE_IN_COMMANDS = ["/home", "Bearer "];

Deno.test.each([
  ...COMMAND_SAMPLES.map((
    sample,
  ) => ({ ...sample, from: "commands", to: "documents", visible: [""] } as const)),
  ...DOCUMENT_SAMPLES.map((sample) =>
    ({ ...sample, from: "documents", to: "commands", visible: ["", ...VISIBLE_IN_COMMANDS] }) as const
  ),
])("findSecrets() finds $name of $from also in $to", ({ text, from, to, visible }) => {
  const [secrets, found] = [from, to].map((kind) => finish(findSecrets(new Searched(text), kind)).found);
  for (const { start, end } of secrets ?? []) {
    const missed = [...text.slice(start, end)]
      .filter((_, index) =>
        found?.every((place) => start + index < place.start || place.end <= start + index)
      );
    assert.ok(visible.some((each) => each === missed.join("")), `${text}: ${missed.join("")}`);
  }
});

Deno.test.each([
  "",
  "the password was rotated yesterday",
  "tokens: 500",
  "GET http://h:8080/health?x=1 200",
  "secretName: my-secret-ref-is-not-a-key",
  "passwords.ts:12: function check()",
  "password policy: 12 characters",
  "token count: 12, max_tokens: 5",
  "primary_key: id, sort_key=created",
  "pass: 12, fail: 0, bypass: none, first-pass: 3",
  '{"pass": 12, "auth": null}',
  "pass: 12 tests\npass: true\npass: 1200ms, 100.00%\npass: everything that is tested",
  "pass: 2026-11-28T12:00:00Z\npass=12000\npass: src/a1.ts",
  "--- PASS: TestRedis2 (0.00s)\nPASS: t0001-basic\nok, the checks pass: build42x",
  "usage: login <user> <password> [host]",
  "kubectl create token <name>",
  '<label for="password">Password</label><a href="/password-reset">Reset</a>',
  "  DB_PASSWORD:  <set to the key 'password' in secret 'db'>  Optional: false",
  "- name: password-reset\n  image: app:1",
  '["--password", "--port"]',
  "hf_transfer_enabled_for_all_models_by_default",
  "sg.example.com Msg. 12",
  "ssh -p 22 user@host",
].map((text) => ({ name: JSON.stringify(text), text })))(
  "maskSecrets() leaves $name alone",
  ({ text }) => {
    assert.equal(mask(text), text);
  },
);

Deno.test.each([
  "password=",
  '"password": "',
  "authorization: ",
  "cookie=",
  "://a:",
  "a://a:@",
  "name: token\nvalue: ",
  "-----BEGIN PRIVATE KEY-----",
  "bearer ",
].map((unit) => ({ name: JSON.stringify(unit), unit })))(
  "maskSecrets() takes linear time on $name",
  ({ unit }) => assertLinearWork((size) => mask(unit.repeat(Math.ceil(size / unit.length))), 65_536),
);

Deno.test("maskSecrets() needs linear time for a value of backslashes", () =>
  assertLinearWork((size) => mask(`password="${"\\".repeat(size)}`), 131_072));
