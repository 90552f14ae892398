import { systemClock } from "@gateway/shared/clock";
import { basename, dirname, join, resolve } from "node:path";
import { describeReadFailure } from "@gateway/shared/files";
import { formatDuration, quoteText } from "@gateway/shared/text";
import { formatTimestamp } from "@gateway/shared/wire";
import { type Call, command, type CommandGroup, count, type Given } from "../kit/command.ts";
import { badConfig, findById, notFound } from "../kit/output.ts";
import { CONFIG_KINDS, loadNeighbor } from "../kit/signer_file.ts";
import { ageCell, shortenIds } from "../kit/table.ts";
import { describeRecording, play, readEvents } from "./replay.ts";

const DIRECTORY = {
  "--recordings <directory>": "directory (default: session_recording_dir of the brokers)",
} as const;
const HELP = `
The brokers' configs are config.json, mcp.json and mcp-http.json next to the signer's config (--config).
`;

/** `recording`: recorded sessions. */
export const RECORDING: CommandGroup = {
  name: "recording",
  summary: "List and play recorded sessions.",
  commands: [
    command({
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
        const now = systemClock.now();
        const shortId = shortenIds(found.map(({ id }) => id));
        const rows = found.map(({ id, timestamp, seconds, size, gateway: { caller, host } }) => {
          const age = ageCell(formatTimestamp(timestamp * 1000), now);
          const length = formatDuration(Math.round(seconds) * 1000);
          return [shortId(id), age, caller, host, length, `${Math.ceil(size / 1024)} KiB`];
        });
        const columns = ["ID", "AGE", "WHO", "HOST", "LENGTH", "SIZE"];
        const none =
          "(no recordings; pass --recordings, or set session_recording_dir in the broker's config)";
        return { json: found, lines: [{ none, columns, rows }] };
      },
    }),
    command({
      name: "play",
      summary: "Play a recorded session in the terminal.",
      takes: {
        ...DIRECTORY,
        "<recording>": "session ID or a unique prefix of it, or file",
        "--speed <factor>": count("times as fast, 1 to 100 (default: 1)", 1, 100),
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
        const isFile = /\/|\.cast$/.test(recording);
        const listed = isFile ? [] : await findRecordings(flags, call);
        const id = isFile
          ? ""
          : findById(recording, listed.map(({ id }) => id), "recording", "broker-ctl recording list");
        const path = listed.find((each) => each.id === id)?.path ?? resolve(call.workingFolder, recording);
        if (await reading(path, describeRecording(path)) === undefined) {
          throw badConfig(`Cannot play ${quoteText(path)}: not an asciicast v2 file`);
        }
        await play(readEvents(path), speed, call);
      },
    }),
  ],
};

async function findRecordings(flags: Given<typeof DIRECTORY>, call: Call) {
  const found = [];
  for (const directory of await findDirectories(flags, call)) {
    for (const { name, isFile } of await reading(directory, Array.fromAsync(Deno.readDir(directory)))) {
      const path = join(directory, name);
      const facts = isFile && name.endsWith(".cast")
        ? await reading(path, describeRecording(path))
        : undefined;
      if (facts !== undefined) found.push({ id: basename(name, ".cast"), path, ...facts });
    }
  }
  return found.toSorted((left, right) => left.timestamp - right.timestamp);
}

async function findDirectories({ recordings, config = "signer.json" }: Given<typeof DIRECTORY>, call: Call) {
  if (recordings !== undefined) return [resolve(call.workingFolder, recordings)];
  const signer = resolve(call.workingFolder, config);
  const names = ["config.json", "mcp.json", "mcp-http.json"];
  const brokers = await Promise.all(names.map((name) => loadNeighbor(signer, name, CONFIG_KINDS.broker)));
  const named = brokers.flatMap((broker) => broker?.config.session_recording_dir || []);
  return new Set(named.map((each) => resolve(dirname(signer), each)));
}

function reading<T>(path: string, read: Promise<T>): Promise<T> {
  return read.catch((cause) => {
    const problem = `Cannot read ${quoteText(path)}: ${describeReadFailure(cause)}`;
    throw notFound(problem, cause, "broker-ctl recording list");
  });
}
