import assert from "node:assert/strict";
import { lexShell } from "../../shared/policy/shell_lexer.ts";
import { parseCommand } from "@gateway/shared/policy/shell";
import { createGenerator, PROGRAMS } from "./command_generator.ts";
import { findShells, runTexts } from "./shell_runner.ts";

// The firewall's whole promise: what it believes a text runs is what every shell runs. Seeded, so that a
// failure comes back; FIREWALL_SEED and FIREWALL_COMMANDS run another or a longer series.
const SEED = Number(Deno.env.get("FIREWALL_SEED") ?? "20240607");
const COMMANDS = Number(Deno.env.get("FIREWALL_COMMANDS") ?? "3000");

interface Accepted {
  readonly text: string;
  readonly commands: readonly (readonly string[])[];
}

function generateAccepted(): readonly Accepted[] {
  const generate = createGenerator(SEED);
  const accepted: Accepted[] = [];
  while (accepted.length < COMMANDS) {
    const text = generate();
    const parsed = parseCommand(text);
    if (parsed.kind === "commands") accepted.push({ text, commands: parsed.commands });
  }
  return accepted;
}

/** The recorded commands that run: a program of ours ends with 0, any other name is not found. */
function findExpected({ text, commands }: Accepted): readonly (readonly string[])[] {
  const lexed = lexShell(text);
  assert(lexed.kind === "lexed");
  let runs = true;
  let succeeded = true;
  return commands.filter((words, index) => {
    const operator = lexed.operators[index - 1];
    if (operator === "||") runs = !succeeded;
    else if (operator === "&&") runs = succeeded;
    else if (operator === ";") runs = true;
    const isProgram = PROGRAMS.includes(words[0]!);
    if (runs) succeeded = isProgram;
    return runs && isProgram;
  });
}

// A descriptor that is not open fails the command in every shell: then it did not run, which is no danger.
function mayFail(text: string): boolean {
  return /[3-9][<>]&|[<>]&[ \t]*[3-9-]/.test(text);
}

function sortWords(commands: readonly (readonly string[])[]): readonly string[] {
  return commands.map((words) => JSON.stringify(words)).sort();
}

function isWithin(few: readonly string[], many: readonly string[]): boolean {
  const left = [...many];
  return few.every((item) => {
    const index = left.indexOf(item);
    if (index >= 0) left.splice(index, 1);
    return index >= 0;
  });
}

Deno.test("parseCommand() believes of every accepted text what the shells do", async (test) => {
  const accepted = generateAccepted();
  const texts = accepted.map(({ text }) => text);
  const shells = await findShells();
  await Promise.all(shells.map((shell) =>
    test.step({
      name: shell.name,
      sanitizeOps: false,
      sanitizeResources: false,
      sanitizeExit: false,
      fn: async () => {
        const runs = await runTexts(shell, { texts, programs: PROGRAMS });
        for (const [index, command] of accepted.entries()) {
          const executed = sortWords(runs[index]!.executed);
          const believed = sortWords(findExpected(command));
          const message = `${shell.name}: ${JSON.stringify(command.text)}`;
          if (mayFail(command.text)) assert(isWithin(executed, sortWords(command.commands)), message);
          else assert.deepEqual(executed, believed, message);
        }
      },
    })
  ));
});
