/**
 * Kills commands that write at any moment and runs them again. The files must be complete after the kill, and at the end
 * equal to the files of an undisturbed run.
 */
import { type KilledCommand, killedCommands, prepare } from "./commands.ts";
import { findLost, findMissing, findTorn, leftIn, SetUpFolder, type Tree } from "./set_up_folder.ts";
import { createFolder } from "../stage/folder.ts";

/** The number of rounds, the selected commands, and the output. */
export interface KillOptions {
  readonly rounds: number;
  /** Default: all commands. */
  readonly only?: readonly string[];
  readonly say?: (text: string) => void;
}

/** The moment of the kill: milliseconds after the start, or the n-th change of a file. */
interface Moment {
  readonly delay?: number;
  readonly event?: number;
}

interface Count {
  readonly name: string;
  killed: number;
  ended: number;
  left: number;
  /** The number of second runs that made or completed the change. */
  again: number;
  /** The number of second runs that found the change complete. */
  done: number;
  mended: number;
}

/** @throws {Error} the first incomplete file, lost change or stuck command */
export async function runKills({ rounds, only, say = () => {} }: KillOptions): Promise<readonly string[]> {
  await using parent = await createFolder();
  const commands = (await killedCommands(parent.path)).filter(({ name }) => only?.includes(name) ?? true);
  const counts: Count[] = [];
  for (const command of commands) {
    const count = await killOften(command, new SetUpFolder(parent.path), rounds);
    counts.push(count);
    say(format(count));
  }
  return counts.map(format);
}

async function killOften(command: KilledCommand, folder: SetUpFolder, rounds: number): Promise<Count> {
  await prepare(command, folder);
  await folder.keep();
  const before = await folder.read();
  const from = performance.now();
  let events = 0;
  const undisturbed = await watching(folder, () => events++, () => folder.run(command.args));
  if (!undisturbed.success && command.done?.test(undisturbed.said) !== true) {
    throw new Error(`${command.name}: ${undisturbed.said}`);
  }
  const takes = performance.now() - from;
  const after = await folder.read();
  const count = { name: command.name, killed: 0, ended: 0, left: 0, again: 0, done: 0, mended: 0 };
  for (let round = 0; round < rounds; round++) {
    await folder.putBack();
    // Kill at a time or at a file change, because the changes happen close together at the end.
    const moment = round % 3 === 0
      ? { delay: takes * (0.3 + 0.8 * Math.random()) }
      : { event: 1 + Math.floor(events * Math.random()) };
    await killOnce(command, folder, { before, after, moment, count });
  }
  return count;
}

async function killOnce(
  command: KilledCommand,
  folder: SetUpFolder,
  { before, after, moment, count }: {
    readonly before: Tree;
    readonly after: Tree;
    readonly moment: Moment;
    readonly count: Count;
  },
): Promise<void> {
  const signal = await runUntil(moment, command, folder);
  count[signal === "SIGKILL" ? "killed" : "ended"] += 1;
  const found = await folder.read();
  if (leftIn(found).length > 0) count.left += 1;
  expectNone(
    command,
    "killed",
    command.keeps === true ? findLost(found, before) : findTorn(found, before, after),
  );
  const again = await folder.run(command.args);
  const isDone = command.done?.test(again.said) === true;
  if (!again.success && !isDone) throw new Error(`${command.name}, run again: ${again.said}`);
  count[again.success ? "again" : "done"] += 1;
  let missing = findMissing(await folder.read(), after);
  if (missing.length > 0 && isDone && command.mend !== undefined) {
    const { success, said } = await folder.run(command.mend);
    if (!success) throw new Error(`${command.mend.join(" ")}: ${said}`);
    missing = findMissing(await folder.read(), after).filter((text) => !text.includes("backup/"));
    count.mended += 1;
  }
  if (command.keeps === true) missing = missing.filter((text) => !text.endsWith("is there too"));
  expectNone(command, "killed and run again", missing);
}

async function runUntil(
  { delay, event }: Moment,
  { args }: KilledCommand,
  folder: SetUpFolder,
): Promise<Deno.Signal | null> {
  let [child, seen]: [Deno.ChildProcess | undefined, number] = [undefined, 0];
  // The process may already have ended.
  const kill = () => {
    try {
      child?.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  };
  const timer = delay === undefined ? undefined : setTimeout(kill, delay);
  const onEvent = () => {
    if (++seen === event) kill();
  };
  const { signal } = await watching(folder, onEvent, () => (child = folder.start(args)).output());
  clearTimeout(timer);
  return signal;
}

/** Runs an action and calls a function for each file change meanwhile. */
async function watching<T>(folder: SetUpFolder, onEvent: () => void, act: () => Promise<T>): Promise<T> {
  const watcher = Deno.watchFs(folder.path);
  const told = (async () => {
    for await (const { kind } of watcher) if (kind !== "access") onEvent();
  })();
  try {
    return await act();
  } finally {
    watcher.close();
    await told;
  }
}

function expectNone({ name }: KilledCommand, what: string, problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`${name}, ${what}:\n  ${problems.join("\n  ")}`);
}

function format({ name, killed, ended, left, again, done, mended }: Count): string {
  return `${name.padEnd(16)} killed ${killed} (something left beside: ${left}), ended before ${ended}; ` +
    `run again: did it ${again}, found it done ${done}${mended > 0 ? `, mended by hand ${mended}` : ""}`;
}
