/**
 * Uses the system's `ssh`, which supports hashed names, certificate authorities and revoked keys in
 * known_hosts. The remote side has a shell: it gets each word in single quotes, and only words that all
 * shells read alike.
 */
import { shellQuote } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { isSecretFile } from "../context/secret_files.ts";
import type { Argument } from "./argv.ts";
import {
  type Call,
  defineTool,
  describeRun,
  type Finding,
  refuse,
  timeoutArgument,
  type ToolServices,
} from "./define_tool.ts";
import { checkCommand } from "./program_rules.ts";
import type { ProgramResult, RunProgram } from "./run_program.ts";
import type { Tool } from "../engine/ports.ts";

interface SshSettings {
  /** The account; empty: the current user. */
  readonly defaultUser: string;
  /** The private key; empty: the agent and the standard keys. */
  readonly keyPath: string;
  /** The known_hosts file; empty: the user's. */
  readonly knownHosts: string;
  readonly connectTimeoutSeconds: number;
  /** The variables by which `ssh` finds its keys and agent: `HOME`, `SSH_AUTH_SOCK`. */
  readonly env: Readonly<Record<string, string>>;
}

const HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-f]*:[0-9a-f:.]+)$/i;
const USER = /^(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/;

const schema = z.strictObject({
  host: z.string().regex(HOST, "must be a host name or an IP address").describe("must be in known_hosts"),
  command: z.string().min(1).describe("one read-only program with its arguments; no pipes and no redirects"),
  user: z.string().regex(USER, "must be an account name").default("").describe("empty: the configured one"),
  key_path: z.string().max(4096).default("").describe("leave out: only the configured key is used"),
  port: z.int().min(1).max(65_535).default(22),
  timeout: timeoutArgument(15),
});

export function createRunSshCommand(
  settings: SshSettings,
  runProgram: RunProgram,
  services: ToolServices,
): Tool {
  return defineTool({
    name: "run_ssh_command",
    description:
      "Runs a read-only diagnostic program on another host over SSH: the programs and options of run_local_command. " +
      "The host's key must be in known_hosts already.",
    schema,
    async run({ host, command, user, key_path: keyPath, port }, call) {
      if (keyPath !== "" && keyPath !== settings.keyPath) {
        refuse("Only the configured key is used: leave key_path out");
      }
      const { program, args } = checkCommand(command);
      const remote = [program, ...args.map(remoteWord)].map(shellQuote).join(" ");
      const account = user === "" ? settings.defaultUser : user;
      const result = await runProgram({
        program: "ssh",
        args: [
          ...sshOptions(settings, call.seconds),
          ...accountOption(account),
          "-p",
          String(port),
          "--",
          host,
          remote,
        ],
        cwd: "/",
        env: settings.env,
        signal: call.signal,
      });
      const where = `${account === "" ? "" : `${account}@`}${host}:${port}`;
      return describe(`${command} on ${where}`, result, call);
    },
  }, services);
}

/** Neither the user's nor the system's configuration file is read, since it could run programs. */
function sshOptions(
  { keyPath, knownHosts, connectTimeoutSeconds }: SshSettings,
  seconds: number,
): readonly string[] {
  const options: Readonly<Record<string, string>> = {
    BatchMode: "yes",
    StrictHostKeyChecking: "yes",
    UpdateHostKeys: "no",
    VerifyHostKeyDNS: "no",
    CheckHostIP: "no",
    ...(knownHosts === "" ? {} : { UserKnownHostsFile: sshPath(knownHosts), GlobalKnownHostsFile: "none" }),
    ...(keyPath === "" ? {} : { IdentitiesOnly: "yes" }),
    PreferredAuthentications: "publickey",
    ForwardAgent: "no",
    ForwardX11: "no",
    ClearAllForwardings: "yes",
    PermitLocalCommand: "no",
    ProxyCommand: "none",
    ControlMaster: "no",
    ControlPath: "none",
    RequestTTY: "no",
    EscapeChar: "none",
    ConnectionAttempts: "1",
    ConnectTimeout: String(Math.min(connectTimeoutSeconds, Math.ceil(seconds))),
    LogLevel: "ERROR",
  };
  return [
    "-F",
    "none",
    "-T",
    "-n",
    ...Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]),
    ...(keyPath === "" ? [] : ["-i", keyPath]),
  ];
}

/** ssh reads a blank as a separator of files, and `%` as the start of a token. */
function sshPath(path: string): string {
  return `"${path.replaceAll("%", "%%")}"`;
}

function accountOption(account: string): readonly string[] {
  return account === "" ? [] : ["-l", account];
}

function remoteWord({ kind, text }: Argument): string {
  // In some shells, quotes and backslashes have a meaning within single quotes, and in csh so does an
  // exclamation mark.
  if (/['\\!\n]/.test(text)) refuse("quotes, backslashes and ! are not possible in a remote command");
  if (kind === "word") return text;
  if (!text.startsWith("/") || text.split("/").includes("..")) {
    refuse(`${JSON.stringify(text)}: a remote path must be absolute and must not contain ..`);
  }
  if (isSecretFile(text)) refuse(`${JSON.stringify(text)} may hold secrets and is not read`);
  return text;
}

function describe(command: string, result: ProgramResult, call: Call): Finding {
  const finding = describeRun(command, "ssh", result, call);
  if (result.kind !== "ended" || result.stopped !== undefined || result.code !== 255) return finding;
  const { stderr } = result;
  if (
    /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/.test(
      stderr,
    )
  ) {
    refuse("The host's key does not match known_hosts, or is missing there: the operator has to add it");
  }
  if (/Permission denied|Too many authentication failures/.test(stderr)) {
    refuse("The host did not accept the key: check account and key");
  }
  if (
    /Connection refused|timed out|No route|Could not resolve|Network is unreachable|closed by|reset by/.test(
      stderr,
    )
  ) {
    refuse(`The host cannot be reached: ${stderr.trim()}`);
  }
  return finding;
}
