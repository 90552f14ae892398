import { resolve } from "node:path";
import { Command, CommanderError } from "commander";
import { visibleText } from "@gateway/shared/text";
import type { AppError } from "@gateway/shared/errors";
import { describeVersion } from "@gateway/shared/service";
import { normalizeArguments, once, rulesOf } from "./kit/arguments.ts";
import { APPROVAL } from "./approvals/approval.ts";
import { REPAIR } from "./audit/repair.ts";
import { PUBLIC_KEY } from "./audit/keys.ts";
import { SHOW, TAIL } from "./audit/show.ts";
import { VERIFY } from "./audit/verify.ts";
import { BACKUP, RESTORE } from "./backup/backup.ts";
import { CA } from "./hosts/ca.ts";
import { CA_KEYS, CALLERS } from "./identities/callers.ts";
import { CLUSTER } from "./clusters/cluster.ts";
import { addCompletion } from "./setup/completion.ts";
import { ENVELOPE, PERMISSIONS, RELOAD, VERSION_COMMAND } from "./setup/reload.ts";
import { FREEZE, REVOCATIONS, REVOKE, SESSION, UNFREEZE } from "./incident/freeze.ts";
import { HOST } from "./hosts/host.ts";
import { DOCTOR } from "./doctor/doctor.ts";
import { IDENTITY } from "./identities/identity.ts";
import { INIT } from "./setup/init.ts";
import { MIGRATE } from "./setup/migrate.ts";
import { LINT, TEST } from "./policy/analyze.ts";
import { VERSIONS } from "./policy/versions.ts";
import { EXPLAIN } from "./policy/explain.ts";
import { RECOMMEND } from "./policy/recommend.ts";
import { GRANTS, RULES } from "./policy/grants.ts";
import { STATUS } from "./doctor/monitor.ts";
import { addEntry, type CommandEntry, type Given } from "./kit/command.ts";
import type { SIGNER } from "./kit/remote.ts";
import {
  type CommandContext,
  type Environment,
  EXIT_CODES,
  type ExitCode,
  exitCodeOf,
  invalid,
  type Use,
  writeError,
  writeResult,
} from "./kit/output.ts";
import { CLIENT_ENV_NAMES, clientConfigPlaces } from "./kit/client_config.ts";
import { expiryWarnings } from "./identities/kinds.ts";

const LONGEST_HELP_LINE = 100;

const COMMANDS: readonly CommandEntry[] = [
  INIT,
  MIGRATE,
  PERMISSIONS,
  HOST,
  CALLERS,
  CA_KEYS,
  CA,
  IDENTITY,
  DOCTOR,
  STATUS,
  CLUSTER,
  {
    name: "policy",
    summary: "Explain and change policies.",
    commands: [EXPLAIN, LINT, TEST, RECOMMEND, ...RULES, ...VERSIONS, ...GRANTS],
  },
  APPROVAL,
  FREEZE,
  UNFREEZE,
  SESSION,
  REVOCATIONS,
  ENVELOPE,
  REVOKE,
  {
    name: "audit",
    summary: "Read, verify and repair audit logs.",
    commands: [TAIL, SHOW, VERIFY, PUBLIC_KEY, REPAIR],
  },
  BACKUP,
  RESTORE,
  RELOAD,
  addCompletion,
  VERSION_COMMAND,
];

const EXAMPLES = `
Start here:
  broker-ctl init --local --host web01=deploy@10.0.0.5 --enroll
      create one config with a CA, enroll a host, and print the entry for an MCP client
  broker-ctl init --dir gateway
      create the keys and configs of an installation with services in ./gateway
  broker-ctl permissions signer --config gateway/signer.json
      show the signer's permissions as flags for deno run
  broker-ctl host add --config gateway/signer.json --name web02 --addr 10.0.0.6:22 --user deploy \\
      --groups local --scan
      add a host; --dry-run shows the change
  broker-ctl reload --client-config gateway/broker-ctl.json
      reload the signer's config
  broker-ctl policy explain --config gateway/signer.json --host web01 --command "systemctl status nginx"
      show the signer's decision and the matching rule
  broker-ctl approval list --status pending
      list pending requests; broker-ctl approval allow <id> approves one
  broker-ctl freeze --end-user agent-7 --reason INC-42
      stop an agent immediately
  broker-ctl audit tail --log gateway/log/signer/audit.log
      follow the signer's audit log
  broker-ctl audit verify --log gateway/log/signer/audit.log --key gateway/pki/signer_audit.seed
      verify that the audit log is unchanged

Examples of a command: broker-ctl <command> --help. Connection options: broker-ctl help connection. Options can be
placed before or after the command, with one or two dashes. Every command accepts --config, --client-config and --json.
Exit codes: 0 success, 1 failure, 2 usage error.
`;

const CONNECTION = `
The connection options --url, --cert, --key and --ca can also come from variables or from a client config. For each of
them the first of these counts:
  1. the option
  2. the variable: BROKER_CTL_SIGNER_URL, _CERT, _KEY, _CA for the signer, BROKER_CTL_CP_URL, … for the control plane
  3. the client config: the file of --client-config, else of the variable BROKER_CTL_CONFIG, else
     ~/.config/broker-ctl/config.json, else /etc/gateway/broker-ctl.json
  4. the address in the signer's config (--config), and pki/operator.* or pki/approver.* next to the client config
`;

/** Runs `broker-ctl` and returns the exit code. */
export async function runProgram(args: readonly string[], environment: Environment): Promise<ExitCode> {
  const { terminal } = environment;
  let exitCode: ExitCode = EXIT_CODES.ok;
  let json = false;
  const program = createProgram({
    ...environment,
    run: async (command, uses, action) => {
      if (!uses.includes("programs")) environment.dropPrograms?.();
      const result = await action();
      if (result !== undefined) writeResult(terminal, { json }, result);
      if (result?.failed === true) exitCode = EXIT_CODES.failed;
      if (result?.exitCode !== undefined) exitCode = result.exitCode;
      await warnAboutExpiry(command, uses, environment);
    },
  }, args.some((word) => /^--?verbose$/.test(word)));
  const normalized = normalizeArguments(args, rulesOf(program, args));
  json = normalized.includes("--json");
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
    const shown = error instanceof CommanderError ? usageError(error) : error;
    writeError(terminal, { json }, shown);
    return exitCodeOf(shown);
  }
}

/** The whole command tree. */
export function createProgram(context: CommandContext, verbose = false): Command {
  const helpWidth = Math.min(context.terminal.columns ?? LONGEST_HELP_LINE, LONGEST_HELP_LINE);
  const program = new Command("broker-ctl")
    .description(
      "Set up and operate the access broker: signer, control plane, and the brokers that agents talk to.",
    )
    .exitOverride()
    .configureOutput({
      writeOut: context.terminal.out,
      writeErr: context.terminal.err,
      outputError: () => {},
      getOutHasColors: () => false,
      getErrHasColors: () => false,
      getOutHelpWidth: () => helpWidth,
      getErrHelpWidth: () => helpWidth,
    })
    .option("--config <file>", "signer's config (default: ./signer.json)", once)
    .option("--client-config <file>", "client config (default: see broker-ctl help connection)", once)
    .option("--json", "print JSON: the result on stdout, an error on stderr")
    .version(describeVersion({ verbose }), "--version", "print the version; with --verbose the build")
    .helpOption("-h, --help", "show help")
    .addHelpText("after", EXAMPLES)
    .helpCommand("help [command]", "show help");
  for (const entry of COMMANDS) addEntry(program, context, entry);
  program.command("connection", { hidden: true }).description("Connection options of all commands.")
    .addHelpText("after", CONNECTION);
  return program;
}

async function warnAboutExpiry(command: Command, uses: readonly Use[], environment: Environment) {
  const { workingFolder, terminal, variables } = environment;
  const { config = "signer.json", clientConfig, cert, ca }: Given<typeof SIGNER> = command.optsWithGlobals();
  const variableNames = CLIENT_ENV_NAMES.filter((name) => /_C(?:ERT|A)$/.test(name));
  const [places, named] = uses.includes("clientConfig")
    ? [clientConfigPlaces(clientConfig, environment), [
      cert,
      ca,
      ...variableNames.map((name) => variables[name]),
    ]]
    : [[], []];
  const configs = [
    ...uses.includes("config") ? [resolve(workingFolder, config)] : [],
    ...places.map(({ path }) => path),
  ];
  const certificates = named.flatMap((path) => path === undefined || path === "" ? [] : [path]);
  for (const warning of await expiryWarnings(configs, workingFolder, certificates)) {
    terminal.err(`${visibleText(warning)}\n`);
  }
}

/** Converts an error of commander. */
function usageError(error: CommanderError): AppError {
  const text = error.message.replace(/^error: /, "").replace(/\n/g, " ");
  const message = text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
  return invalid(message, undefined, "broker-ctl --help, or broker-ctl <command> --help");
}
