import { poll } from "../stage/poll.ts";
import { run } from "../stage/run.ts";

/** How a command is photographed. */
export interface Shot {
  /** An existing directory for the socket of tmux. It is the working directory, too. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns: number;
  readonly rows?: number;
  /** A text of a program that does not end, such as its prompt: the picture is taken when the screen contains it. */
  readonly until?: string;
}

/** Runs a command in a terminal and returns the lines of its screen, with colors. Needs tmux. */
export async function photograph(command: string, { cwd, env, columns, rows = 200, until }: Shot) {
  const socket = `${cwd}/.tmux-${crypto.randomUUID()}`;
  const tmux = (...args: readonly string[]) => run("tmux", ["-S", socket, "-f", "/dev/null", ...args], env);
  const held = `${command}; tmux -S ${socket} wait-for -S ended; exec cat`;
  await tmux("new-session", "-d", "-x", `${columns}`, "-y", `${rows}`, "-c", cwd, held);
  try {
    const screen = () => tmux("capture-pane", "-e", "-p");
    if (until === undefined) await tmux("wait-for", "ended");
    else await poll(async () => (await screen()).includes(until), { what: until, intervalMs: 50 });
    return (await screen()).trimEnd().split("\n");
  } finally {
    await tmux("kill-server");
  }
}
