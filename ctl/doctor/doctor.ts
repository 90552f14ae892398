import { basename, dirname, join, resolve } from "node:path";
import type { BrokerConfig } from "@gateway/broker/config";
import { brokerUsedFiles } from "@gateway/broker/permissions";
import { controlPlaneUsedFiles } from "@gateway/control-plane/permissions";
import { planCaKeys, selectCaKey } from "@gateway/shared/ca";
import { loadConfig, type SignerClientConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere, type UsedFile } from "@gateway/shared/files";
import { shellQuote } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { signerUsedFiles } from "@gateway/signer/permissions";
import { rotatedKeys } from "../hosts/next_ca.ts";
import { type Call, command, type Given, oneOf, repeat } from "../kit/command.ts";
import { overSsh } from "../kit/programs.ts";
import { CONFIG_KINDS, loadLocalBroker, localHosts } from "../kit/signer_file.ts";
import { type CommandResult, invalid, notFound } from "../kit/output.ts";
import { checkBroker, checkControlPlane, checkPolicy, checkSigner } from "./config_checks.ts";
import {
  checkBackup,
  checkCertificate,
  checkDenied,
  checkExposure,
  checkLeftovers,
  checkRoom,
  checkSocketGroups,
} from "./file_checks.ts";
import { about, countFindings, fail, type Finding, formatFindings, type Found, LEVELS } from "./findings.ts";
import { checkHosts, checkHostSettings, checkService, checkUpstreams } from "./live_checks.ts";

const TAKES = {
  "--level <level>": oneOf(LEVELS, "production (default), or lab: accept keys in files and a shared account"),
  "--security": "check only the content of the configs",
  "--live": "also check running services and hosts",
  ...overSsh("with --live: also check sshd settings on hosts"),
  "--signer <file>": "signer's config",
  "--control-plane <file>": "control plane's config",
  "--broker <file>": repeat("broker's config; repeatable"),
  "--backup <directory>": "also check a backup: signature and age (at most a week)",
} as const;

type DoctorFlags = Given<typeof TAKES>;

export const DOCTOR = command({
  name: "doctor",
  summary: "Find problems of an installation and their fixes.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl doctor --config gateway/signer.json
  broker-ctl doctor --level lab --config gateway/signer.json
  broker-ctl doctor --config ~/.config/gateway/mcp.json
  broker-ctl doctor --live --config gateway/signer.json
  broker-ctl doctor --live --over ssh --config gateway/signer.json
  broker-ctl doctor --security --signer signer.json --broker config.json
  broker-ctl doctor --backup /var/backups/gateway --config gateway/signer.json

Checks configs, certificates, file modes and free disk space, and prints a fix for each problem. By default it checks
the signer's config, and control-plane.json, config.json and mcp.json next to it. With the config of a local
installation, it checks only that config. --level lab accepts CA keys in files, and agents that run as the broker's
account; every other problem is reported. --live also checks the services' monitors (readiness, version, clock), the connections between services, and the SSH ports of hosts without a bastion. It does not
check the permissions of running processes. --over ssh logs in to each host and checks, without changes: whether the
host trusts the CA, sshd settings that weaken certificates, the account's login shell, and the clock. Passed checks are
only counted; --json lists them. Exit code 1: a check failed or could not run (UNKNOWN), for example because only root
can read a file.
`,
  uses: ({ over }) => ["config", ...over === undefined ? [] : ["programs"] as const],
  run: diagnose,
});

async function diagnose(flags: DoctorFlags, context: Call): Promise<CommandResult> {
  const { workingFolder } = context;
  const { level = "production" } = flags;
  if (flags.over !== undefined && flags.live !== true) {
    throw invalid("Option '--over' has no effect without --live");
  }
  const findings: Finding[] = [];
  const folders = new Set<string>();
  let postures = 0;
  for (const part of await findParts(flags, workingFolder)) {
    const { found, paths } = await diagnosePart(part, flags, context);
    postures += found.filter(({ isPosture }) => isPosture === true).length;
    findings.push(...about(part.path, found, level));
    for (const path of paths) folders.add(dirname(path));
  }
  if (flags.backup !== undefined) {
    const backup = resolve(workingFolder, flags.backup);
    const config = resolve(workingFolder, flags.signer ?? flags.config ?? "signer.json");
    findings.push(...about(backup, [await checkBackup(backup, dirname(config))], level));
    folders.add(dirname(backup));
  }
  findings.push(...await checkLeftovers(folders));
  const counts = countFindings(findings);
  return {
    json: { findings, ...counts },
    lines: [
      ...formatFindings(findings),
      // Shown only if a lab would be clean, so that the line cannot hide another problem.
      ...level === "production" && postures > 0 && postures === findings.length - counts.pass
        ? [
          `In a lab you can accept these findings: broker-ctl doctor --level lab${
            flags.config === undefined ? "" : ` --config ${shellQuote(flags.config)}`
          }`,
        ]
        : [],
    ],
    failed: counts.fail + counts.unknown > 0,
  };
}

interface Part {
  readonly kind: keyof typeof LOADERS;
  readonly path: string;
}

async function findParts({ config, signer, controlPlane, broker = [] }: DoctorFlags, workingFolder: string) {
  const part = (kind: Part["kind"]) => (path: string): Part => ({ kind, path: resolve(workingFolder, path) });
  const named = [
    ...[signer ?? []].flat().map(part("signer")),
    ...[controlPlane ?? []].flat().map(part("control_plane")),
    ...broker.map(part("broker")),
  ];
  if (named.length > 0) return named;
  const main = resolve(workingFolder, config ?? "signer.json");
  if (await loadLocalBroker(main) !== undefined) return [part("broker")(main)];
  const at = (name: string) => join(dirname(main), name);
  const parts: Part[] = [];
  for (
    const each of [
      // The config of a local installation is that of a broker.
      ...basename(main) === "mcp.json" ? [] : [{ kind: "signer", path: main } as const],
      { kind: "control_plane", path: at("control-plane.json") },
      { kind: "broker", path: at("config.json") },
      { kind: "broker", path: at("mcp.json") },
    ] as const
  ) {
    // A missing config that the operator named is a finding.
    const isNamed = each.kind === "signer" && config !== undefined;
    if (isNamed || await ifThere(Deno.stat(each.path)) !== undefined) parts.push(each);
  }
  if (parts.length > 0) return parts;
  throw notFound("Cannot find a config: pass --config, --signer, --control-plane or --broker");
}

interface Facts {
  readonly config: Pick<
    SignerConfig,
    "server_cert" | "server_key" | "client_ca" | "audit_log" | "denied_callers" | "monitor_listen"
  >;
  readonly found: readonly Found[];
  readonly used: readonly UsedFile[];
  readonly signer?: SignerClientConfig | undefined;
  readonly hosts?: SignerConfig["hosts"];
  readonly sockets?: BrokerConfig["sockets"];
  /** The CA keys that hosts must trust. */
  readonly ring?: ReturnType<typeof planCaKeys>;
}

const LOADERS = {
  async signer(path: string): Promise<Facts> {
    const config = await loadConfig({ path, ...CONFIG_KINDS.signer });
    const [used, { hosts }] = [signerUsedFiles(config, path), config];
    const found = [...checkSigner(config), ...await checkPolicy(config, path)];
    return { config, found, used, hosts, ring: planCaKeys(config) };
  },
  async control_plane(path: string): Promise<Facts> {
    const config = await loadConfig({ path, ...CONFIG_KINDS.controlPlane });
    const used = controlPlaneUsedFiles(config, path);
    return { config, found: checkControlPlane(config), used, signer: config.signer };
  },
  async broker(path: string): Promise<Facts> {
    const config = await loadConfig({ path, ...CONFIG_KINDS.broker });
    const { server_cert, sockets, signer } = config;
    const isLocal = signer === undefined;
    const frontend = server_cert === "" ? "serve-mcp" : "serve-http";
    const used = brokerUsedFiles(config, { configPath: path, frontend });
    const found = [...checkBroker(config), ...isLocal ? await checkPolicy(localHosts(config), path) : []];
    return {
      ...{ config, found, used, sockets, signer },
      ...isLocal && { hosts: localHosts(config).hosts, ring: planCaKeys(config) },
    };
  },
} as const;

async function diagnosePart(
  { kind, path }: Part,
  { security, live, over, login = "root", sshdConfig }: DoctorFlags,
  context: Call,
): Promise<{ readonly found: readonly Found[]; readonly paths: readonly string[] }> {
  const { workingFolder } = context;
  const at = (name: string) => name === "" ? "" : resolve(workingFolder, name);
  let facts: Facts;
  try {
    facts = await LOADERS[kind](path);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const check = `the config is unusable: ${error.message.replaceAll("\n", " ")}`;
    return {
      found: [
        fail(check, `correct the file, then check again: broker-ctl doctor --config ${shellQuote(path)}`),
      ],
      paths: [path],
    };
  }
  if (security === true) return { found: facts.found, paths: [] };
  const { config, hosts = {}, signer } = facts;
  const used = facts.used.filter(({ path }) => path !== "").map((file) => ({ ...file, path: at(file.path) }));
  const certificates = [
    { key: "server_cert", path: at(config.server_cert), keyPath: at(config.server_key) },
    { key: "client_ca", path: at(config.client_ca), keyPath: "" },
    ...signer === undefined ? [] : [
      { key: "signer.client_cert", path: at(signer.client_cert), keyPath: at(signer.client_key) },
      { key: "signer.ca", path: at(signer.ca), keyPath: "" },
    ],
  ];
  const found = [
    ...facts.found,
    ...await Promise.all(certificates.filter(({ path }) => path !== "").map(checkCertificate)),
    ...await checkExposure(used),
    ...await checkSocketGroups(facts.sockets ?? [], used, workingFolder),
    ...config.denied_callers === "" ? [] : [await checkDenied(at(config.denied_callers))],
    await checkRoom(resolve(workingFolder, config.audit_log)),
  ];
  if (live === true) {
    if (kind !== "broker" || config.monitor_listen !== "") {
      found.push(...await checkService(config.monitor_listen));
    }
    if (signer !== undefined) found.push(...await checkUpstreams(signer, workingFolder));
    found.push(...await checkHosts(hosts));
  }
  if (over !== undefined) {
    const caOf = async ({ groups = [] }: SignerConfig["hosts"][string]) => {
      const keys = facts.ring && rotatedKeys(selectCaKey(facts.ring, groups), context);
      return await keys?.readPublic(keys.path);
    };
    found.push(...await checkHostSettings(hosts, { login, sshdConfig, caOf }));
  }
  return { found, paths: [path, ...used.map((file) => file.path)] };
}
