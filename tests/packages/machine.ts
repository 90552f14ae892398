import { poll } from "../stage/poll.ts";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. */
export async function runProgram(program: string, ...args: readonly string[]): Promise<Ended> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" })
    .output();
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

/** Runs a program like {@linkcode runProgram}, and throws if it fails. */
export async function mustRun(program: string, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(program, ...args);
  if (code === 0) return stdout;
  throw new Error(`${[program, ...args].join(" ")} ended with ${code}: ${stdout}${stderr}`);
}

/** The root file system of a Debian that is not booted, which is enough for the scripts of packages. */
export class RootFilesystem {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Creates a minimal Debian with systemd and the named packages. */
  static async create(path: string, more: readonly string[] = []): Promise<RootFilesystem> {
    const packages = ["systemd", "systemd-sysv", "dbus", "openssh-client", "procps", ...more].join(",");
    // Directly into a directory, without documentation.
    const leftOut = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];
    const options = leftOut.map((pattern) => `--dpkgopt=path-exclude=${pattern}`);
    const args = ["--quiet", "--variant=minbase", `--include=${packages}`, ...options, "bookworm", path];
    await mustRun("mmdebstrap", ...args);
    return new RootFilesystem(path);
  }

  /** Runs a command in the file system, without services. */
  async run(...command: readonly string[]): Promise<Ended> {
    const quiet = ["--quiet", "--register=no", "--keep-unit", "--private-network", "--pipe"];
    return await runProgram("systemd-nspawn", "-D", this.path, ...quiet, ...command);
  }

  /**
   * Boots its systemd in an existing network namespace, or in a new one without network.
   *
   * @param more additional options of `systemd-nspawn`
   */
  async boot(namespace?: string, more: readonly string[] = []): Promise<Machine> {
    const network = namespace === undefined
      ? "--private-network"
      : `--network-namespace-path=/run/netns/${namespace}`;
    const options = ["--quiet", "--register=no", "--keep-unit", network, ...more];
    const child = new Deno.Command("systemd-nspawn", {
      args: ["--boot", "-D", this.path, ...options],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    const machine = new Machine(child);
    await poll(async () => {
      const { stdout } = await machine.run("systemctl", "is-system-running");
      return stdout.trim() === "running" || stdout.trim() === "degraded";
    }, { what: "systemd of the machine", intervalMs: 200 });
    return machine;
  }
}

export class Machine {
  readonly #child: Deno.ChildProcess;

  constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /** Runs a command as root on the running machine. */
  async run(...command: readonly string[]): Promise<Ended> {
    const { stdout } = await runProgram("pgrep", "-P", String(this.#child.pid));
    const leader = stdout.trim();
    if (leader === "") return { code: 1, stdout: "", stderr: "not there yet" };
    const spaces = ["-m", "-u", "-i", "-n", "-p", "-r", "-w"];
    const environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"];
    return await runProgram("nsenter", "-t", leader, ...spaces, "--", ...environment, ...command);
  }

  /** Runs a command like {@linkcode Machine.run}, and throws if it fails. */
  async must(...command: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...command);
    if (code === 0) return stdout;
    throw new Error(`${command.join(" ")} ended with ${code}: ${stdout}${stderr}`);
  }

  /** Returns a property of a unit, such as `MainPID`. */
  async property(unit: string, name: string): Promise<string> {
    return (await this.must("systemctl", "show", "--value", `--property=${name}`, unit)).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("systemctl", "poweroff", "--force", "--force");
    await this.#child.status;
  }
}
