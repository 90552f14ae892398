import assert from "node:assert/strict";
import { assertLinearWork } from "@gateway/shared/testing";
import { withoutCutWord } from "../engine/graph/text.ts";
import { addCounts, createContextRedactor, ownSecrets } from "./redact_context.ts";

const redact = createContextRedactor([]);

Deno.test.each([
  { name: "key=value", text: "password=hunter2 x", shown: "password=[REDACTED] x" },
  { name: "a key that ends in a word", text: "db_pwd: hunter2, x", shown: "db_pwd: [REDACTED], x" },
  { name: "a connection string", text: "Server=a;Pwd=h@x/2;Db=c", shown: "Server=a;Pwd=[REDACTED];Db=c" },
  { name: "JSON", text: '{"password": "hunter2", "a": 1}', shown: '{"password": "[REDACTED]", "a": 1}' },
  {
    name: "JSON with an escaped quote",
    text: '{"apiKey":"a\\"b c","d":1}',
    shown: '{"apiKey":"[REDACTED]","d":1}',
  },
  {
    name: "YAML with blanks in quotes",
    text: "client_secret: 'two words' # x",
    shown: "client_secret: '[REDACTED]' # x",
  },
  { name: "TOML", text: 'access-key = "a b"', shown: 'access-key = "[REDACTED]"' },
  { name: "PHP and Ruby", text: "'password' => 'x y'", shown: "'password' => '[REDACTED]'" },
  {
    name: "a bearer header",
    text: "Authorization: Bearer abc.def\nHost: x",
    shown: "Authorization: [REDACTED]\nHost: x",
  },
  {
    name: "a header of another scheme",
    text: "authorization: AWS4-HMAC x, y\n",
    shown: "authorization: [REDACTED]\n",
  },
  {
    name: "a bearer token in a sentence",
    text: "sent bearer abcdefghijklmnop!",
    shown: "sent bearer [REDACTED]!",
  },
  {
    name: "cookies",
    text: "Cookie: a=1; b=2\nSet-Cookie: sid=3; Path=/",
    shown: "Cookie: [REDACTED]\nSet-Cookie: [REDACTED]",
  },
  {
    name: "a password with @ and /",
    text: "postgres://u:p@s/s@h:5432/d",
    shown: "postgres://u:[REDACTED]@h:5432/d",
  },
  {
    name: "a private key",
    text: "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
    shown: "a\n[REDACTED]\nb",
  },
  { name: "a private key without end", text: "-----BEGIN PRIVATE KEY-----\nMII", shown: "[REDACTED]" },
  {
    name: "a PGP key",
    text: "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
    shown: "[REDACTED]",
  },
  { name: "an AWS key id", text: "id AKIAIOSFODNN7EXAMPLE", shown: "id [REDACTED]" },
  { name: "a Google key", text: `k AIza${"x".repeat(35)}`, shown: "k [REDACTED]" },
  { name: "a JWT", text: "t eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl", shown: "t [REDACTED]" },
  { name: "an Azure account key", text: "AccountKey=abc+/==;x", shown: "AccountKey=[REDACTED];x" },
  {
    name: "a signed URL",
    text: "https://b/x?se=1&sig=ab%2F&z=1",
    shown: "https://b/x?se=1&sig=[REDACTED]&z=1",
  },
  {
    name: "a container's variable in YAML",
    text: "- name: DB_PASSWORD\n  value: hunter2\n- name: A",
    shown: "- name: DB_PASSWORD\n  value: [REDACTED]\n- name: A",
  },
  {
    name: "a container's variable in JSON",
    text: '{"name":"API_TOKEN","value":"x"}',
    shown: '{"name":"API_TOKEN","value":"[REDACTED]"}',
  },
  {
    name: "an environment variable",
    text: '"AWS_SECRET_ACCESS_KEY=ab"',
    shown: '"AWS_SECRET_ACCESS_KEY=[REDACTED]"',
  },
  {
    name: "an option of a command",
    text: "curl --token 'a b' -u ann:x y",
    shown: "curl --token [REDACTED] -u ann:[REDACTED] y",
  },
  { name: "an option of mysql", text: "mysql -h db -px y | cat", shown: "mysql -h db -p[REDACTED] y | cat" },
  {
    name: "a variable",
    text: "DB_PASSWORD_FILE='a b' MY_PWD=x PWD=/home",
    shown: "DB_PASSWORD_FILE=[REDACTED] MY_PWD=[REDACTED] PWD=[REDACTED]",
  },
  {
    name: "a token of a forge",
    text: `ghp_${"a".repeat(20)} glpat-${"b".repeat(20)}`,
    shown: "[REDACTED] [REDACTED]",
  },
  { name: "a token of a chat", text: "xoxb-1234567890-a", shown: "[REDACTED]" },
  { name: "a token of a registry", text: `npm_${"a".repeat(36)}`, shown: "[REDACTED]" },
  {
    name: "a payment key",
    text: `sk_live_${"a".repeat(16)} rk_test_${"b".repeat(16)}`,
    shown: "[REDACTED] [REDACTED]",
  },
  { name: "a model's key", text: `sk-${"a".repeat(20)}`, shown: "[REDACTED]" },
  {
    name: "a webhook",
    text: "https://hooks.slack.com/services/T0000/B0000/abcdef",
    shown: "https://hooks.slack.com/[REDACTED]",
  },
  { name: "a value over lines", text: 'password: "a\nb" c', shown: 'password: "[REDACTED]" c' },
  {
    name: "a value whose quote is not closed, to the end of its line",
    text: 'secret="a b\nc',
    shown: 'secret="a b\nc'.replace('"a b', "[REDACTED]"),
  },
  {
    name: "what two rules find, once",
    text: "password=postgres://u:p;w@h x",
    shown: "password=[REDACTED] x",
  },
  { name: "what begins in the middle of a hint", text: "secretoken=x", shown: "secretoken=[REDACTED]" },
  {
    name: "a netrc line",
    text: "machine h login u password p",
    shown: "machine h login u password [REDACTED]",
  },
])("createContextRedactor() masks $name", ({ text, shown }) => {
  assert.equal(redact(text).text, shown);
  assert.ok(Object.values(redact(text).counts).reduce((a, b) => a + b, 0) >= 1);
});

Deno.test.each([
  "",
  "the password was rotated yesterday",
  "tokens: 500",
  "GET http://h:8080/health?x=1 200",
  "secretName: my-secret-ref-is-not-a-key",
  "passwords.ts:12: function check()",
  "ssh -p 22 user@host",
].map((text) => ({ name: JSON.stringify(text), text })))(
  "createContextRedactor() leaves $name alone",
  ({ text }) => {
    assert.deepEqual(redact(text), { text, counts: {} });
  },
);

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
])("createContextRedactor() leaves nothing of a secret, wherever $text is cut off", ({ text, secret }) => {
  for (let end = 0; end <= text.length; end++) {
    const shown = redact(withoutCutWord(text.slice(0, end))).text;
    assert.ok(!shown.includes(secret.slice(0, 3)), `${shown} at ${end}`);
  }
});

Deno.test("createContextRedactor() counts by class, and a second time finds the same text", () => {
  const { text, counts } = redact("a_password=x\nb_password: y\nAKIAIOSFODNN7EXAMPLE\nCookie: z");
  assert.deepEqual(counts, { "config-value": 2, "aws-key-id": 1, cookie: 1 });
  assert.equal(redact(text).text, text);
});

Deno.test("createContextRedactor() masks the service's own secrets wherever they stand", () => {
  const own = createContextRedactor(["tok-12345", "tok-12345-long", "abc"]);
  assert.deepEqual(own("x=tok-12345-long, tok-12345 abc"), {
    text: "x=[REDACTED], [REDACTED] abc",
    counts: { "own-secret": 2 },
  });
});

Deno.test("createContextRedactor() comes to an end with a backslash at the end of the text", () => {
  assert.equal(redact('password="a\\').text, "password=[REDACTED]");
});

Deno.test("createContextRedactor() lets others have their turn in a long text", () => {
  const steps = redact.inSteps(`password=x ${"a line without any\n".repeat(100_000)}`);
  let count = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) count++;
  assert.ok(count > 50, String(count));
  assert.deepEqual(step.value.counts, { "config-value": 1 });
});

Deno.test("ownSecrets() takes tokens, passwords and those in URLs", () => {
  const empty = {
    HUB_TOKEN: "",
    ASSIST_TOKEN: "",
    WEB_PASSWORD: "",
    PROMETHEUS_URL: "",
    LOKI_URL: "",
    ELASTICSEARCH_URL: "",
  };
  const url = "postgres://u:p%40ssword@h/d";
  assert.deepEqual(
    ownSecrets({ ...empty, HUB_TOKEN: "hub", DATABASE_URL: url, LOKI_URL: "http://u:lokipass@h" }),
    [
      "hub",
      url,
      "p%40ssword",
      "lokipass",
      "p@ssword",
      "lokipass",
    ],
  );
  assert.deepEqual(ownSecrets({ ...empty, DATABASE_URL: "" }), []);
});

Deno.test("addCounts() adds class by class", () => {
  assert.deepEqual(addCounts([{ a: 1 }, { a: 2, b: 1 }, {}]), { a: 3, b: 1 });
});

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
  "createContextRedactor() takes linear time on $name",
  ({ unit }) => assertLinearWork((size) => redact(unit.repeat(Math.ceil(size / unit.length))), 65_536),
);
