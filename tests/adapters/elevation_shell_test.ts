import assert from "node:assert/strict";
import fc from "fast-check";
import { elevateCommand, parseScript } from "@gateway/shared/policy";
import { shellQuote } from "@gateway/shared/text";
import { readCorpus } from "../firewall/corpus.ts";
import { createDice } from "../firewall/dice.ts";
import { createGrammar } from "../firewall/grammar.ts";
import { createMutator } from "../firewall/mutation.ts";
import { runTexts } from "../firewall/shell_runner.ts";
import { findShells } from "../firewall/shells.ts";

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
  const dice = createDice(7);
  const corpus = await readCorpus();
  const made = [
    ...corpus,
    ...fc.sample(hostileText, { numRuns: 2000, seed: 7 }),
    ...Array.from({ length: 4000 }, createGrammar(dice)),
    ...Array.from({ length: 4000 }, createMutator(dice, corpus).mutate),
    ...fc.sample(fc.array(hostileText, { minLength: 1, maxLength: 4 }), { numRuns: 1000, seed: 8 })
      .map((words) => ["pa", ...words].map(shellQuote).join(" ")),
  ];
  // No argument of a program can hold a NUL, which the signer refuses long before.
  const commands = made.filter((text) => !text.includes("\0")).map((text) => text.toWellFormed());
  const texts = commands.map((command) => elevateCommand(PREFIX, command));
  for (const shell of await findShells()) {
    const runs = await runTexts(shell, { texts, stubs: new Set(["sudo"]) });
    assert(runs !== undefined, shell.name);
    for (const [index, command] of commands.entries()) {
      const message = `${shell.name}: ${JSON.stringify(command)} as ${JSON.stringify(texts[index])}`;
      assert.deepEqual(runs[index]!, [findExpected(command)], message);
    }
  }
});
