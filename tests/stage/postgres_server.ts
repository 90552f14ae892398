/** Debian's PostgreSQL servers for tests, in temporary directories, on loopback and a Unix socket. */
import assert from "node:assert/strict";
import { freePort } from "./free_port.ts";
import { isMissing } from "./is_missing.ts";
import { poll } from "./poll.ts";

/** The directory of the newest version. */
export const POSTGRES_BIN: string = findBin();

/** True if PostgreSQL is missing. Throws if the run requires it. */
export const isPostgresMissing: boolean = isMissing("postgresql", [`${POSTGRES_BIN}/initdb`]);

/** Debian installs the programs of each version in a separate directory. */
function findBin(): string {
  try {
    const versions = [...Deno.readDirSync("/usr/lib/postgresql")].map(({ name }) => name);
    return `/usr/lib/postgresql/${versions.toSorted((a, b) => Number(b) - Number(a))[0]}/bin`;
  } catch {
    return "/usr/bin";
  }
}

const ASYNC = "synchronous_standby_names=";

/** One server without authentication. A standby is a separate server. */
export class PostgresServer implements AsyncDisposable {
  readonly folder: string;
  readonly port: number = freePort();
  #process: Deno.ChildProcess | undefined;
  #settings: readonly string[] = [];

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Starts a server with an empty database `gateway` and its owner `gateway`. */
  static async start(): Promise<PostgresServer> {
    const server = new PostgresServer(await makeFolder());
    await run("initdb", [
      "-D",
      server.#data,
      "-U",
      "gateway",
      "--auth=trust",
      "-E",
      "UTF8",
      "--no-locale",
      "-N",
    ]);
    await server.run();
    await server.sql("CREATE DATABASE gateway", "postgres");
    return server;
  }

  /** Starts a synchronous hot standby: without it, this server acknowledges no commit. */
  async startStandby(): Promise<PostgresServer> {
    const standby = new PostgresServer(await makeFolder());
    const from = `host=127.0.0.1 port=${this.port} user=gateway application_name=standby`;
    await run("pg_basebackup", ["-D", standby.#data, "-R", "-X", "stream", "-c", "fast", "-N", "-d", from]);
    await standby.run();
    await this.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    await this.sql("SELECT pg_reload_conf()");
    await poll(
      async () =>
        await this.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") === "1",
      {
        what: "the synchronous standby",
        intervalMs: 20,
      },
    );
    return standby;
  }

  /** Enables TLS with a certificate. */
  async useTls({ cert, key }: { readonly cert: string; readonly key: string }): Promise<void> {
    await this.kill();
    const [certFile, keyFile] = [`${this.folder}/server.crt`, `${this.folder}/server.key`];
    await Deno.writeTextFile(certFile, cert);
    await Deno.writeTextFile(keyFile, key, { mode: 0o600 });
    if (Deno.uid() === 0) await new Deno.Command("chown", { args: ["postgres", keyFile] }).output();
    this.#settings = ["ssl=on", `ssl_cert_file=${certFile}`, `ssl_key_file=${keyFile}`];
    await this.run();
  }

  /** Replaces the authentication rules (pg_hba.conf). */
  async authenticate(line: string): Promise<void> {
    const path = `${this.#data}/pg_hba.conf`;
    await Deno.writeTextFile(path, `local all gateway trust\n${line}\nhost all gateway 127.0.0.1/32 trust\n`);
    await this.sql("SELECT pg_reload_conf()");
  }

  /** Restarts the server after {@linkcode kill}. */
  async run(): Promise<void> {
    const settings = [
      `port=${this.port}`,
      "listen_addresses=127.0.0.1",
      `unix_socket_directories=${this.folder}`,
    ];
    const [program = "", ...args] = [
      ...asPostgres(`${POSTGRES_BIN}/postgres`),
      ...["-D", this.#data],
      ...[...settings, ...this.#settings, "fsync=off", "logging_collector=off"].flatMap((
        setting,
      ) => ["-c", setting]),
    ];
    this.#process = new Deno.Command(program, {
      args,
      cwd: this.folder,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    const isUp = () => this.sql("SELECT 1", "postgres").then(() => true, () => false);
    await poll(isUp, { what: "PostgreSQL", intervalMs: 20 });
  }

  /** Promotes a standby to primary without a synchronous standby. */
  async promote(): Promise<void> {
    await run("pg_ctl", ["-D", this.#data, "promote", "-w"]);
    await this.sql(`ALTER SYSTEM SET ${ASYNC}''`);
    await this.sql("SELECT pg_reload_conf()");
  }

  /** Kills the postmaster and all its processes, like a loss of power. */
  async kill(signal: "SIGQUIT" | "SIGKILL" = "SIGQUIT"): Promise<void> {
    const process = this.#process;
    if (process === undefined) return;
    this.#process = undefined;
    // The children exit after the postmaster. SIGQUIT ends them before they send a message to their clients.
    process.kill(signal);
    await process.status;
  }

  /** Returns a URL of the server. `user` is a role, `more` are parameters. */
  url({ user = "gateway", more = "" } = {}): string {
    return `postgres://${user}@127.0.0.1:${this.port}/gateway${more}`;
  }

  get socketUrl(): string {
    return `postgres://gateway@${encodeURIComponent(this.folder)}:${this.port}/gateway`;
  }

  /** Runs SQL as the owner and returns the rows, unaligned. */
  async sql(text: string, database = "gateway"): Promise<string> {
    return await run("psql", [
      ...["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", `${this.port}`],
      ...["-U", "gateway", "-d", database, "-c", text],
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await Deno.remove(this.folder, { recursive: true });
  }

  get #data(): string {
    return `${this.folder}/data`;
  }
}

async function makeFolder(): Promise<string> {
  // Short, because the path of a Unix socket has at most 107 bytes.
  const folder = await Deno.makeTempDir({ prefix: "pg-" });
  if (Deno.uid() === 0) await new Deno.Command("chown", { args: ["postgres:postgres", folder] }).output();
  return folder;
}

/** PostgreSQL does not run as root, so root starts it under another account. */
function asPostgres(program: string): readonly string[] {
  if (Deno.uid() !== 0) return [program];
  return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", program];
}

async function run(program: string, args: readonly string[]): Promise<string> {
  const [first = "", ...rest] = asPostgres(`${POSTGRES_BIN}/${program}`);
  const { success, stdout, stderr } = await new Deno.Command(first, { args: [...rest, ...args], cwd: "/" })
    .output();
  assert.ok(success, `${program}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout).trim();
}
