import assert from "node:assert/strict";
import fc from "fast-check";
import { assertLinearWork } from "../testing/linear_work.ts";
import { createRedactor } from "./redact.ts";
import { createRedactStreams, MAX_HELD, type OpenRedactStream } from "./stream.ts";
import { COMMAND_SAMPLES, DOCUMENT_SAMPLES } from "./testing/samples.ts";

const redact = createRedactor(undefined);
const openStream = createRedactStreams(undefined);
const KEY = `-----BEGIN OPENSSH PRIVATE KEY-----\n${"b3BlbnNzaC1rZXk+/=\n".repeat(12)}` +
  "-----END OPENSSH PRIVATE KEY-----";

function masked(pieces: readonly string[], open: OpenRedactStream = openStream): string {
  const stream = open();
  return pieces.map((piece) => stream.push(piece)).join("") + stream.end();
}

const SAMPLES: Readonly<Record<string, readonly string[]>> = {
  "flag-password": [
    'cmd --password="h\n2" x',
    "cmd --token \n \t\n abc x",
    "c --api-key=a -secret 'a\nb\n' --pass=\"not closed\nx",
    "c --token 'a --token \"b' c\" d",
  ],
  "mysql-p-attached": ["mysql -u app\n-phunter2 db", "mariadb-dump -u a -px; mysql\n\n-py"],
  "env-assignment": ["A TOKEN=abc run\nDB_PWD='a\nb' x", 'AWS_SECRET_ACCESS_KEY="not closed\nx\ny'],
  "uri-userinfo": ["https://u:p4ss@h/x\nredis://:p4ss@h"],
  "auth-header": ["authorization\n:\nbearer\n a.b-c d", '"proxy-authorization": "basic eA=="\nx'],
  "curl-user": ["curl\n-u\nme:'s 3\ncret' h", '-u me:s3cret\n --user=me:"x\ny" z'],
  "jwt": ["x eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl y"],
  "aws-key-id": ["a AKIAIOSFODNN7EXAMPLE b"],
  "github-token": [`a ghp_${"a1".repeat(10)} b github_pat_${"a1".repeat(10)}`],
  "gitlab-token": [`a glpat-${"a-".repeat(10)} b`],
  "slack-token": ["a xoxb-1234567890-abc b"],
  "private-key-block": [
    `a\n${KEY}\nb ${KEY} c\n`,
    `"${KEY.replaceAll("\n", "\\n")}" b`,
    `a\r\n${KEY.replaceAll("\n", "\r\n")}\r\nb`,
    "a\n-----BEGIN PRIVATE KEY-----\nb\n-----END CERTIFICATE-----\nc",
  ],
};

Deno.test.each(Object.keys(SAMPLES).map((name) => ({ name })))(
  "createRedactStreams() finds what $name finds, wherever the pieces end",
  ({ name }) => {
    for (const sample of SAMPLES[name] ?? []) {
      const text = `before\n${sample}\nafter TOKEN=z\n`;
      const whole = redact(text);
      assert.ok(whole.includes(`[REDACTED:${name}]`), sample);
      for (let first = 0; first <= text.length; first++) {
        assert.equal(masked([text.slice(0, first), text.slice(first)]), whole, `${sample} cut at ${first}`);
      }
      assert.equal(masked([...text]), whole, `${sample} in single characters`);
    }
  },
);

Deno.test.each([...COMMAND_SAMPLES, ...DOCUMENT_SAMPLES])(
  "createRedactStreams() masks $name for any chunk boundary",
  ({ text }) => {
    const whole = redact(text);
    for (let first = 0; first <= text.length; first++) {
      assert.equal(masked([text.slice(0, first), text.slice(first)]), whole, `cut at ${first}`);
    }
    assert.equal(masked([...text]), whole);
  },
);

const UNITS = fc.constantFrom(
  ...["--pass", "PWD", "_", "TOKEN", "=", " ", "\n", "\n", '"', "'", ":", "://", "@", "-u", "--token", "x"],
  ...[
    "mysql",
    " -p",
    "authorization",
    "bearer ",
    "-----BEGIN ",
    "-----END ",
    "PRIVATE KEY-----",
    "AKIA0123456789ABCDEF",
  ],
  ...["PGP SECRET KEY BLOCK-----", "password", "api_key", "cookie", "login ", "name:", "value: ", "basic\n"],
  ...["mariadb", "sk_live_", "hooks.slack.com/", "abc/", "?sig=", "/", "\\", ",", ";", "-P", "to\u212aen"],
  ...["eyJaaaaaaaa", ".bbbbbbbb", "xoxb-0123456789", "[REDACTED:", "\ud800", "é", "|"],
  ...[
    "<",
    ">",
    "</",
    ": |\n  ",
    ":\n----\n",
    "\n\n",
    "- --token\n",
    '\\"',
    '",',
    "<![CDATA[",
    "]]>",
    "=\n----\n",
    ": ",
  ],
);

Deno.test("createRedactStreams() returns the redactor's result for any text in any chunks", () => {
  fc.assert(
    fc.property(fc.array(fc.array(UNITS, { maxLength: 5 }), { maxLength: 8 }), (pieces) => {
      const texts = pieces.map((units) => units.join(""));
      assert.equal(masked(texts), redact(texts.join("")));
    }),
    { numRuns: 3000 },
  );
});

Deno.test("createRedactStreams() emits complete lines immediately if no secret started in them", () => {
  const stream = openStream();
  assert.equal(stream.push("the key is here\nnext"), "the key is here\n");
  assert.equal(stream.push(' TOKEN="a"\n'), `next TOKEN=[REDACTED:env-assignment]\n`);
  assert.equal(stream.push("mysql -u x\n"), "");
  assert.equal(stream.push("done\n"), "mysql -u x\ndone\n");
});

Deno.test("createRedactStreams() emits a key's mark once its BEGIN line ends, and no part of the key", () => {
  const stream = openStream();
  assert.equal(stream.push("a -----BEGIN PRIVATE KEY-----\nMII"), "a [REDACTED:private-key-block]");
  assert.equal(stream.push("x\n".repeat(1_000_000)), "");
  assert.equal(stream.push("-----END PRIVATE KEY----"), "");
  assert.equal(stream.push("-\nb\n"), "\nb\n");
});

Deno.test.each([
  { name: "a quote", start: 'TOKEN="', close: '"' },
  { name: "the other quote", start: "x --token 'a ", close: "'" },
  { name: "an option on a long line", start: "mysql -u x ", close: "-psecretsecret " },
  { name: "an option after spaces", start: "--token ", close: "secretsecret ", filler: " \n" },
  { name: "a header after spaces", start: "authorization ", close: ": bearer secretsecret ", filler: "   " },
  { name: "a word of that length", start: "TOKEN=", close: "secretsecret ", filler: "secret" },
  {
    name: "a word with a secret behind its beginning",
    start: "",
    close: "://u:secretsecret@h ",
    filler: "abc,",
  },
  { name: "a key", start: "-----BEGIN PRIVATE KEY-----", close: "-----END PRIVATE KEY-----" },
  {
    name: "a key on one line",
    start: "-----BEGIN PRIVATE KEY-----",
    close: "-----END PRIVATE KEY-----",
    filler: "\\n",
  },
])(
  "createRedactStreams() masks $name that is longer than the buffer",
  ({ start, close, filler = "words secret " }) => {
    const text = start + filler.repeat(Math.ceil(3 * MAX_HELD / filler.length)) + close;
    for (const size of [1000, 32_768, text.length]) {
      const pieces: string[] = [];
      for (let at = 0; at < text.length; at += size) pieces.push(text.slice(at, at + size));
      const given = masked([...pieces, "\nTOKEN=z\nafter\n"]);
      assert.ok(given.endsWith("\nTOKEN=[REDACTED:env-assignment]\nafter\n"), given.slice(-200));
      assert.ok(!given.includes("secretsecret"), `${given.length} in pieces of ${size}`);
      if (filler.includes("words") && !start.startsWith("mysql")) assert.ok(!given.includes("words"));
    }
  },
);

Deno.test.each([
  { name: "a part of a word", text: "a\nftp://u:hun", left: "a\n" },
  { name: "what a quote begins", text: 'a\nTOKEN="b c\nd e', left: "a\nTOKEN=[REDACTED:env-assignment]" },
  { name: "no text of other lines", text: "a\n b ", left: "a\n b " },
  { name: "a key", text: "-----BEGIN PRIVATE KEY-----\nab", left: "[REDACTED:private-key-block]" },
  { name: "a value", text: "a --token\nabc", left: "a --token\n" },
  { name: "no mark", text: "TOKEN=abc\nx", left: "TOKEN=[REDACTED:env-assignment]\n" },
])("createRedactStreams() omits $name from truncated text", ({ text, left }) => {
  for (let first = 0; first <= text.length; first++) {
    const stream = openStream();
    assert.equal(stream.push(text.slice(0, first)) + stream.push(text.slice(first)) + stream.cut(), left);
  }
});

Deno.test.each([
  { name: "in a line", regex: "pin (?P<secret>[0-9]+)", text: "a pin 12\nb pin 3 c" },
  { name: "over lines", regex: "(?s)<pin>.*?</pin>", text: "a\n<pin>\n1\n2</pin>\nb" },
  { name: "over a line break", regex: "pin:\\s+(?P<secret>[0-9]+)", text: "a\npin:\n12\nb" },
  { name: "over what is not something", regex: 'pin="[^"]*"', text: 'a\npin="1\n2"\nb' },
  { name: "with a class in a class", regex: "pin[[:^alpha:]]+x", text: "a\npin\n1\nx\nb" },
  { name: "with an escaped line break", regex: "pin\\x0a[0-9]", text: "a\npin\n1\nb" },
])("createRedactStreams() masks an operator's secret $name for any chunk boundary", ({ regex, text }) => {
  const config = { patterns: [{ name: "op", regex }] };
  const whole = createRedactor(config)(text);
  assert.match(whole, /REDACTED:op/);
  const open = createRedactStreams(config);
  for (let first = 0; first <= text.length; first++) {
    assert.equal(masked([text.slice(0, first), text.slice(first)], open), whole, `cut at ${first}`);
  }
});

Deno.test("createRedactStreams() masks an operator's secret that spans lines in a long text", () => {
  const secret = `<pin>${"1\n".repeat(5000)}</pin>`;
  const text = `${"a\n".repeat(60_000)}${secret}${"b\n".repeat(60_000)}`;
  const config = { patterns: [{ name: "op", regex: "(?s)<pin>.*?</pin>" }] };
  const pieces = Array.from(
    { length: Math.ceil(text.length / 1000) },
    (_, index) => text.slice(index * 1000, (index + 1) * 1000),
  );
  assert.equal(masked(pieces, createRedactStreams(config)), createRedactor(config)(text));
});

Deno.test("createRedactStreams() holds nothing back if the built-in rules are disabled", () => {
  assert.equal(createRedactStreams({ disable_defaults: true })().push("TOKEN=x"), "TOKEN=x");
});

Deno.test.each([
  { name: "keys without end", text: "-----BEGIN PRIVATE KEY-----\n" },
  { name: "secrets that overlap", text: `TOKEN="a\\" password='b" TOKEN='c\\' password="d' ` },
  { name: "quotes without end", text: "TOKEN='\\'\n" },
])(
  "createRedactStreams() needs linear time for $name in one chunk",
  ({ text }) =>
    assertLinearWork((size) => {
      const stream = openStream();
      stream.push(`${text.repeat(Math.ceil(size / text.length))}\n`);
      stream.end();
    }, 1 << 18),
);

Deno.test.each([
  "TOKEN=x ",
  'TOKEN="',
  'TOKEN="\n',
  "--token '\n--token \"\n",
  "--token ",
  "--token\n",
  "\n",
  "mysql ",
  "mysql\n",
  "authorization\n:\n",
  "-u\n",
  "-u a:'\n",
  "-----BEGIN PRIVATE KEY-----\n",
  "-----END PRIVATE KEY-----\n",
  "-----BEGIN PRIVATE KEY-----\n-----END ",
  "A_TOKEN_",
  "://a:",
  "<password>x\n",
  "<token>\n",
  "password: |\n  ",
  "token:\n",
  "token:\n----\n",
  "- --token\n",
].map((unit) => ({ name: JSON.stringify(unit), unit })))(
  "createRedactStreams() takes linear time on $name, unit by unit",
  ({ unit }) =>
    assertLinearWork((size) => {
      const stream = openStream();
      for (let at = 0; at < size; at += unit.length) stream.push(unit);
      stream.end();
      // Even the smaller input is longer than the buffer.
    }, 9 * MAX_HELD),
);
