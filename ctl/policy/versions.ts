import { systemClock } from "@gateway/shared/clock";
import { resolve } from "node:path";
import * as z from "@zod/zod";
import { parseConfig } from "@gateway/shared/config";
import { quoteText } from "@gateway/shared/text";
import { policyChanged, policyHistory, type PolicyRequest, policyVersionHosts } from "@gateway/shared/wire";
import { countOf } from "../kit/arguments.ts";
import { type Call, command, type CommandData, type CommandSpec, count, type Takes } from "../kit/command.ts";
import { readOperatorFile } from "../kit/files.ts";
import { conflict, invalid, RemoteError } from "../kit/output.ts";
import { askSigner, REMOTE_HELP } from "../kit/remote.ts";
import { diffLines, timeCell } from "../kit/table.ts";
import { diffConfigs, WIDER } from "./analyze.ts";

const NOTE = `
For signers with policy_source "database". Each change of the hosts is a permanent version, in force at all signers.
${REMOTE_HELP}`;

const version = (text: string) => count(text, 1, 999_999_999);
const DRY_RUN = { "--dry-run": "show the changes without making them" } as const;

/** A command about the versions of the hosts in the signers' database. */
function versionCommand<const T extends Takes>({ help = "", ...spec }: CommandSpec<T>): CommandData {
  return command<T>({ ...spec, help: `${help}${NOTE}`, uses: () => ["clientConfig"] });
}

const IMPORT = versionCommand({
  name: "import",
  summary: "Import hosts from a file into the signers' database.",
  takes: {
    "<file>": "signer's config, or the output of policy export",
    "--replace": "replace the hosts in the database",
    ...DRY_RUN,
  },
  help: `
Examples:
  broker-ctl policy import signer.json
  broker-ctl policy export > hosts.json
  broker-ctl policy import hosts.json --replace --dry-run

All "hosts" of the file become the next version; comments are not imported. If the database already has hosts, pass
--replace. Run this once before you set policy_source "database" for the first signer.
`,
  async run({ file: path, replace = false, dryRun = false }, call) {
    const bytes = await readOperatorFile(resolve(call.workingFolder, path), "hosts");
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    const schema = z.looseObject({ hosts: z.record(z.string(), z.unknown()).default({}) });
    const { hosts } = parseConfig({ what: "hosts", source: path, text, schema });
    if (Object.keys(hosts).length === 0) {
      throw invalid(`Cannot import ${quoteText(path)}: it contains no hosts; nothing was changed`);
    }
    const base = await findNewest(call);
    const changes = diffHosts(base === 0 ? {} : await fetchHostsIfReadable(call, base), hosts);
    if (base > 0 && changes.length === 0) {
      const lines = [`version ${base} already contains these hosts, nothing was changed`];
      return { json: { status: "unchanged", version: base }, lines };
    }
    if (base > 0 && !replace && !dryRun) {
      throw conflict(
        `Cannot import: the database has other hosts (version ${base}); nothing was changed`,
        undefined,
        "pass --dry-run to show the difference, or --replace to replace them",
      );
    }
    const request = { base_version: base, hosts, dry_run: dryRun };
    return await change(call, request, changes, `imported the hosts of ${quoteText(path)}`);
  },
});

const EXPORT = versionCommand({
  name: "export",
  summary: "Export the hosts of a version.",
  takes: { "[version]": version("version (default: newest)") },
  async run({ version }, call) {
    const { hosts } = await fetchVersion(call, version);
    return { json: { hosts }, lines: JSON.stringify({ hosts }, null, 2).split("\n") };
  },
});

const HISTORY = versionCommand({
  name: "history",
  summary: "List the versions of the hosts and their authors.",
  async run(_given, call) {
    const history = await fetchHistory(call);
    const now = systemClock.now();
    const rows = history.map(({ version, made_at, made_by, change }) => {
      return [`${version}`, timeCell(made_at, now), made_by, change];
    });
    const columns = ["VERSION", "CREATED", "BY", "CHANGE"];
    return { json: history, lines: [{ none: "(the database has no hosts yet)", columns, rows }] };
  },
});

const DIFF = versionCommand({
  name: "diff",
  summary: "Show how access changes between two configs, or two versions of the hosts.",
  takes: {
    "<from>": "signer config in force, or a version",
    "[to]": "new signer config, or a version (default: newest)",
  },
  help: `
Examples:
  broker-ctl policy diff /etc/gateway/signer.json signer.new.json
  broker-ctl policy diff 6 7
  broker-ctl policy diff 6

With two configs: compares what they allow, not their text, and shows an example of each changed decision. If it shows no
wider command, the new patterns are proved to allow nothing more. The exit code is ${WIDER} if any access is wider, or too
large to be compared, so that a pipeline can require a second reviewer.
`,
  async run({ from, to }, call) {
    if (!/^\d+$/.test(from)) return await diffConfigs(from, to, call.workingFolder);
    const read = countOf(1, 999_999_999);
    const before = await fetchVersion(call, read(from));
    const after = await fetchVersion(call, to === undefined ? undefined : read(to));
    const changes = diffHosts(before.hosts, after.hosts);
    const lines = changes.length === 0 ? ["no difference"] : changes;
    return { json: { from: before.version, to: after.version, changes }, lines };
  },
});

const ROLLBACK = versionCommand({
  name: "rollback",
  summary: "Restore the hosts of an earlier version.",
  takes: { "<version>": version("version to restore"), ...DRY_RUN },
  help: `
Examples:
  broker-ctl policy rollback 6 --dry-run
  broker-ctl policy rollback 6

The restored hosts become a new version; the later versions are kept.
`,
  async run({ version, dryRun = false }, call) {
    const wanted = await fetchVersion(call, version);
    const base = await findNewest(call);
    const changes = diffHosts(await fetchHostsIfReadable(call, base), wanted.hosts);
    const request = { base_version: base, from_version: version, dry_run: dryRun };
    return await change(call, request, changes, `restored version ${version}`);
  },
});

/** The versions of the hosts in the signers' database. */
export const VERSIONS: readonly CommandData[] = [IMPORT, EXPORT, HISTORY, DIFF, ROLLBACK];

async function change(call: Call, body: PolicyRequest, changes: readonly string[], done: string) {
  const question = { method: "POST", path: VERSIONS_PATH, body, schema: policyChanged } as const;
  const { data: { version, hosts } } = await askSigner(call, question);
  const lines = body.dry_run
    ? [...changes, `nothing was changed (--dry-run); the new version would be ${version} with ${hosts} hosts`]
    : [`${done}: version ${version}, ${hosts} hosts, in force at all signers`];
  return { json: { version, hosts, dry_run: body.dry_run, changes }, lines };
}

const VERSIONS_PATH = "/v1/policy/versions";

const fetchHistory = async (call: Call) =>
  (await askSigner(call, { method: "GET", path: VERSIONS_PATH, schema: policyHistory })).data;

/** The number of the newest version; 0: there is none. */
const findNewest = async (call: Call) => (await fetchHistory(call))[0]?.version ?? 0;

async function fetchVersion(call: Call, number: number | undefined) {
  const path = `${VERSIONS_PATH}/${number ?? await findNewest(call)}`;
  return (await askSigner(call, { method: "GET", path, schema: policyVersionHosts })).data;
}

/** No hosts if a version was edited manually and cannot be read, so that it can be replaced. */
async function fetchHostsIfReadable(call: Call, number: number) {
  try {
    return (await fetchVersion(call, number)).hosts;
  } catch (error) {
    if (error instanceof RemoteError && error.code === "conflict") return {};
    throw error;
  }
}

type Hosts = Readonly<Record<string, unknown>>;

/** The difference between two sets of hosts, for each host by name. */
export function diffHosts(before: Hosts, after: Hosts): readonly string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => diffLines(format(before, name), format(after, name), `hosts.${name}`));
}

/** A host as JSON with sorted keys, because their order has no meaning; empty if the host does not exist. */
function format(hosts: Hosts, name: string): string {
  return Object.hasOwn(hosts, name) ? JSON.stringify(sorted(hosts[name]), null, 2) : "";
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
