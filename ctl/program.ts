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
import { VERSIONS } from "./policy/versions.ts";
import { EXPLAIN } from "./policy/explain.ts";
import { RECOMMEND } from "./policy/recommend.ts";
import { GRANTS, RULES } from "./policy/grants.ts";
import { STATUS } from "./doctor/monitor.ts";
import { addEntry, type CommandEntry } from "./kit/command.ts";
import {
  type CommandContext,
  type Environment,
  EXIT_CODES,
  type ExitCode,
  exitCodeOf,
  type GlobalOption,
  HintedError,
  invalid,
  type Use,
  writeError,
  writeResult,
} from "./kit/output.ts";
import { CLIENT_ENV_NAMES, clientConfigPlaces } from "./kit/client_config.ts";
import { warningsOfEnds } from "./identities/kinds.ts";

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
    summary: "Explain and change what may run where.",
    commands: [EXPLAIN, RECOMMEND, ...RULES, ...VERSIONS, ...GRANTS],
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
    summary: "Read, check and mend audit logs.",
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
  broker-ctl init --dir gateway
      make keys and configs for this machine, in ./gateway
  broker-ctl permissions signer --config gateway/signer.json
      show what the signer's process may do, as flags for deno run
  broker-ctl host add --config gateway/signer.json --name web02 --addr 10.0.0.6:22 --user deploy \\
      --groups local --scan
      add a host; --dry-run shows what would change
  broker-ctl reload --client-config gateway/broker-ctl.json
      have the running signer read its config again
  broker-ctl policy explain --config gateway/signer.json --host web01 --command "systemctl status nginx"
      say what the signer would decide, and by which rule
  broker-ctl approval list --status pending
      see what waits for a second human; broker-ctl approval allow <id> lets it run
  broker-ctl freeze --end-user agent-7 --reason INC-42
      stop an agent at once
  broker-ctl audit tail --log gateway/log/signer/audit.log
      watch what happens
  broker-ctl audit verify --log gateway/log/signer/audit.log --key gateway/pki/signer_audit.seed
      prove that nobody changed the audit log

Every command has examples of its own: broker-ctl <command> --help
Options may stand before or after the command, with one dash or two. Every command accepts --config, --client-config
and --json. Exit codes: 0 success, 1 failure, 2 usage error.
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
      await warnOfEnds(command, uses, environment);
    },
  }, args.some((word) => /^--?verbose$/.test(word)));
  const normalized = normalizeArguments(args, rulesOf(program, args));
  json = normalized.includes("--json");
  try {
    await program.parseAsync(normalized, { from: "user" });
    return exitCode;
  } catch (error) {
    // The reader of the output closed it (`| head`).
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_CODES.failed;
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT_CODES.ok;
      // Commander has written its help for a missing command.
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
    .option("--config <file>", "the signer's config (default: ./signer.json)", once)
    .option(
      "--client-config <file>",
      "how to reach the services (default: see broker-ctl reload --help)",
      once,
    )
    .option("--json", "print one JSON object: the result on stdout, an error on stderr")
    .version(describeVersion({ verbose }), "--version", "print the version; with --verbose all of the build")
    .helpOption("-h, --help", "explain the program or a command")
    .addHelpText("after", EXAMPLES)
    .helpCommand("help [command]", "explain the program or a command");
  for (const entry of COMMANDS) addEntry(program, context, entry);
  return program;
}

async function warnOfEnds(command: Command, uses: readonly Use[], environment: Environment) {
  const { workingFolder, terminal, variables } = environment;
  const { config, clientConfig, cert, ca }: Partial<Record<GlobalOption | "cert" | "ca", string>> = command
    .optsWithGlobals();
  const configs = [
    ...uses.includes("config") ? [resolve(workingFolder, config ?? "signer.json")] : [],
    ...uses.includes("clientConfig")
      ? clientConfigPlaces(clientConfig, environment).map(({ path }) => path)
      : [],
  ];
  const named = uses.includes("clientConfig")
    ? [
      cert,
      ca,
      ...CLIENT_ENV_NAMES.filter((name) => /_C(?:ERT|A)$/.test(name)).map((name) => variables[name]),
    ]
    : [];
  const certificates = named.flatMap((path) => path === undefined || path === "" ? [] : [path]);
  for (const warning of await warningsOfEnds(configs, workingFolder, certificates)) {
    terminal.err(`${visibleText(warning)}\n`);
  }
}

/** An error of commander in our form. */
function usageError(error: CommanderError): AppError {
  const text = error.message.replace(/^error: /, "").replace(/\n/g, " ");
  const message = text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
  return new HintedError(
    invalid(message),
    "broker-ctl --help, or broker-ctl <command> --help",
  );
}
