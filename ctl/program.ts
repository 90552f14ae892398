import { resolve } from "node:path";
import { Command, CommanderError, Option } from "commander";
import { visibleText } from "@gateway/shared/text";
import { describeVersion } from "@gateway/shared/service";
import { findCommand, normalizeArguments, once, rulesOf } from "./kit/arguments.ts";
import { APPROVAL } from "./approvals/approval.ts";
import { APPROVER } from "./approvers/approver.ts";
import { REPAIR } from "./audit/repair.ts";
import { PUBLIC_KEY } from "./audit/keys.ts";
import { SHOW, TAIL } from "./audit/show.ts";
import { VERIFY } from "./audit/verify.ts";
import { BACKUP, RESTORE } from "./backup/backup.ts";
import { CA } from "./hosts/ca.ts";
import { CA_KEYS, CALLERS } from "./identities/callers.ts";
import { CLUSTER } from "./clusters/cluster.ts";
import { CONTEXT, WHOAMI } from "./setup/context.ts";
import { COMPLETION } from "./setup/completion.ts";
import { ENVELOPE, PERMISSIONS, RELOAD, VERSION_COMMAND } from "./setup/reload.ts";
import { FREEZE, REVOCATIONS, REVOKE, UNFREEZE } from "./incident/freeze.ts";
import { HOST } from "./hosts/host.ts";
import { RECORDING } from "./sessions/recording.ts";
import { SESSION } from "./sessions/session.ts";
import { DOCTOR } from "./doctor/doctor.ts";
import { IDENTITY } from "./identities/identity.ts";
import { INIT } from "./setup/init.ts";
import { MIGRATE } from "./setup/migrate.ts";
import { LINT, TEST } from "./policy/analyze.ts";
import { VERSIONS } from "./policy/versions.ts";
import { EDIT } from "./policy/edit.ts";
import { EXPLAIN } from "./policy/explain.ts";
import { RECOMMEND } from "./policy/recommend.ts";
import { REPLAY } from "./policy/replay.ts";
import { GRANTS, RULES } from "./policy/grants.ts";
import { STATUS } from "./doctor/monitor.ts";
import { addEntry, command, type CommandEntry } from "./kit/command.ts";
import {
  type CommandContext,
  type Environment,
  EXIT_CODES,
  type ExitCode,
  exitCodeOf,
  invalid,
  readOutput,
  type Use,
  withFix,
  writeError,
  writeResult,
} from "./kit/output.ts";
import { type OutputOptions, OUTPUTS } from "./kit/table.ts";
import { CLIENT_ENV_NAMES, clientConfigPlaces, type RemoteFlags } from "./kit/client_config.ts";
import { expiryWarnings } from "./identities/kinds.ts";

const LONGEST_HELP_LINE = 100;

const CONNECTION_HELP = `
Every command accepts these options, before or after its name, with one or two dashes:
  --context <name>        context of this command (default: the current context)
  --config <file>         signer's config
  --client-config <file>  client config: the addresses of the services, and a client certificate for each
  --json                  print JSON: the result on stdout, an error on stderr
  --url <url>             address of the signer or control plane, host:port
  --cert <file>           client certificate, PEM
  --key <file>            private key of the certificate, PEM
  --ca <file>             CA of the service's certificate, PEM

Signer's config: the file of --config, else the one of --context, else ./signer.json if it exists, else the one of the
current context.

Client config: the file of --client-config, else the one of --context, else the variable BROKER_CTL_CONFIG, else the one
of the current context, else ~/.config/broker-ctl/config.json, else /etc/gateway/broker-ctl.json. With --config, only the
context of that config counts.

For the address, certificate, key and CA of a service the first of these counts:
  1. the option
  2. the variable: BROKER_CTL_SIGNER_URL, _CERT, _KEY, _CA for the signer, BROKER_CTL_CP_URL, … for the control plane
  3. the client config
  4. the address in the signer's config, and pki/operator.* or pki/approver.* next to the client config

init writes the contexts to ~/.config/broker-ctl/contexts.json. broker-ctl context list shows them.
`;

/** The help topic of the options that all commands share. */
const CONNECTION: CommandEntry = {
  name: "connection",
  summary: "Options of all commands.",
  help: CONNECTION_HELP,
  isHidden: true,
  uses: () => [],
  run: () => Promise.resolve(),
};

const HELP = command({
  name: "help",
  summary: "Show the help of a command.",
  takes: { "[command...]": "command" },
  uses: () => [],
  run({ command: words }, { program }) {
    const found = words.reduce<Command | undefined>(findCommand, program);
    if (found === undefined) {
      throw invalid(`Unknown command '${words.join(" ")}'`, undefined, "broker-ctl --help");
    }
    found.outputHelp();
    return Promise.resolve();
  },
});

/** The commands by the groups of the help. */
const COMMANDS: Readonly<Record<string, readonly CommandEntry[]>> = {
  "Set up:": [INIT, CONTEXT, WHOAMI, MIGRATE, COMPLETION],
  "Access:": [HOST, CLUSTER, CALLERS, IDENTITY, CA, CA_KEYS],
  "Policy:": [{
    name: "policy",
    summary: "Show, explain and change policies.",
    commands: [
      ...[EXPLAIN, EDIT, LINT, TEST, REPLAY, RECOMMEND],
      ...[...RULES, ...VERSIONS, ...GRANTS],
    ],
  }],
  "Approvals:": [APPROVAL, APPROVER],
  "Incident:": [FREEZE, UNFREEZE, REVOCATIONS, REVOKE, SESSION, RECORDING],
  "Audit:": [{
    name: "audit",
    summary: "Read, verify and repair audit logs.",
    commands: [TAIL, SHOW, VERIFY, PUBLIC_KEY, REPAIR],
  }],
  "Maintenance:": [
    STATUS,
    DOCTOR,
    RELOAD,
    BACKUP,
    RESTORE,
    PERMISSIONS,
    ENVELOPE,
    VERSION_COMMAND,
    HELP,
    CONNECTION,
  ],
};

const EXAMPLES = `
Start here:
  broker-ctl init --local --host web01=deploy@10.0.0.5 --enroll
      create one config with a CA, enroll a host, and print the entry for an MCP client
  broker-ctl init --dir gateway
      create the keys and configs of an installation with services in ./gateway
  broker-ctl host add web02 --addr 10.0.0.6:22 --user deploy --groups local --scan
      add a host; --dry-run shows the change
  broker-ctl policy explain --host web01 --command "systemctl status nginx"
      show the signer's decision and the matching rule
  broker-ctl approval list --status pending
      list pending requests; broker-ctl approval allow <id> approves one
  broker-ctl freeze add --end-user agent-7 --reason INC-42
      stop an agent immediately

init writes a context, so commands find the installation without --config. Examples of a command: broker-ctl help
<command>. Options of all commands: broker-ctl help connection. Exit codes: 0 success, 1 failure, 2 usage error.
`;

/** Runs `broker-ctl` and returns the exit code. */
export async function runProgram(args: readonly string[], environment: Environment): Promise<ExitCode> {
  const { terminal } = environment;
  let exitCode: ExitCode = EXIT_CODES.ok;
  let output: OutputOptions = { output: "table" };
  const program = createProgram({
    ...environment,
    run: async (command, uses, action) => {
      if (!uses.includes("programs")) environment.dropPrograms?.();
      output = readOutput(command.optsWithGlobals(), terminal);
      const result = await action();
      if (result !== undefined) await writeResult(terminal, output, result);
      if (result?.failed === true) exitCode = EXIT_CODES.failed;
      if (result?.exitCode !== undefined) exitCode = result.exitCode;
      await warnAboutExpiry(command, uses, environment);
    },
  }, args.some((word) => /^--?verbose$/.test(word)));
  const rules = rulesOf(program, args);
  const normalized = normalizeArguments(args, rules);
  const isJson = /(?:^|\n)(?:--json|(?:-o|--output)[\n=]json)(?:\n|$)/.test(normalized.join("\n"));
  output = { output: isJson ? "json" : "table", color: terminal.color ?? false };
  try {
    await program.parseAsync(normalized, { from: "user" });
    return exitCode;
  } catch (error) {
    // The reader closed the output, as in `| head`.
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_CODES.failed;
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT_CODES.ok;
      // Commander has printed its help, because the command is missing.
      if (error.code === "commander.help") return EXIT_CODES.failed;
    }
    const shown = describeUsage(error, `${rules.path} --help`);
    writeError(terminal, output, shown);
    return exitCodeOf(shown);
  }
}

/** The whole command tree. */
export function createProgram(context: CommandContext, verbose = false): Command {
  const { out, columns = LONGEST_HELP_LINE } = context.terminal;
  const helpWidth = Math.min(columns, LONGEST_HELP_LINE);
  const program = new Command("broker-ctl")
    .description(
      "Set up and operate the access broker: signer, control plane, and the brokers that agents talk to.",
    )
    .exitOverride()
    .configureOutput({
      writeOut: context.terminal.columns === undefined ? out : (text) => out(wrapParagraphs(text, helpWidth)),
      writeErr: context.terminal.err,
      outputError: () => {},
      getOutHasColors: () => false,
      getErrHasColors: () => false,
      getOutHelpWidth: () => helpWidth,
      getErrHelpWidth: () => helpWidth,
    })
    .option("--context <name>", "context of this command (default: the current context)", once)
    .option("--config <file>", "signer's config (default: ./signer.json, else that of the context)", once)
    .option("--client-config <file>", "client config (default: that of the context)", once)
    .addOption(new Option("-o, --output <format>", "format of the result (default: table)").choices(OUTPUTS))
    .option("--json", "same as -o json: the result on stdout, an error on stderr")
    .option("--no-headers", "print tables without their heading")
    .addOption(new Option("--color <when>", "colors (default: auto)").choices(["auto", "always", "never"]))
    .version(describeVersion({ verbose }), "--version", "print the version; with --verbose the build")
    .helpOption("-h, --help", "show help")
    .addHelpText("after", EXAMPLES)
    .configureHelp({ subcommandTerm: termOf })
    .helpCommand(false);
  for (const [group, entries] of Object.entries(COMMANDS)) {
    program.commandsGroup(group);
    for (const entry of entries) {
      addEntry(program, context, entry);
      if (typeof entry !== "function" && !("run" in entry)) {
        program.commands.at(-1)?.helpCommand("help [command]", "Show the help of a command.");
      }
    }
  }
  return program;
}

/** Breaks the paragraphs of a help text at spaces. Indented lines, such as examples, stay as they are. */
function wrapParagraphs(text: string, width: number): string {
  const wrap = (paragraph: string) =>
    paragraph.split(/[ \n]/).reduce((lines, word) => {
      const column = lines.length - lines.lastIndexOf("\n");
      return `${lines}${column + word.length > width ? "\n" : " "}${word}`;
    });
  return text.replaceAll(/^\S.*(?:\n\S.*)*/gm, wrap);
}

/** A command in a list, without its other spellings. */
function termOf(command: Command): string {
  const words = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`
  );
  return [command.name(), ...words].join(" ");
}

async function warnAboutExpiry(command: Command, uses: readonly Use[], environment: Environment) {
  const { workingFolder, terminal, variables } = environment;
  const { config = "signer.json", clientConfig, cert, ca }: RemoteFlags = command.optsWithGlobals();
  const connects = uses.includes("clientConfig");
  const configs = [
    ...uses.includes("config") ? [resolve(workingFolder, config)] : [],
    ...connects ? clientConfigPlaces(clientConfig, environment).map(({ path }) => path) : [],
  ];
  const variableNames = CLIENT_ENV_NAMES.filter((name) => /_C(?:ERT|A)$/.test(name));
  const named = connects ? [cert, ca, ...variableNames.map((name) => variables[name])] : [];
  const certificates = named.flatMap((path) => path || []);
  for (const warning of await expiryWarnings(configs, workingFolder, certificates)) {
    terminal.err(`${visibleText(warning)}\n`);
  }
}

/** Converts an error of commander. An error without a fix gets the help of its command as the fix. */
function describeUsage(error: unknown, fix: string): unknown {
  if (error instanceof CommanderError) {
    const text = error.message.replace(/^error: /, "").replace(/\n/g, " ");
    return invalid(text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, ""), undefined, fix);
  }
  return withFix(error, fix);
}
