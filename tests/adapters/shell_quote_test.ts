import assert from "node:assert/strict";
import fc from "fast-check";
import { shellQuote, singleQuote } from "@gateway/shared/text";

/** Every shell that a login account of a host may have. */
const SHELLS: readonly (readonly [string, ...string[]])[] = [
  ["/bin/sh"],
  ["bash"],
  ["dash"],
  ["busybox", "ash"],
  ["ksh"],
  ["mksh"],
  ["yash"],
  ["zsh"],
];

const UNITS = [
  ..."'\"\\$`;|&<>(){}[]*?~#!=-+%^:@,./ \t\n\x07\x1b\x7fabé漢😀",
  "=ls",
  "~root",
  "$(",
  "''",
  "'\\''",
  "--",
];
const word = fc.string({ unit: fc.constantFrom(...UNITS), maxLength: 24 });

Deno.test.each(SHELLS.map((shell) => ({ name: shell.join(" "), shell })))(
  "shellQuote() and singleQuote() give $name every word as it is",
  async ({ name, shell: [program, ...args] }) => {
    const words = ["=ls", "a==ls", "~", "", ...fc.sample(word, { numRuns: 2000, seed: 9 })];
    const texts = words.flatMap((text) => [shellQuote(text), singleQuote(text)]);
    // A builtin of each of them, so that no length of an argument list is exceeded.
    const command = new Deno.Command(program, {
      args: [...args, "-c", `printf '%s\\0' ${texts.join(" ")}`],
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C.UTF-8" },
      stdin: "null",
    });
    const output = await command.output().catch(() => undefined);
    if (output === undefined) {
      if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") throw new Error(`Shell not installed: ${name}`);
      await Deno.stderr.write(new TextEncoder().encode(`skipped: shell not installed: ${name}\n`));
      return;
    }
    assert.equal(new TextDecoder().decode(output.stderr), "");
    assert.deepEqual(
      new TextDecoder().decode(output.stdout).split("\0").slice(0, -1),
      words.flatMap((text) => [text, text]),
    );
  },
);
