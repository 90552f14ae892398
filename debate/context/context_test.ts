import assert from "node:assert/strict";
import { loadSettings } from "../settings/config.ts";
import { assertLinearWork } from "@gateway/shared/testing";
import { compileGlob } from "./project.ts";
import { dropPartialWord } from "../engine/graph/text.ts";
import { createContextRedactor, ownSecrets, redactValue } from "./redact_context.ts";
import { isSecretFile } from "./secret_files.ts";

Deno.test.each([
  { pattern: "README*", path: "README.md", matches: true },
  { pattern: "README*", path: "docs/README.md", matches: false },
  { pattern: "*.md", path: "a/b.md", matches: false },
  { pattern: "**/*.md", path: "a.md", matches: true },
  { pattern: "**/*.md", path: "a/b/c.md", matches: true },
  { pattern: "src/**/*", path: "src/a", matches: true },
  { pattern: "src/**/*", path: "src/a/b/c.ts", matches: true },
  { pattern: "src/**/*", path: "srcs/a", matches: false },
  { pattern: "tests/**", path: "tests/a/b", matches: true },
  { pattern: "**/x/**/y", path: "a/x/b/c/y", matches: true },
  { pattern: "**/x/**/y", path: "a/b/y", matches: false },
  { pattern: "a?c", path: "abc", matches: true },
  { pattern: "a?c", path: "ac", matches: false },
  { pattern: "./src/*.ts", path: "src/a.ts", matches: true },
  { pattern: "a.c", path: "abc", matches: false },
  { pattern: "[ab]", path: "[ab]", matches: true },
  { pattern: "*a*b*c", path: "xaxbxc", matches: true },
  { pattern: "*a*b*c", path: "xaxbx", matches: false },
].map((row) => ({
  ...row,
  name: `${row.pattern} ${row.matches ? "matches" : "does not match"} ${row.path}`,
})))(
  "compileGlob() $name",
  ({ pattern, path, matches }) => {
    const matcher = compileGlob(pattern);
    assert.ok(typeof matcher === "function");
    assert.equal(matcher(path), matches);
  },
);

Deno.test.each(
  ["", "/etc/*", "../x", "a/../../b", "*.{ts,js}", "a".repeat(301)].map((
    pattern,
  ) => ({
    name: JSON.stringify(pattern.slice(0, 20)),
    pattern,
  })),
)("compileGlob() rejects $name", ({ pattern }) => {
  assert.equal(typeof compileGlob(pattern), "string");
});

Deno.test.each(["*a".repeat(140), "**/".repeat(90) + "x"].map((pattern) => ({
  name: pattern.slice(0, 10),
  pattern,
})))("compileGlob() matches in linear time with a pattern made to be slow: $name", ({ pattern }) => {
  const matcher = compileGlob(pattern);
  assert.ok(typeof matcher === "function");
  for (const unit of ["a", "a/"]) {
    assertLinearWork((size) => assert.equal(matcher(`${unit.repeat(size)}b`), false), 4_000);
  }
});

const redact = createContextRedactor([]);

Deno.test.each([
  { text: "password=hunter2 x", secret: "hunter2" },
  { text: '{"apiKey":"hunter2","d":1}', secret: "hunter2" },
  { text: "client_secret: 'hunter2 hunter3' # x", secret: "hunter" },
  { text: "Authorization: Bearer abc.def\nHost: x", secret: "abc.def" },
  { text: "sent bearer abcdefghijklmnop!", secret: "abcdefghijklmnop" },
  { text: "Cookie: sid=hunter2; b=2\n", secret: "hunter2" },
  { text: "postgres://u:hun/te@r2@h:5432/d", secret: "hun/te" },
  { text: "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nMII\n-----END RSA PRIVATE KEY-----\nb", secret: "MII" },
  { text: "id AKIAIOSFODNN7EXAMPLE x", secret: "AKIAIOSFODNN7EXAMPLE" },
  { text: `k AIza${"x".repeat(35)} x`, secret: "AIza" },
  { text: "t eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl x", secret: "eyJhbGciOiJ" },
  { text: "https://b/x?se=1&sig=hunter2&z=1", secret: "hunter2" },
  { text: "- name: DB_PASSWORD\n  value: hunter2\n- name: A", secret: "hunter2" },
  { text: "curl --token 'hunter2 b' -u ann:hunter2 y", secret: "hunter2" },
  { text: "mysql -h db -phunter2 | cat", secret: "hunter2" },
  { text: `ghp_${"a".repeat(24)} glpat-${"b".repeat(20)} x`, secret: "ghp_aa" },
  { text: "machine h login u password hunter2 x", secret: "hunter2" },
])("createContextRedactor() masks a secret wherever $text is truncated", ({ text, secret }) => {
  for (let end = 0; end <= text.length; end++) {
    const shown = redact(dropPartialWord(text.slice(0, end))).text;
    assert.ok(!shown.includes(secret.slice(0, 3)), `${shown} at ${end}`);
  }
});

Deno.test("createContextRedactor() counts by class and is idempotent", () => {
  const { text, counts } = redact("a_password=x\nb_password: y\nAKIAIOSFODNN7EXAMPLE\nCookie: z");
  assert.deepEqual(counts, { "config-value": 2, "aws-key-id": 1, cookie: 1 });
  assert.equal(redact(text).text, text);
});

Deno.test("createContextRedactor() masks the secrets of the service everywhere", () => {
  const own = createContextRedactor(["tok-12345", "tok-12345-long", "abc"]);
  assert.deepEqual(own("x=tok-12345-long, tok-12345 abc"), {
    text: "x=[REDACTED], [REDACTED] abc",
    counts: { "own-secret": 2 },
  });
});

Deno.test("createContextRedactor() ends for a text with a final backslash", () => {
  assert.equal(redact('password="a\\').text, "password=[REDACTED]");
});

Deno.test("createContextRedactor() does not block other work during a long text", () => {
  const steps = redact.inSteps(`password=x ${"a line without any\n".repeat(100_000)}`);
  let count = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) count++;
  assert.ok(count > 50, String(count));
  assert.deepEqual(step.value.counts, { "config-value": 1 });
});

Deno.test("ownSecrets() finds tokens, passwords and passwords in URLs", () => {
  const found = (env: Record<string, string>) =>
    ownSecrets(loadSettings({ env: { HOME: "/home/ann", ...env }, workingFolder: "/" }));
  const url = "postgres://u:p%40ssword@h/d";
  const mine = { base_url: "https://m.example", key_variable: "MODEL_KEY_MINE" };
  assert.deepEqual(
    found({
      MODEL_PROVIDERS: JSON.stringify({ mine }),
      MODEL_KEY_MINE: "sk-1",
      HUB_TOKEN: "hub",
      DATABASE_URL: url,
      LOKI_URL: "http://u:lokipass@h",
    }),
    ["hub", url, "sk-1", "p%40ssword", "lokipass", "p@ssword", "lokipass"],
  );
  const alerts = {
    ALERT_SECRET: "twenty-four-of-the-senders",
    ALERT_ANSWER_URL: "https://chat.example/T0/secret",
  };
  assert.deepEqual(found(alerts), Object.values(alerts));
  assert.deepEqual(found({ MCP_TOKEN: "of a server" }), ["of a server"]);
  assert.deepEqual(found({}), []);
  const chat = "https://chat.example/hooks/T0/a%2Ftoken-of-24-letters?sig=0123456789abcdef%3D";
  const own = createContextRedactor(found({ ALERT_ANSWER_URL: chat }));
  for (
    const part of [chat, "/hooks/T0/a%2Ftoken-of-24-letters", "a/token-of-24-letters", "0123456789abcdef="]
  ) {
    assert.equal(own(`at ${part} now`).text, "at [REDACTED] now");
  }
  assert.equal(own("/hooks/T0 of chat.example").text, "/hooks/T0 of chat.example");
});

const redactor = createContextRedactor(["correct-horse"]);
const redactOne = (text: string) => redactor(text).text;

Deno.test.each([
  { name: "a text", value: "it is correct-horse", masked: "it is [REDACTED]" },
  { name: "texts in lists", value: [["correct-horse", 7, null]], masked: [["[REDACTED]", 7, null]] },
  { name: "names", value: { "correct-horse": 1 }, masked: { "[REDACTED]": 1 } },
  {
    name: "what stands under a telling name",
    value: { password: "xyz1" },
    masked: { password: "[REDACTED]" },
  },
  {
    name: "an assignment in a text",
    value: { args: ["PASSWORD=hunter22x"] },
    masked: { args: ["PASSWORD=[REDACTED]"] },
  },
  {
    name: "nothing where there is none",
    value: { a: "b", c: [true, 1.5] },
    masked: { a: "b", c: [true, 1.5] },
  },
])("redactValue() masks $name", ({ value, masked }) => {
  assert.deepEqual(redactValue(value, redactOne), masked);
});

Deno.test.each(
  (".env a/.env.production tls/server.key cert.PEM id_ed25519 .ssh/config home/.aws/credentials " +
    ".kube/config .netrc .pgpass .npmrc /etc/shadow /etc/shadow- /proc/1/environ /run/secrets/db " +
    "terraform.tfstate credentials.json .env.local prod.env .envrc .pgpass.bak .my.cnf .git-credentials .pypirc " +
    "pip.conf .dockercfg .docker/config.json kubeconfig kubeconfig-prod.yaml admin.conf k3s.yaml id_rsa.bak " +
    "ssh_host_rsa_key server.p12 ca.jks krb5.keytab .htpasswd .bash_history .psql_history gcloud/creds.db " +
    "service-account-prod.json secrets.yml prod.tfvars wp-config.php database.yml rclone.conf .s3cfg " +
    "chap-secrets sasl_passwd wireguard/wg0.conf vpn.ovpn .vault_pass.txt auth.json debian.cnf opasswd")
    .split(" ").map((path) => ({ name: path, path })),
)("isSecretFile() returns true for $name", ({ path }) => {
  assert.equal(isSecretFile(path), true);
});

Deno.test.each(
  ("README.md .env.example environment.ts id_ed25519.pub src/keys.ts keyboard.md /etc/hosts " +
    "docs/shadow.md src/credentials.ts secrets_test.go settings.json hosts.yaml id_list.csv history.txt")
    .split(" ").map((path) => ({ name: path, path })),
)("isSecretFile() returns false for $name", ({ path }) => {
  assert.equal(isSecretFile(path), false);
});
