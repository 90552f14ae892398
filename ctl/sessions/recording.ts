import { basename, dirname, join, resolve } from "node:path";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { describeReadFailure, ifThere } from "@gateway/shared/files";
import { formatDuration, quoteText, visibleText } from "@gateway/shared/text";
import { formatTimestamp } from "@gateway/shared/wire";
import { InvalidArgumentError } from "commander";
import { once } from "../kit/arguments.ts";
import { type Call, command, type CommandGroup, type Given } from "../kit/command.ts";
import { badConfig, type Environment, notFound } from "../kit/output.ts";
import { CONFIG_KINDS, loadNeighbor } from "../kit/signer_file.ts";
import { EMPTY_CELL, tableOr } from "../kit/table.ts";
import { describeRecording, readEvents } from "./recording_file.ts";
import { createTerminalFilter } from "./terminal_filter.ts";

const DIRECTORY = {
  "--recordings <directory>":
    "directory of recordings (default: session_recording_dir of the brokers' configs)",
} as const;
const LIST_COMMAND = "broker-ctl recording list";
const HELP = `
By default, the recordings are in the directories that config.json, mcp.json and mcp-http.json next to the signer's
config (--config) name in session_recording_dir.
`;

const LIST = command({
  name: "list",
  summary: "List recorded sessions.",
  takes: DIRECTORY,
  help: `
Examples:
  broker-ctl recording list --config gateway/signer.json
  broker-ctl recording list --recordings /var/lib/gateway/broker/recordings
${HELP}`,
  async run(flags, call) {
    const found = await findRecordings(flags, call);
    const rows = found.map(({ id, timestamp, seconds, size, gateway }) => [
      id,
      formatTimestamp(timestamp * 1000),
      gateway?.caller ?? EMPTY_CELL,
      gateway?.host ?? EMPTY_CELL,
      seconds === undefined ? EMPTY_CELL : formatDuration(Math.round(seconds) * 1000),
      `${Math.ceil(size / 1024)} KiB`,
    ]);
    const heading = ["ID", "TIME", "WHO", "HOST", "LENGTH", "SIZE"];
    return { json: found, lines: tableOr("(no recordings)", heading, rows, call.terminal.columns) };
  },
});

const PLAY = command({
  name: "play",
  summary: "Play a recorded session in the terminal.",
  takes: {
    ...DIRECTORY,
    "<recording>": "session ID or a unique prefix of it, or file",
    "--speed <factor>": { text: "speed, such as 4 or 0.5 (default: 1)", read: readSpeed },
  },
  help: `
Examples:
  broker-ctl recording play 5f75dc07 --speed 4
  broker-ctl recording play ./5f75dc071de6c26330dd3468.cast

Shows the commands and their output with the original pauses, at most 2 s each. Ctrl-C or q ends the playback. Without a
terminal, the command prints everything immediately. Output of the host can contain text, colors and cursor movement.
The playback removes all other control sequences, for example for the clipboard, the title and queries of the terminal.
It escapes invisible characters.
${HELP}`,
  async run({ recording, speed = 1, ...flags }, call) {
    const path = await findRecording(recording, flags, call);
    const facts = await describeRecording(path).catch((cause) => {
      throw notFound(`Cannot play ${quoteText(path)}: ${describeReadFailure(cause)}`, cause, LIST_COMMAND);
    });
    if (facts === undefined) {
      throw badConfig(`Cannot play ${quoteText(path)}: it is not an asciicast v2 file`);
    }
    await play(readEvents(path), speed, call);
  },
});

/** `recording`: recorded sessions. */
export const RECORDING: CommandGroup = {
  name: "recording",
  summary: "List and play recorded sessions.",
  commands: [LIST, PLAY],
};

function readSpeed(text: string, previous: undefined): number {
  const speed = /^\d{1,3}(?:\.\d{1,3})?$/.test(once(text, previous)) ? Number(text) : 0;
  if (speed > 0) return speed;
  throw new InvalidArgumentError("Expected a number such as 4 or 0.5.");
}

async function findDirectories({ recordings, config = "signer.json" }: Given<typeof DIRECTORY>, call: Call) {
  if (recordings !== undefined) return [resolve(call.workingFolder, recordings)];
  const signer = resolve(call.workingFolder, config);
  const names = ["config.json", "mcp.json", "mcp-http.json"];
  const brokers = await Promise.all(names.map((name) => loadNeighbor(signer, name, CONFIG_KINDS.broker)));
  const named = brokers.flatMap((broker) => broker?.config.session_recording_dir || []);
  if (named.length > 0) return [...new Set(named.map((each) => resolve(dirname(signer), each)))];
  const message = `Cannot find recordings: no broker config in ${
    quoteText(dirname(signer))
  } sets session_recording_dir`;
  throw badConfig(message, undefined, `${LIST_COMMAND} --recordings /var/lib/gateway/broker/recordings`);
}

async function findRecordings(flags: Given<typeof DIRECTORY>, call: Call) {
  const found = [];
  for (const directory of await findDirectories(flags, call)) {
    const entries = await Array.fromAsync(Deno.readDir(directory)).catch((cause) => {
      throw notFound(`Cannot read recordings ${quoteText(directory)}: ${describeReadFailure(cause)}`, cause);
    });
    for (const { name, isFile } of entries) {
      if (!isFile || !name.endsWith(".cast")) continue;
      const path = join(directory, name);
      const facts = await ifThere(describeRecording(path));
      if (facts !== undefined) found.push({ id: basename(name, ".cast"), path, ...facts });
    }
  }
  return found.toSorted((left, right) => left.timestamp - right.timestamp);
}

async function findRecording(wanted: string, flags: Given<typeof DIRECTORY>, call: Call): Promise<string> {
  if (/\/|\.cast$/.test(wanted)) return resolve(call.workingFolder, wanted);
  const found = (await findRecordings(flags, call)).filter(({ id }) => id.startsWith(wanted));
  const [only] = found.length > 1 ? found.filter(({ id }) => id === wanted) : found;
  if (only !== undefined) return only.path;
  const message = found.length > 1
    ? `${found.length} recordings have the ID prefix ${quoteText(wanted)}`
    : `no recording has the ID prefix ${quoteText(wanted)}`;
  throw notFound(message, undefined, LIST_COMMAND);
}

/** The longest pause of a playback. */
const MAX_PAUSE_SECONDS = 2;

/** Plays events in the terminal until they end, or the operator ends the playback. */
export async function play(
  events: ReturnType<typeof readEvents>,
  speed: number,
  { terminal, keys, signal }: Environment,
  clock: Clock = systemClock,
): Promise<void> {
  const ended = new AbortController();
  const end = signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]);
  const isTimed = terminal.columns !== undefined;
  const show = async () => {
    const filter = createTerminalFilter();
    let last = 0;
    for await (const { seconds, type, data } of events) {
      const pause = Math.min(Math.max(0, seconds - last), MAX_PAUSE_SECONDS) / speed;
      last = seconds;
      if (isTimed && pause > 0) await clock.sleep(pause * 1000, end).catch(() => {});
      if (end.aborted) break;
      if (type === "i") terminal.out(`\x1b[0;1m$ ${visibleText(data.trimEnd())}\x1b[0m\r\n`);
      else if (type === "o" || type === "e") terminal.out(filter(data));
    }
    terminal.out("\x1b[0m\r\n");
  };
  const followKeys = async () => {
    // In raw mode, the terminal delivers Ctrl-C as a character.
    for await (const key of keys?.(end) ?? []) if (key === "q" || key === "\x03") return;
  };
  const following = isTimed && keys !== undefined ? [show, followKeys] : [show];
  await Promise.all(following.map((follow) => follow().finally(() => ended.abort())));
}
