import assert from "node:assert/strict";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { AppError } from "../errors.ts";
import { createRedactor } from "./redact.ts";
import { BUILT_IN_RULES } from "./rules.ts";

const redact = createRedactor(undefined);
const m = (name: string) => `[REDACTED:${name}]`;

Deno.test.each([
  {
    name: "a password after =",
    text: 'cmd --password="h 2" x',
    masked: `cmd --password=${m("flag-password")} x`,
  },
  {
    name: "a password in single quotes",
    text: "cmd --pass='h 2' x",
    masked: `cmd --pass=${m("flag-password")} x`,
  },
  {
    name: "a password after blanks",
    text: "cmd --token  abc x",
    masked: `cmd --token  ${m("flag-password")} x`,
  },
  { name: "a flag with one dash", text: "cmd -PWD x", masked: `cmd -PWD ${m("flag-password")}` },
  {
    name: "an API key",
    text: "c --api-key=a --api_key=b --apikey=c",
    masked: `c --api-key=${m("flag-password")} --api_key=${m("flag-password")} --apikey=${
      m("flag-password")
    }`,
  },
  {
    name: "a password attached to -p",
    text: "mysql -u app -phunter2 db",
    masked: `mysql -u app -p${m("mysql-p-attached")} db`,
  },
  {
    name: "a password of mariadb-dump",
    text: "mariadb-dump -px",
    masked: `mariadb-dump -p${m("mysql-p-attached")}`,
  },
  { name: "an assigned token", text: "TOKEN=abc run", masked: `TOKEN=${m("env-assignment")} run` },
  { name: "an assigned AUTH", text: "AUTH=abc", masked: `AUTH=${m("env-assignment")}` },
  { name: "a longer name with PWD", text: "DB_PWD=abc", masked: `DB_PWD=${m("env-assignment")}` },
  {
    name: "a name with more after it",
    text: "x AWS_SECRET_ACCESS_KEY=a",
    masked: `x AWS_SECRET_ACCESS_KEY=${m("env-assignment")}`,
  },
  { name: "a lower-case name", text: "my_api_key='a b'", masked: `my_api_key=${m("env-assignment")}` },
  {
    name: "a name with the Kelvin sign, which folds to k",
    text: "TO\u212aEN=a",
    masked: `TO\u212aEN=${m("env-assignment")}`,
  },
  { name: "a password in a URL", text: "https://u:p4ss@h/x", masked: `https://u:${m("uri-userinfo")}@h/x` },
  { name: "a password without user", text: "redis://:p4ss@h", masked: `redis://:${m("uri-userinfo")}@h` },
  {
    name: "an authorization header",
    text: 'curl -H "Authorization: Bearer a.b-c" h',
    masked: `curl -H "Authorization: Bearer ${m("auth-header")}" h`,
  },
  {
    name: "a proxy header as JSON",
    text: '"proxy-authorization": "basic eA=="',
    masked: `"proxy-authorization": "basic ${m("auth-header")}"`,
  },
  { name: "curl's user", text: "curl -u me:s3cret h", masked: `curl -u me:${m("curl-user")} h` },
  {
    name: "curl's user, long form",
    text: "curl --user=me:'s 3' h",
    masked: `curl --user=me:${m("curl-user")} h`,
  },
  { name: "a JWT", text: "x eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl y", masked: `x ${m("jwt")} y` },
  { name: "an AWS key id", text: "AKIAIOSFODNN7EXAMPLE", masked: m("aws-key-id") },
  { name: "a GitHub token", text: `ghp_${"a1".repeat(10)}`, masked: m("github-token") },
  { name: "a fine-grained GitHub token", text: `github_pat_${"a1".repeat(10)}`, masked: m("github-token") },
  { name: "a GitLab token", text: `glpat-${"a-".repeat(10)}`, masked: m("gitlab-token") },
  { name: "a Slack token", text: "xoxb-1234567890-abc", masked: m("slack-token") },
  {
    name: "a private key",
    text: "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb\n-----END OPENSSH PRIVATE KEY-----\nc",
    masked: `a\n${m("private-key-block")}\nc`,
  },
  {
    name: "a private key without end",
    text: "-----BEGIN PRIVATE KEY-----\nb\nc",
    masked: m("private-key-block"),
  },
  {
    name: "several secrets",
    text: "A_TOKEN=x B_TOKEN=y",
    masked: `A_TOKEN=${m("env-assignment")} B_TOKEN=${m("env-assignment")}`,
  },
])("createRedactor() masks $name", ({ text, masked }) => {
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

Deno.test("createRedactor() leaves what is masked already", () => {
  const once = redact("cmd --password=x TOKEN=y mysql -pz https://u:p@h");
  assert.equal(redact(once), once);
});

Deno.test("createRedactor() has the built-in rules on for an empty block and off when they are disabled", () => {
  assert.equal(createRedactor({})("TOKEN=x"), `TOKEN=${m("env-assignment")}`);
  assert.equal(createRedactor({ disable_defaults: true })("TOKEN=x"), "TOKEN=x");
});

Deno.test.each([
  {
    name: "masks the whole match",
    regex: "T-[0-9]+",
    text: "see T-12, T-3",
    masked: `see ${m("op")}, ${m("op")}`,
  },
  {
    name: "masks the secret group only",
    regex: "pin (?P<secret>[0-9]+)!",
    text: "pin 12!",
    masked: `pin ${m("op")}!`,
  },
  {
    name: "takes the other spelling of a group",
    regex: "pin (?<secret>[0-9]+)",
    text: "pin 12",
    masked: `pin ${m("op")}`,
  },
  {
    name: "masks all where the group took no part",
    regex: "a(?P<secret>b)?",
    text: "a ab",
    masked: `${m("op")} a${m("op")}`,
  },
  { name: "ignores empty matches", regex: "x*", text: "axb", masked: `a${m("op")}b` },
  {
    name: "works on the output of the rules before it",
    regex: "REDACTED",
    text: "TOKEN=x",
    masked: `TOKEN=[${m("op")}:env-assignment]`,
  },
])("createRedactor() with an operator's rule $name", ({ regex, text, masked }) => {
  assert.equal(createRedactor({ patterns: [{ name: "op", regex }] })(text), masked);
});

Deno.test("createRedactor() names every operator's rule that is not RE2", () => {
  const patterns = [{ name: "a", regex: "(" }, { name: "b", regex: "ok" }, { name: "c", regex: "(?<=x)y" }];
  assert.throws(() => createRedactor({ patterns }), (error: unknown) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /^redact\.patterns\[0\]\.regex: .+\nredact\.patterns\[2\]\.regex: .+$/);
    return true;
  });
});

Deno.test("createRedactor() never masks less because of a hint", () => {
  const exact = createRedactor({
    disable_defaults: true,
    patterns: BUILT_IN_RULES.map(({ name, regex }) => ({ name, regex })),
  });
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
  );
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 12 }), (pieces) => {
      const text = pieces.join("");
      assert.equal(redact(text), exact(text));
    }),
    { numRuns: 2000 },
  );
});

// Each kind of text makes one rule start, or match, again and again. A text of eight times the longest command
// tells linear time from quadratic, with room for a busy machine.
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
].map((unit) => ({ name: JSON.stringify(unit), unit })))(
  "createRedactor() takes linear time on $name",
  ({ unit }) => assertLinearWork((size) => redact(unit.repeat(Math.ceil(size / unit.length))), 131_072),
);
