import { dirname, join, resolve } from "node:path";
import { Option } from "commander";
import { type BrokerConfig, brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { brokerUsedFiles } from "@gateway/broker/permissions";
import { type ControlPlaneConfig, controlPlaneConfig } from "@gateway/control-plane/config";
import { controlPlaneUsedFiles } from "@gateway/control-plane/permissions";
import { planCaKeys, selectCaKey } from "@gateway/shared/ca";
import { loadConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { describeVersion } from "@gateway/shared/service";
import { type SignerConfig, signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { signerUsedFiles } from "@gateway/signer/permissions";
import { once, repeated } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { checkBroker, checkControlPlane, checkSigner } from "./config_checks.ts";
import {
  checkBackup,
  checkCertificates,
  checkDenied,
  checkExposure,
  checkLeft,
  checkRoom,
  checkSocketGroups,
  type NamedCertificate,
} from "./file_checks.ts";
import { countFindings, fail, type Finding, formatFindings } from "./finding.ts";
import { checkHosts, checkHostSettings, checkService } from "./live_checks.ts";
import { checkUpstreams } from "./upstream_checks.ts";
import { rotatedKeys } from "../hosts/next_ca.ts";
import type { CommandResult } from "../kit/output.ts";

interface DoctorFlags {
  readonly config?: string;
  readonly signer?: string;
  readonly controlPlane?: string;
  readonly broker?: readonly string[];
  readonly backup?: string;
  readonly security?: boolean;
  readonly live?: boolean;
  readonly over?: "ssh";
  readonly login?: string;
  readonly sshdConfig?: string;
}

const EXAMPLES = `
Examples:
  broker-ctl doctor --config gateway/signer.json
  broker-ctl doctor --live --config gateway/signer.json
  broker-ctl doctor --live --over ssh --config gateway/signer.json
  broker-ctl doctor --security --signer signer.json --broker config.json
  broker-ctl doctor --backup /var/backups/gateway --config gateway/signer.json

Looks at configs, certificates, file modes and room for records, and says of each thing that is wrong how it is
mended. Without names of configs: the signer's, and control-plane.json, config.json and mcp.json beside it. --security
looks at what the configs say alone. --live asks the monitors of the services (ready? which version? which time?),
each service that a control plane or a broker asks, by its certificate, and each host that is not behind another for
its SSH server. It does not check the permissions of running processes. With --over ssh it logs in to each, as root or
--login with sudo, and changes nothing: does the host trust the CA, does sshd have a setting that defeats a
certificate's promise, which login shell does the account have, is the clock right? What is well is counted only;
--json has all. Exit code 1: something fails, or could not be looked at (unknown), such as files that only root may
read.
`;

/** `doctor`: what is wrong with a set-up, and how it is mended. */
export const addDoctor: AddCommand = (program, context) => {
  program.command("doctor")
    .description("Find what is wrong with a set-up, and how it is mended.")
    .option("--security", "look at what the configs say, and nothing else")
    .option("--live", "ask the running services and hosts too")
    .addOption(new Option("--over <way>", "with --live: ask hosts from within").choices(["ssh"]))
    .option("--login <account>", "with --over: whom to log in as (default: root)", once)
    .option("--sshd-config <file>", "what sshd of the hosts is started with, if not its own", once)
    .option("--signer <file>", "the signer's config", once)
    .option("--control-plane <file>", "the control plane's config", once)
    .option("--broker <file>", "a broker's config; repeat for more", repeated)
    .option("--backup <folder>", "also check a backup: its signature, and its age (at most a week)", once)
    .addHelpText("after", EXAMPLES)
    .action(({ over }: DoctorFlags, command) =>
      context.run(
        command,
        ["config", ...over === undefined ? [] : ["programs"] as const],
        () => diagnose(command.optsWithGlobals() as DoctorFlags, context),
      )
    );
};

async function diagnose(flags: DoctorFlags, context: CommandContext): Promise<CommandResult> {
  const { workingFolder } = context;
  if (flags.over !== undefined && flags.live !== true) {
    throw new AppError("invalid_request", "Option '--over' goes with --live");
  }
  const findings: Finding[] = [];
  const folders = new Set<string>();
  for (const part of await findParts(flags, workingFolder)) {
    const diagnosed = await diagnosePart(part, flags, context);
    findings.push(...diagnosed.findings);
    for (const folder of diagnosed.folders) folders.add(folder);
  }
  if (flags.backup !== undefined) {
    const backup = resolve(workingFolder, flags.backup);
    const config = resolve(workingFolder, flags.config ?? flags.signer ?? "signer.json");
    findings.push(await checkBackup(backup, dirname(config)));
    folders.add(dirname(backup));
  }
  findings.push(...await checkLeft(folders));
  const counts = countFindings(findings);
  return {
    json: { findings, ...counts },
    lines: formatFindings(findings),
    failed: counts.fail + counts.unknown > 0,
  };
}

interface Part {
  readonly kind: "signer" | "control_plane" | "broker";
  readonly path: string;
}

/** @throws {AppError} `not_found` when there is nothing to look at */
async function findParts(
  { config, signer, controlPlane, broker = [] }: DoctorFlags,
  workingFolder: string,
): Promise<readonly Part[]> {
  const at = (path: string) => resolve(workingFolder, path);
  const named: readonly Part[] = [
    ...signer === undefined ? [] : [{ kind: "signer" as const, path: at(signer) }],
    ...controlPlane === undefined ? [] : [{ kind: "control_plane" as const, path: at(controlPlane) }],
    ...broker.map((path) => ({ kind: "broker" as const, path: at(path) })),
  ];
  if (named.length > 0) return named;
  const main = at(config ?? "signer.json");
  const beside: readonly Part[] = [
    { kind: "control_plane", path: join(dirname(main), "control-plane.json") },
    { kind: "broker", path: join(dirname(main), "config.json") },
    { kind: "broker", path: join(dirname(main), "mcp.json") },
  ];
  const there = await Promise.all(
    beside.map(async (part) => await ifThere(Deno.stat(part.path)) !== undefined),
  );
  const parts = beside.filter((_part, index) => there[index]);
  // A named one that is not there is a finding.
  if (config === undefined && await ifThere(Deno.stat(main)) === undefined) {
    if (parts.length > 0) return parts;
    throw new AppError(
      "not_found",
      "There is no config to look at: --config, --signer, --control-plane or --broker names one",
    );
  }
  return [{ kind: "signer", path: main }, ...parts];
}

/** What of a part is looked at beside its config. */
interface Facts {
  readonly config: readonly Finding[];
  readonly certificates: readonly NamedCertificate[];
  readonly used: Parameters<typeof checkExposure>[1];
  readonly auditLog: string;
  readonly deniedCallers: string;
  readonly monitor: string;
  readonly hosts: SignerConfig["hosts"];
  readonly sockets?: BrokerConfig["sockets"];
  readonly asks?: ControlPlaneConfig["signer"];
  /** The keys that hosts have to trust. */
  readonly ring?: ReturnType<typeof planCaKeys>;
}

async function diagnosePart(
  part: Part,
  { security, live, over, login = "root", sshdConfig }: DoctorFlags,
  context: CommandContext,
): Promise<{ readonly findings: readonly Finding[]; readonly folders: readonly string[] }> {
  const { workingFolder } = context;
  let facts: Facts;
  try {
    facts = await loadPart(part);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const found = fail(
      part.path,
      `the config can't be used: ${error.message.replaceAll("\n", " ")}`,
      "mend what it says",
    );
    return { findings: [found], folders: [dirname(part.path)] };
  }
  if (security === true) return { findings: facts.config, folders: [] };
  const named = facts.used.filter(({ path }) => path !== "").map(({ path }) => resolve(workingFolder, path));
  const findings = [
    ...facts.config,
    ...await checkCertificates(part.path, facts.certificates, workingFolder),
    ...await checkExposure(part.path, facts.used, workingFolder),
    ...await checkSocketGroups(part.path, facts.sockets ?? [], { used: facts.used, workingFolder }),
    ...await checkDenied(part.path, facts.deniedCallers, workingFolder),
    await checkRoom(part.path, facts.auditLog, workingFolder),
    ...live === true && (part.kind !== "broker" || facts.monitor !== "")
      ? await checkService(part.path, facts.monitor, describeVersion({ verbose: false }))
      : [],
    ...live === true && facts.asks !== undefined
      ? await checkUpstreams(part.path, facts.asks, workingFolder)
      : [],
    ...live === true ? await checkHosts(part.path, facts.hosts) : [],
    ...over === undefined ? [] : await checkHostSettings(part.path, facts.hosts, {
      ...{ login, sshdConfig },
      caOf: async ({ groups = [] }) => {
        const keys = facts.ring && rotatedKeys(selectCaKey(facts.ring, groups), context);
        return await keys?.readPublic(keys.path);
      },
    }),
  ];
  return { findings, folders: [part.path, ...named].map((path) => dirname(path)) };
}

async function loadPart({ kind, path }: Part): Promise<Facts> {
  switch (kind) {
    case "signer": {
      const load = {
        path,
        what: "signer config",
        schema: signerConfig,
        unsupported: UNSUPPORTED_SIGNER_KEYS,
      };
      const config: SignerConfig = await loadConfig(load);
      return {
        config: checkSigner(path, config),
        certificates: listenerOf(config),
        used: signerUsedFiles(config, path),
        auditLog: config.audit_log,
        deniedCallers: config.denied_callers,
        monitor: config.monitor_listen,
        hosts: config.hosts,
        ring: planCaKeys(config),
      };
    }
    case "control_plane": {
      const config: ControlPlaneConfig = await loadConfig({
        path,
        what: "control plane config",
        schema: controlPlaneConfig,
      });
      return {
        config: checkControlPlane(path, config),
        certificates: [...listenerOf(config), ...clientOf(config.signer)],
        used: controlPlaneUsedFiles(config, path),
        auditLog: config.audit_log,
        deniedCallers: config.denied_callers,
        monitor: config.monitor_listen,
        hosts: {},
        asks: config.signer,
      };
    }
    case "broker": {
      const load = {
        path,
        what: "broker config",
        schema: brokerConfig,
        unsupported: UNSUPPORTED_BROKER_KEYS,
      };
      const config: BrokerConfig = await loadConfig(load);
      const frontend = config.server_cert === "" ? "serve-mcp" : "serve-http";
      return {
        config: checkBroker(path, config),
        certificates: [...listenerOf(config), ...config.signer === undefined ? [] : clientOf(config.signer)],
        used: brokerUsedFiles(config, { configPath: path, frontend }),
        auditLog: config.audit_log,
        deniedCallers: config.denied_callers,
        monitor: config.monitor_listen,
        hosts: {},
        sockets: config.sockets,
        ...config.signer === undefined ? {} : { asks: config.signer },
      };
    }
    default:
      return kind satisfies never;
  }
}

function listenerOf(
  { server_cert, server_key, client_ca }: Pick<SignerConfig, "server_cert" | "server_key" | "client_ca">,
): readonly NamedCertificate[] {
  return [{ key: "server_cert", path: server_cert, keyPath: server_key }, {
    key: "client_ca",
    path: client_ca,
  }];
}

function clientOf(
  { client_cert, client_key, ca }: ControlPlaneConfig["signer"],
): readonly NamedCertificate[] {
  return [
    { key: "signer.client_cert", path: client_cert, keyPath: client_key },
    { key: "signer.ca", path: ca },
  ];
}
