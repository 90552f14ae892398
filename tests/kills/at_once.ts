/**
 * Two operators run a command at the same time. Reported successes are real, failures have reasons, files are
 * complete.
 */
import { type KilledCommand, killedCommands, prepare } from "./commands.ts";
import type { KillOptions } from "./kill_run.ts";
import { findLost, findMissing, findTorn, SetUpFolder, type Tree } from "./set_up_folder.ts";
import { createFolder } from "../stage/folder.ts";

/** The allowed error of the second operator: another command is running, or has made the change. */
const WORDS = /edit|changed it|try again|exist|is there|There is|Cannot find|unknown/i;

interface Told {
  readonly success: boolean;
  readonly said: string;
}

/** @throws {Error} the first incomplete file, lost change or failure without a reason */
export async function runAtOnce({ rounds, only, say = () => {} }: KillOptions): Promise<readonly string[]> {
  await using parent = await createFolder();
  const commands = (await killedCommands(parent.path)).filter(({ name }) => only?.includes(name) ?? true);
  const lines: string[] = [];
  for (const command of commands) {
    lines.push(await doubleOften(command, new SetUpFolder(parent.path), rounds));
    say(lines.at(-1) ?? "");
  }
  return lines;
}

async function doubleOften(command: KilledCommand, folder: SetUpFolder, rounds: number): Promise<string> {
  await prepare(command, folder);
  await folder.keep();
  const before = await folder.read();
  const first = await folder.run(command.args);
  expectWords(command, first);
  const after = await folder.read();
  let won = 0;
  for (let round = 0; round < rounds; round++) {
    await folder.putBack();
    const told = await Promise.all([folder.run(command.args), folder.run(command.args)]);
    for (const each of told) expectWords(command, each);
    const winners = told.filter(({ success }) => success).length;
    if (winners === 0 && first.success) {
      fail(
        command,
        `nobody did it: ${told.map(({ said }) => said).join(" ")}`,
      );
    }
    won += winners;
    expectWhole(command, await folder.read(), before, after);
  }
  return `${command.name.padEnd(16)} ${rounds} times two at once: ${won} were told that it is done, ${
    2 * rounds - won
  } why not`;
}

function expectWhole(command: KilledCommand, found: Tree, before: Tree, after: Tree): void {
  const problems = command.keeps === true
    ? findLost(found, before)
    : [...findTorn(found, before, after), ...findMissing(found, after)];
  if (problems.length > 0) fail(command, problems.join("\n  "));
}

function expectWords(command: KilledCommand, { success, said }: Told): void {
  const isKnown = success || WORDS.test(said) || command.done?.test(said) === true;
  if (!isKnown || /defect of|Uncaught/.test(said)) fail(command, `is told: ${said}`);
}

function fail({ name }: KilledCommand, what: string): never {
  throw new Error(`${name}, two at once:\n  ${what}`);
}
