import { finish } from "@gateway/shared/clock";
import { maskSecrets } from "@gateway/shared/redact";
import { shellQuote } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { isSecretFile } from "../context/secret_files.ts";
import { type Argument, type ArgumentRule, checkArguments, shapes, splitCommand } from "./argv.ts";
import { type Call, countArgument, defineTool, describeRun, timeoutArgument } from "./define_tool.ts";
import { probe, refuse } from "./run_program.ts";
import { checkCommand, needsOf, PROGRAM_RULES } from "./program_rules.ts";

/** The given environment variables of this service. */
function pickEnv({ ports }: Call, ...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(ports.env).filter(([name]) => names.includes(name)));
}

const NO_ROOT = "no directory of ALLOWED_PROJECT_ROOTS exists";

const GIT_ENV = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_NO_LAZY_FETCH: "1",
  // No transport has this name, so nothing is fetched.
  GIT_ALLOW_PROTOCOL: "none",
};

const GIT_CONFIG =
  "-c core.fsmonitor=false -c core.hooksPath=/dev/null -c log.showSignature=false -c core.sshCommand=false"
    .split(" ");
const GIT_LOG =
  "log --no-show-signature --no-ext-diff --no-textconv --no-color --no-decorate --no-mailmap --date=iso-strict --stat=120 --stat-count=20"
    .split(" ");

/**
 * The configuration of a repository can name programs. To start none of them, `git log` runs without pager, external
 * diff, text conversion, signatures and fetching.
 */
export const gitRecentChanges = defineTool({
  name: "git_recent_changes",
  description: "Show the newest commits of a git repository: date, author, subject and changed files.",
  schema: z.strictObject({
    repo_path: z.string().min(1).max(4096).default(".").describe("directory of the repository"),
    count: countArgument(10, 50, "number of newest commits"),
    timeout: timeoutArgument(15),
  }),
  missing: async ({ ports }) =>
    (await ports.folders.roots()).length === 0 ? NO_ROOT : await probe(ports, "git", "--version"),
  async run({ repo_path: path, count }, call) {
    const { folders, runProgram } = call.ports;
    const [base = ""] = await folders.roots();
    const cwd = await findPath(call, path, base);
    const git = (...args: readonly string[]) =>
      runProgram({
        program: "git",
        args: ["--no-pager", ...GIT_CONFIG, ...args],
        cwd,
        env: GIT_ENV,
        signal: call.signal,
      });
    const title = `git log of ${path}, ${count} at most`;
    // A .git file or an enclosing repository can be outside the allowed directories.
    const where = await git("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir");
    if (where.stopped !== undefined || where.code !== 0) return describeRun(title, where, call);
    for (const folder of where.stdout.trim().split("\n")) {
      if (await folders.find(folder) !== undefined) continue;
      refuse(`the repository of ${JSON.stringify(path)} is ${OUTSIDE}`);
    }
    const log = await git(...GIT_LOG, "--format=%n%h %ad %an: %s", `--max-count=${count}`);
    return describeRun(title, log, call);
  },
});

export const runLocalCommand = defineTool({
  name: "run_local_command",
  description: `Run a read-only diagnostic program on the machine of this service: ${
    Object.keys(PROGRAM_RULES).join(", ")
  }. Options that write are rejected. Files must be in the directories that the operator allowed.`,
  schema: z.strictObject({
    command: z.string().min(1).describe("one program with its arguments, without pipes and redirects"),
    timeout: timeoutArgument(15),
  }),
  missing: async ({ ports }) => (await ports.folders.roots()).length === 0 ? NO_ROOT : undefined,
  async run({ command }, call) {
    const { program, args: checked } = checkCommand(command);
    const [cwd] = await call.ports.folders.roots();
    if (cwd === undefined) return refuse(NO_ROOT);
    const args: string[] = [];
    for (const { kind, text } of checked) {
      args.push(kind === "word" ? text : notSecret(await findPath(call, text, cwd), text));
    }
    const result = await call.ports.runProgram({
      program,
      args,
      cwd,
      needs: needsOf(program),
      signal: call.signal,
    });
    return describeRun(command, result, call);
  },
});

const OUTSIDE = "not in a directory of ALLOWED_PROJECT_ROOTS";

async function findPath({ ports }: Call, path: string, base: string): Promise<string> {
  return await ports.folders.find(path.startsWith("/") ? path : `${base}/${path}`) ??
    refuse(`${JSON.stringify(path)} does not exist, or is ${OUTSIDE}`);
}

function notSecret(path: string, shown = path): string {
  if (isSecretFile(path)) refuse(`${JSON.stringify(shown)} may contain secrets and is not read`);
  return path;
}

const HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-f]*:[0-9a-f:.]+)$/i;

/**
 * The system's `ssh` supports hashed names, certificate authorities and revoked keys in known_hosts. The remote
 * side has a shell. It gets each word in single quotes, and only words that all shells read alike.
 */
export const runSshCommand = defineTool({
  name: "run_ssh_command",
  description:
    "Run a read-only diagnostic program on another host over SSH. Programs and options are those of " +
    "run_local_command. The host key must be in known_hosts.",
  schema: z.strictObject({
    host: z.string().regex(HOST, "must be a host name or an IP address").describe("as in known_hosts"),
    command: z.string().min(1).describe("one program with its arguments, without pipes and redirects"),
    port: z.int().min(1).max(65_535).default(22),
    timeout: timeoutArgument(15),
  }),
  missing: async ({ settings: { SSH_KEY_PATH, SSH_KNOWN_HOSTS }, ports }) => {
    const { env, exists } = ports;
    const home = env["HOME"] ?? "";
    if (SSH_KEY_PATH === "" && !env["SSH_AUTH_SOCK"] && !await exists(`${home}/.ssh`)) {
      return "SSH_KEY_PATH is not set, and there is neither an SSH agent nor ~/.ssh";
    }
    const known = SSH_KNOWN_HOSTS || `${home}/.ssh/known_hosts`;
    if (!await exists(known) && !await exists("/etc/ssh/ssh_known_hosts")) return `${known} does not exist`;
    return await probe(ports, "ssh", "-V");
  },
  async run({ host, command, port }, call) {
    const { SSH_DEFAULT_USER } = call.settings;
    const { program, args } = checkCommand(command);
    const remote = [program, ...args.map(remoteWord)].map(shellQuote).join(" ");
    const login = SSH_DEFAULT_USER === "" ? [] : ["-l", SSH_DEFAULT_USER];
    const result = await call.ports.runProgram({
      program: "ssh",
      args: [...sshOptions(call), ...login, "-p", String(port), "--", host, remote],
      cwd: "/",
      needs: ["network"],
      env: pickEnv(call, "HOME", "SSH_AUTH_SOCK"),
      signal: call.signal,
    });
    if (result.stopped === undefined && result.code === 255) {
      for (const [pattern, reason] of SSH_FAILURES) {
        if (pattern.test(result.stderr)) refuse(reason(result.stderr));
      }
    }
    const where = `${SSH_DEFAULT_USER === "" ? "" : `${SSH_DEFAULT_USER}@`}${host}:${port}`;
    return describeRun(`${command} on ${where}`, result, call);
  },
});

const SSH_FAILURES: readonly (readonly [RegExp, (stderr: string) => string])[] = [
  [
    /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/,
    () =>
      "the host key is missing in known_hosts, or does not match it: the operator has to check and add the key",
  ],
  [
    /Permission denied|Too many authentication failures/,
    () => "the host rejected the key: the operator has to check account and key",
  ],
  [
    /Connection refused|timed out|No route|Could not resolve|Network is unreachable|closed by|reset by/,
    (stderr) => `the host is not reachable: ${stderr.trim()}`,
  ],
];

/** The configuration files of the user and of the system are not read, because they could run programs. */
function sshOptions({ settings, seconds }: Call): readonly string[] {
  const { SSH_KEY_PATH: keyPath, SSH_KNOWN_HOSTS: knownHosts, SSH_CONNECT_TIMEOUT } = settings;
  const options: Readonly<Record<string, string>> = {
    BatchMode: "yes",
    StrictHostKeyChecking: "yes",
    UpdateHostKeys: "no",
    VerifyHostKeyDNS: "no",
    CheckHostIP: "no",
    // ssh splits the value at spaces and expands tokens that start with `%`.
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
  // Some shells interpret quotes and backslashes in single quotes, and csh interprets exclamation marks.
  if (/['\\!\n]/.test(text)) refuse("quotes, backslashes and ! are not allowed in a remote command");
  if (kind === "word") return text;
  if (!text.startsWith("/") || text.split("/").includes("..")) {
    refuse(`remote path ${JSON.stringify(text)} is not absolute, or contains ..`);
  }
  return notSecret(text);
}

export const runKubectl = defineTool({
  name: "run_kubectl",
  description:
    "Run kubectl with a read-only verb: get, describe, logs, top, events, explain, version, api-resources, " +
    "cluster-info or config view. Secrets are not readable. Output is not followed.",
  schema: z.strictObject({
    kubectl_args: z.string().min(1).describe("arguments of kubectl, for example: get pods -n prod"),
    timeout: timeoutArgument(20),
  }),
  missing: async ({ ports }) => {
    const { HOME = "", KUBECONFIG, KUBERNETES_SERVICE_HOST } = ports.env;
    if (!KUBECONFIG && !KUBERNETES_SERVICE_HOST && !await ports.exists(`${HOME}/.kube/config`)) {
      return "KUBECONFIG is not set, and ~/.kube/config does not exist";
    }
    return await probe(ports, "kubectl", "version", "--client");
  },
  async run({ kubectl_args: text }, call) {
    const env = pickEnv(call, "HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT");
    const args = checkKubectl(text, call.seconds).map((argument) => argument.text);
    const result = await call.ports.runProgram({
      program: "kubectl",
      args,
      cwd: "/",
      needs: ["network"],
      // A kuberc file could add options to verbs.
      env: { ...env, KUBERC: "off", KUBECTL_KUBERC: "false" },
      signal: call.signal,
    });
    if (args.some((arg) => arg.includes("custom-columns=")) && result.stdout.includes("map[")) {
      refuse("a column is an object, whose secrets cannot be masked in this form: use -o json");
    }
    return describeRun(`kubectl ${text}`, result, call);
  },
});

/** Only verbs that read, with options for the operator's own clusters. Secrets are never read, not even their names. */
const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._:@/-]{0,252}[A-Za-z0-9])?$/;
const SELECTOR = /^[A-Za-z0-9_./=!,() -]{1,500}$/;
const NUMBER = /^\d{1,7}$/;
const DURATION = /^\d{1,6}(?:s|m|h)$/;
const TIME = /^\d{4}-\d\d-\d\dT[0-9:.+Z-]{1,30}$/;
const PATH_EXPRESSION = /^[A-Za-z0-9_.[\]{}'"@?()=*:\\/ -]{1,500}$/;
const OUTPUT = /^(?:json|yaml|wide|name|jsonpath=[^\n]{0,1000}|custom-columns=[^\n]{0,1000})$/;
const FORMAT = /^(?:json|yaml)$/;

const selection = {
  flags: "A all-namespaces show-labels no-headers ignore-not-found show-kind",
  values: {
    ...shapes([SELECTOR, "l selector field-selector L label-columns"], [OUTPUT, "o output"]),
    ...{ "sort-by": PATH_EXPRESSION, "chunk-size": NUMBER },
  },
};

const VERBS: Readonly<Record<string, ArgumentRule>> = {
  get: { ...selection, operands: [/^[A-Za-z0-9.,/_:-]{1,500}$/], rest: NAME, min: 1, check: refuseSecrets },
  describe: {
    flags: "A all-namespaces",
    values: shapes([SELECTOR, "l selector"], [/^(?:true|false)$/, "show-events"]),
    operands: [/^[A-Za-z0-9.,/_:-]{1,500}$/],
    rest: NAME,
    min: 1,
    check: refuseSecrets,
  },
  logs: {
    flags: "p previous timestamps all-containers prefix ignore-errors",
    values: {
      ...shapes([NAME, "c container"], [SELECTOR, "l selector"]),
      ...{ tail: NUMBER, since: DURATION, "since-time": TIME },
    },
    operands: [NAME, NAME],
    always: ["--limit-bytes=262144"],
    unless: { options: ["tail", "since", "since-time"], add: ["--tail=500"] },
  },
  top: {
    flags: "A all-namespaces containers no-headers sum",
    values: { l: SELECTOR, selector: SELECTOR, "sort-by": /^(?:cpu|memory)$/ },
    operands: [/^(?:pods?|po|nodes?|no)$/],
    rest: NAME,
    min: 1,
  },
  events: {
    flags: "A all-namespaces no-headers",
    values: { for: NAME, types: /^[A-Za-z,]{1,100}$/, o: FORMAT, output: FORMAT },
  },
  explain: { flags: "recursive", values: { "api-version": NAME }, operands: [NAME], min: 1 },
  version: { flags: "client", values: { o: FORMAT, output: FORMAT } },
  "api-resources": {
    flags: "no-headers cached",
    values: shapes([NAME, "api-group"], [/^(?:true|false)$/, "namespaced"], [/^(?:wide|name)$/, "o output"]),
  },
  "cluster-info": {},
  config: { flags: "minify", values: { o: FORMAT, output: FORMAT }, operands: [/^view$/], min: 1 },
};

export function checkKubectl(text: string, seconds: number): readonly Argument[] {
  const all = splitCommand(text);
  const given = all[0] === "kubectl" ? all.slice(1) : all;
  let at = 0;
  while (given[at]?.startsWith("-")) at += /^(?:-n|--namespace|--context)$/.test(given[at] ?? "") ? 2 : 1;
  const verb = given[at];
  if (verb === undefined || !Object.hasOwn(VERBS, verb)) {
    return refuse(`verb ${JSON.stringify(verb ?? "")} is not allowed, only ${Object.keys(VERBS).join(", ")}`);
  }
  const rule = VERBS[verb] ?? {};
  const checked = checkArguments(given.toSpliced(at, 1), {
    ...rule,
    values: { ...rule.values, ...shapes([NAME, "n namespace context"]) },
    always: [...(rule.always ?? []), `--request-timeout=${Math.ceil(seconds)}s`],
  });
  for (const { text } of checked) {
    const path = /^(?:(?:--output=)?(?:jsonpath|custom-columns)|--sort-by)=(.*)$/s.exec(text)?.[1];
    if (path !== undefined) refuseBareValues(path);
  }
  return [{ kind: "word", text: verb }, ...checked];
}

/** Masking needs the names next to values: a path must not select a value without its name. */
const NAMELESS = ["value", "args", "command"];

function refuseBareValues(path: string): void {
  const plain = path.replace(/"\\[nt]"|'\\[nt]'/g, " ");
  // kubectl removes backslashes from names, so they could hide a name.
  const wildcard = /\.\.|\\(?![./])|(?<!\[)\*|\*(?!\])/.exec(plain)?.[0];
  const name = plain.split(/[^\w-]+/).find((part) =>
    NAMELESS.includes(part) || finish(maskSecrets(`${part}=x`, "documents", () => "")) === `${part}=`
  );
  const found = wildcard ?? name;
  if (found !== undefined) {
    refuse(`${JSON.stringify(found)} may select values without their names: use -o json`);
  }
}

/** Types are the first operand, separated by commas, or part of a `type/name`. A type can include its group: `secrets.v1.`. */
function refuseSecrets(operands: readonly string[]): void {
  const types = operands.flatMap((operand, index) =>
    index === 0 || operand.includes("/") ? operand.split(",").map((part) => part.split("/")[0] ?? "") : []
  );
  if (types.some((type) => /^secrets?(?:\.|$)/i.test(type))) refuse("secrets are not readable");
}
