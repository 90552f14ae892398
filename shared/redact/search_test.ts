import assert from "node:assert/strict";
import { finish } from "../clock.ts";
import { assertLinearWork } from "../testing/linear_work.ts";
import { findSecrets, maskSecrets } from "./redact.ts";
import { Searched } from "./catalog.ts";
import { COMMAND_SAMPLES, DOCUMENT_SAMPLES } from "./testing/samples.ts";

const mask = (text: string) => finish(maskSecrets(text, "documents", () => "[REDACTED]"));

Deno.test.each(DOCUMENT_SAMPLES)("maskSecrets() masks $name", ({ text, masked }) => {
  assert.equal(mask(text), masked);
  assert.equal(mask(masked), masked);
});

/** In commands, the working directory and the scheme of credentials stay. */
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

Deno.test("maskSecrets() takes linear time on a value of backslashes", () =>
  assertLinearWork((size) => mask(`password="${"\\".repeat(size)}`), 131_072));
