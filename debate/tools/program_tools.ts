import { shellQuote } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { isSecretFile } from "../context/secret_files.ts";
import type { Settings } from "../settings/config.ts";
import type { Argument } from "./argv.ts";
import { type Call, countArgument, defineTool, describeRun, timeoutArgument } from "./define_tool.ts";
import { refuse } from "./run_program.ts";
import { checkCommand, PROGRAM_RULES } from "./program_rules.ts";

/** Variables of this service by name, for the programs that need them. */
export function pickEnv({ ports }: Call, ...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(ports.env).filter(([name]) => names.includes(name)));
}

const GIT_ENV = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_NO_LAZY_FETCH: "1",
  // There is no such transport, so nothing is fetched.
  GIT_ALLOW_PROTOCOL: "none",
};

const GIT_CONFIG = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "log.showSignature=false",
  "core.sshCommand=false",
];

const GIT_LOG =
  "log --no-show-signature --no-ext-diff --no-textconv --no-color --no-decorate --no-mailmap --date=iso-strict --stat=120 --stat-count=20"
    .split(" ");

/**
 * The configuration of a repository can name programs. `git log` runs without pager, external diff, text
 * conversion, signatures and fetching, so that it starts none of them.
 */
export const gitRecentChanges = defineTool({
  name: "git_recent_changes",
  description:
    "Shows the newest commits of a git repository with date, author, subject and the files that changed.",
  schema: z.strictObject({
    repo_path: z.string().min(1).max(4096).default(".").describe(
      "folder of the repository; by default the project",
    ),
    count: countArgument(10, 50, "how many of the newest commits"),
    timeout: timeoutArgument(15),
  }),
  async run({ repo_path: path, count }, call) {
    const { folders, runProgram } = call.ports;
    const [base = ""] = await folders.roots();
    const cwd = await findPath(call, path, base);
    const git = (...args: readonly string[]) =>
      runProgram({
        program: "git",
        args: ["--no-pager", ...GIT_CONFIG.flatMap((entry) => ["-c", entry]), ...args],
        cwd,
        env: GIT_ENV,
        signal: call.signal,
      });
    const title = `git log of ${path}, ${count} at most`;
    // A .git file, or a repository that contains this folder, may lead elsewhere.
    const where = await git("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir");
    if (where.stopped !== undefined || where.code !== 0) {
      return describeRun(title, where, call);
    }
    for (const folder of where.stdout.trim().split("\n")) {
      if (await folders.find(folder) !== undefined) continue;
      refuse(`The repository of ${JSON.stringify(path)} is ${OUTSIDE}`);
    }
    const log = await git(...GIT_LOG, "--format=%n%h %ad %an: %s", `--max-count=${count}`);
    return describeRun(title, log, call);
  },
});

export const runLocalCommand = defineTool({
  name: "run_local_command",
  description: `Runs a read-only diagnostic program on the machine of this service: ${
    Object.keys(PROGRAM_RULES).join(", ")
  }. Only options that read are possible, and only files in the folders that the operator allowed.`,
  schema: z.strictObject({
    command: z.string().min(1).describe(
      "one program with its arguments; there is no shell, so no pipes and no redirects",
    ),
    timeout: timeoutArgument(15),
  }),
  async run({ command }, call) {
    const { program, args: checked } = checkCommand(command);
    const [cwd] = await call.ports.folders.roots();
    if (cwd === undefined) return refuse("None of the folders in ALLOWED_PROJECT_ROOTS exists");
    const args = await Promise.all(
      checked.map(async ({ kind, text }) =>
        kind === "word" ? text : notSecret(await findPath(call, text, cwd), text)
      ),
    );
    const result = await call.ports.runProgram({ program, args, cwd, signal: call.signal });
    return describeRun(command, result, call);
  },
});

const OUTSIDE = "not within the folders of ALLOWED_PROJECT_ROOTS";

async function findPath({ ports }: Call, path: string, base: string): Promise<string> {
  return await ports.folders.find(path.startsWith("/") ? path : `${base}/${path}`) ??
    refuse(`${JSON.stringify(path)} does not exist, or is ${OUTSIDE}`);
}

function notSecret(path: string, shown = path): string {
  if (isSecretFile(path)) refuse(`${JSON.stringify(shown)} may hold secrets and is not read`);
  return path;
}

const HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-f]*:[0-9a-f:.]+)$/i;
const USER = /^(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/;

/**
 * Uses the system's `ssh`, which supports hashed names, certificate authorities and revoked keys in
 * known_hosts. The remote side has a shell: it gets each word in single quotes, and only words that all
 * shells read alike.
 */
export const runSshCommand = defineTool({
  name: "run_ssh_command",
  description:
    "Runs a read-only diagnostic program on another host over SSH: the programs and options of run_local_command. " +
    "The host's key must be in known_hosts already.",
  schema: z.strictObject({
    host: z.string().regex(HOST, "must be a host name or an IP address").describe("must be in known_hosts"),
    command: z.string().min(1).describe(
      "one read-only program with its arguments; no pipes and no redirects",
    ),
    user: z.string().regex(USER, "must be an account name").default("").describe(
      "empty: the configured one",
    ),
    key_path: z.string().max(4096).default("").describe("leave out: only the configured key is used"),
    port: z.int().min(1).max(65_535).default(22),
    timeout: timeoutArgument(15),
  }),
  async run({ host, command, user, key_path: keyPath, port }, call) {
    const { SSH_DEFAULT_USER, SSH_KEY_PATH } = call.settings;
    if (keyPath !== "" && keyPath !== SSH_KEY_PATH) {
      refuse("Only the configured key is used: leave key_path out");
    }
    const { program, args } = checkCommand(command);
    const remote = [program, ...args.map(remoteWord)].map(shellQuote).join(" ");
    const account = user || SSH_DEFAULT_USER;
    const login = account === "" ? [] : ["-l", account];
    const result = await call.ports.runProgram({
      program: "ssh",
      args: [...sshOptions(call.settings, call.seconds), ...login, "-p", String(port), "--", host, remote],
      cwd: "/",
      env: pickEnv(call, "HOME", "SSH_AUTH_SOCK"),
      signal: call.signal,
    });
    if (result.stopped === undefined && result.code === 255) {
      for (const [pattern, reason] of SSH_FAILURES) {
        if (pattern.test(result.stderr)) refuse(reason(result.stderr));
      }
    }
    const where = `${account === "" ? "" : `${account}@`}${host}:${port}`;
    return describeRun(`${command} on ${where}`, result, call);
  },
});

const SSH_FAILURES: readonly (readonly [RegExp, (stderr: string) => string])[] = [
  [
    /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/,
    () => "The host's key does not match known_hosts, or is missing there: the operator has to add it",
  ],
  [
    /Permission denied|Too many authentication failures/,
    () => "The host did not accept the key: check account and key",
  ],
  [
    /Connection refused|timed out|No route|Could not resolve|Network is unreachable|closed by|reset by/,
    (stderr) => `The host cannot be reached: ${stderr.trim()}`,
  ],
];

/** Neither the user's nor the system's configuration file is read, since it could run programs. */
function sshOptions(
  { SSH_KEY_PATH: keyPath, SSH_KNOWN_HOSTS: knownHosts, SSH_CONNECT_TIMEOUT }: Settings,
  seconds: number,
): readonly string[] {
  const options: Readonly<Record<string, string>> = {
    BatchMode: "yes",
    StrictHostKeyChecking: "yes",
    UpdateHostKeys: "no",
    VerifyHostKeyDNS: "no",
    CheckHostIP: "no",
    // ssh reads a space as a separator of files, and `%` as the start of a token.
    ...(knownHosts === "" ? {} : {
      UserKnownHostsFile: `"${knownHosts.replaceAll("%", "%%")}"`,
      GlobalKnownHostsFile: "none",
    }),
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
    ConnectTimeout: String(Math.min(SSH_CONNECT_TIMEOUT, Math.ceil(seconds))),
    LogLevel: "ERROR",
  };
  const set = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  return ["-F", "none", "-T", "-n", ...set, ...(keyPath === "" ? [] : ["-i", keyPath])];
}

function remoteWord({ kind, text }: Argument): string {
  // In some shells, quotes and backslashes have a meaning within single quotes, and in csh so does an
  // exclamation mark.
  if (/['\\!\n]/.test(text)) refuse("quotes, backslashes and ! are not possible in a remote command");
  if (kind === "word") return text;
  if (!text.startsWith("/") || text.split("/").includes("..")) {
    refuse(`${JSON.stringify(text)}: a remote path must be absolute and must not contain ..`);
  }
  return notSecret(text);
}
