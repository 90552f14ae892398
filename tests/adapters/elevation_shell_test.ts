import assert from "node:assert/strict";
import fc from "fast-check";
import { elevateCommand, shellQuote } from "@gateway/shared/policy/elevation";
import { parseScript } from "@gateway/shared/policy/shell";
import { createGenerator } from "./command_generator.ts";
import { findShells, runTexts } from "./shell_runner.ts";

const PREFIX = "sudo -n -u deploy";
const hostileText = fc.string({
  unit: fc.constantFrom(..."'\"\\$`;|&<>(){}[]*?~#!=-+%^ \t\nabé漢😀", "rm", "$(", "&&", "''", "'\\''", "--"),
  minLength: 1,
  maxLength: 24,
});

/** The words that sudo has to be given for a command: its own, or a shell's with the text untouched. */
function findExpected(command: string): readonly string[] {
  const elevated = elevateCommand(PREFIX, command);
  const sudo = ["sudo", "-n", "-u", "deploy", "--"];
  if (elevated.startsWith(`${PREFIX} -- /bin/sh -c `)) return [...sudo, "/bin/sh", "-c", command];
  const parsed = parseScript(command);
  assert(parsed.kind === "lexed" && parsed.commands.length === 1);
  return [...sudo, ...parsed.commands[0]!.words];
}

Deno.test("elevateCommand() gives sudo the words of the command in every shell", async () => {
  const generate = createGenerator(7);
  const commands = [
    ...fc.sample(hostileText, { numRuns: 700, seed: 7 }),
    ...Array.from({ length: 700 }, generate),
    ...fc.sample(fc.array(hostileText, { minLength: 1, maxLength: 4 }), { numRuns: 300, seed: 8 })
      .map((words) => ["pa", ...words].map(shellQuote).join(" ")),
  ];
  const texts = commands.map((command) => elevateCommand(PREFIX, command));
  for (const shell of await findShells()) {
    const runs = await runTexts(shell, { texts, programs: ["sudo"] });
    for (const [index, command] of commands.entries()) {
      const message = `${shell.name}: ${JSON.stringify(command)} as ${JSON.stringify(texts[index])}`;
      assert.deepEqual(runs[index]!.executed, [findExpected(command)], message);
    }
  }
});

Deno.test("shellQuote() gives back any word in every shell", async () => {
  const words = fc.sample(hostileText, { numRuns: 500, seed: 9 });
  const texts = words.map((word) => `pa ${shellQuote(word)} ${shellQuote("")} ${shellQuote(word)}`);
  for (const shell of await findShells()) {
    const runs = await runTexts(shell, { texts, programs: ["pa"] });
    for (const [index, word] of words.entries()) {
      assert.deepEqual(
        runs[index]!.executed,
        [["pa", word, "", word]],
        `${shell.name}: ${JSON.stringify(word)}`,
      );
    }
  }
});
