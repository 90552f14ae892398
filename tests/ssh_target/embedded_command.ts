// @ts-types="./ssh2_server.d.ts"
import type { ServerChannel } from "ssh2";
import { signalGroup } from "./process_tree.ts";

const SHELL = "/bin/sh";
const SIGNALS: readonly string[] = ["HUP", "INT", "QUIT", "ALRM", "TERM", "KILL", "USR1", "USR2"];
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

export interface CommandOptions {
  readonly command: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Merges both streams and converts line ends like a terminal. There is no real terminal. */
  readonly pty: boolean;
}

export interface RunningCommand {
  /** Sends a signal, by its name without `SIG`, to the command and its descendants. */
  signal(name: string): void;
  readonly ended: Promise<void>;
}

/** Runs a command in its own process group and reports its end over the channel. */
export function startCommand(channel: ServerChannel, options: CommandOptions): RunningCommand {
  const process = new Deno.Command(SHELL, {
    args: ["-c", options.pty ? `exec 2>&1\n${options.command}` : options.command],
    clearEnv: true,
    env: options.environment,
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let running = true;
  const signal = (name: string) => {
    if (running && SIGNALS.includes(name)) signalGroup(process.pid, name);
  };
  feed(channel, process.stdin);
  // Like sshd: a terminal hangs up. Commands without a terminal detect the close only when they write.
  if (options.pty) channel.on("close", () => signal("HUP"));
  // A channel closed without a status reports an internal error to the client.
  const ended = report(channel, process, options.pty).catch(() => void channel.end()).finally(() => {
    running = false;
  });
  return { signal, ended };
}

/** Writes the client's input to the command. Reads on after its end, so that the channel can close. */
async function feed(channel: ServerChannel, stdin: WritableStream<Uint8Array>): Promise<void> {
  const writer = stdin.getWriter();
  channel.on("data", (chunk: Uint8Array) => void writer.write(chunk).catch(() => {}));
  await new Promise<void>((resolve) => channel.once("end", resolve).once("close", resolve));
  await writer.close().catch(() => {});
}

async function report(channel: ServerChannel, process: Deno.ChildProcess, pty: boolean): Promise<void> {
  const writer = new ChannelWriter(channel);
  const ends = pty ? withCarriageReturns : (chunk: Uint8Array) => chunk;
  const [status] = await Promise.all([
    process.status,
    copy(process.stdout, (chunk) => writer.write(channel, ends(chunk))),
    copy(process.stderr, (chunk) => writer.write(channel.stderr, chunk)),
  ]);
  if (status.signal === null) channel.exit(status.code);
  else channel.exit(status.signal.replace(/^SIG/, ""), false, "");
  channel.end();
}

async function copy(
  source: ReadableStream<Uint8Array>,
  write: (chunk: Uint8Array) => Promise<boolean>,
): Promise<void> {
  for await (const chunk of source) {
    // Leaving the loop closes the pipe, and the command gets SIGPIPE.
    if (!await write(chunk)) return;
  }
}

/** The channel's private field for a write that waits for window space. */
const WAITING = ["_chunk", "_chunkcb", "_chunkErr", "_chunkcbErr"];

/**
 * Writes to the two streams of a channel, one chunk at a time. ssh2's server keeps a chunk that had to wait
 * after it is sent, and sends it again when the other stream has to wait.
 */
class ChannelWriter {
  readonly #channel: ServerChannel;
  readonly #closed: Promise<false>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(channel: ServerChannel) {
    this.#channel = channel;
    this.#closed = new Promise((resolve) => channel.once("close", () => resolve(false)));
  }

  /** @returns whether the channel is still open */
  write(stream: NodeJS.WritableStream, chunk: Uint8Array): Promise<boolean> {
    const written = this.#last.then(() =>
      Promise.race([
        this.#closed,
        new Promise<boolean>((resolve) => stream.write(chunk, () => resolve(true))),
      ])
    ).finally(() => {
      for (const name of WAITING) Reflect.set(this.#channel, name, undefined);
    });
    this.#last = written;
    return written;
  }
}

function withCarriageReturns(chunk: Uint8Array): Uint8Array {
  return Uint8Array.from([...chunk].flatMap((byte) => byte === LINE_FEED ? [CARRIAGE_RETURN, byte] : [byte]));
}
