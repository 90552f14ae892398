import { basename, dirname, join, relative, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig, setValue, type ValuePath } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { type BackupSources, copyBytes, copyDatabase, copyLog, findSources } from "../backup/sources.ts";
import { command } from "../kit/command.ts";
import { isFields } from "../kit/entries.ts";
import { createFolder } from "../kit/files.ts";
import { checkFolder } from "./write.ts";
import { badConfig, conflict, notFound } from "../kit/output.ts";

export const MIGRATE = command({
  name: "migrate",
  summary: "Convert an installation of the Go reference.",
  takes: {
    "<directory>": "directory with the reference's configs",
    "--to <directory>": "directory of the new installation (default: gateway)",
    "--dry-run": "show the changes, and write nothing",
  },
  help: `
Examples:
  broker-ctl migrate /etc/gateway --dry-run
  broker-ctl migrate /etc/gateway --to /srv/gateway

Reads an installation of the Go reference: signer.json, control-plane.json, config.json and broker-ctl.json in the
directory, and the files that they name. Relative paths are relative to the directory. If the configs are in several
directories, copy them to one first. Stop the services of the reference: two processes must not continue the same audit
log. The command writes only the new directory, which must not exist; its files belong to you. To undo, delete it.

Copies configs (comments included), CA keys, certificates, audit seeds, audit logs with their rotated files, and the
signer's grants and freezes. Prints each changed value, what needs your decision, and what is not carried over.
`,
  uses: () => [],
  async run({ directory, to = "gateway", dryRun = false }, { workingFolder }) {
    const [from, target] = [resolve(workingFolder, directory), resolve(workingFolder, to)];
    if (await ifThere(Deno.lstat(target)) !== undefined) {
      throw conflict(`Cannot migrate to ${quoteText(target)}: it exists`, undefined, "pass another --to");
    }
    await checkFolder(target);
    const sources = await findSources(from);
    if (sources.configs.length === 0) {
      throw notFound(`Cannot migrate ${quoteText(from)}: it contains no config of a service`);
    }
    const plan = await planMigration(from, target, sources);
    if (!dryRun) await write(plan, target);
    const { changes, decisions, lost } = plan;
    return {
      json: { from, to: target, dry_run: dryRun, changes, decisions, not_carried_over: lost },
      lines: [
        ...changes.map((line) => `change: ${line}`),
        ...decisions.map((line) => `decide: ${line}`),
        ...lost.map((line) => `not carried over: ${line}`),
        ...(dryRun ? ["nothing was written (--dry-run)"] : [
          `${plan.copies.size} files and ${plan.texts.size} configs written to ${target}`,
          `Next: broker-ctl doctor --config ${join(target, "signer.json")}`,
        ]),
      ],
    };
  },
});

type Plan = Awaited<ReturnType<typeof planMigration>>;

async function planMigration(from: string, target: string, sources: BackupSources) {
  const plan = {
    /** Config texts by the name of the file. */
    texts: new Map<string, string>(),
    /** The files that are copied, and their new paths below the new directory. */
    copies: new Map<string, { readonly kind: "key" | "log" | "state"; readonly place: string }>(),
    /** The other directories that services write to. */
    folders: new Set<string>(),
    changes: [] as string[],
    decisions: [] as string[],
    lost: [] as string[],
  };
  const keys = new Set([...sources.keys, ...sources.deniedCallers].filter((path) => !path.endsWith(".env")));
  const placeOf = (path: string) => {
    const place = relative(from, path);
    return place.startsWith("..") ? join("pki", "outside", path) : place;
  };
  for (const path of keys) plan.copies.set(path, { kind: "key", place: placeOf(path) });
  for (const config of sources.configs) {
    const name = basename(config);
    const stem = basename(name, ".json");
    let text = await Deno.readTextFile(config);
    const set = (path: ValuePath, value: unknown, why = "") => {
      text = setValue(text, path, value);
      plan.changes.push(`${name}: ${path.join(".")} = ${JSON.stringify(value)}${why}`);
    };
    // Load the config without defaults. findSources() has already checked it.
    const written = await loadConfig({ path: config, what: name, schema: z.looseObject({}) });
    for (const [path, value] of stringsOf(written)) {
      const [key = "", file] = [path.at(-1), resolve(from, value)];
      if (key === "audit_log" || key === "state_db") {
        if (/^postgres(?:ql)?:/.test(value) || value === "") continue;
        // A directory for each service, because a service may write to all of it.
        const place = join(key === "audit_log" ? "log" : "state", stem, basename(value));
        set(path, join(target, place));
        plan.folders.add(dirname(place));
        if (key === "audit_log") plan.copies.set(file, { kind: "log", place });
        else if (stem === "signer") plan.copies.set(file, { kind: "state", place });
        else {
          const why = "the reference stores their times in another unit; request them again";
          plan.lost.push(`approvals in ${file}: ${why}`);
        }
      } else if (keys.has(file)) set(path, join(target, placeOf(file)));
      else if (key.endsWith("_dir") && value !== "") set(path, file, " (stays where it is)");
    }
    if (stem === "signer") migrateSigner(written, plan, target, set);
    plan.texts.set(name, text);
  }
  plan.lost.push(
    ...sources.leftOut,
    ...sources.keys.filter((path) => path.endsWith(".env")).map((path) => `variables of a unit in ${path}`),
    "systemd units, session recordings, and files in subdirectories of pki that no config names",
  );
  return plan;
}

function migrateSigner(
  config: Readonly<Record<string, unknown>>,
  { folders, decisions }: { readonly folders: Set<string>; readonly decisions: string[] },
  target: string,
  set: (path: ValuePath, value: unknown, why?: string) => void,
): void {
  const membersOf = (key: string) => isFields(config[key]) ? Object.entries(config[key]) : [];
  if (!config["state_db"]) {
    folders.add("state/signer");
    set(["state_db"], join(target, "state/signer/signer.db"), " (freezes survive a restart)");
  }
  for (const [name, host] of membersOf("hosts")) {
    if (isFields(host) && host["sealed_exec"] === true && host["envelope"] === undefined) {
      set(["hosts", name, "envelope"], "v1", " (the shim on the host reads only v1)");
    }
  }
  const admins = Array.isArray(config["reload_callers"]) ? config["reload_callers"] : [];
  for (const [caller] of membersOf("callers").filter(([name]) => admins.includes(name))) {
    const risk = "is a broker and in reload_callers: an attacker who compromises it can lift freezes";
    const fix = "Run broker-ctl identity add operator <name>, then remove it from reload_callers";
    decisions.push(`${quoteText(caller)} ${risk}. ${fix}`);
  }
}

function stringsOf(value: unknown, path: ValuePath = []): readonly (readonly [ValuePath, string])[] {
  if (typeof value === "string") return [[path, value]];
  if (!isFields(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => stringsOf(member, [...path, key]));
}

async function write({ texts, copies, folders }: Plan, target: string): Promise<void> {
  await createFolder(target, async (staging) => {
    for (const folder of [...folders, ...[...copies.values()].map(({ place }) => dirname(place))]) {
      await Deno.mkdir(join(staging, folder), { recursive: true, mode: 0o700 });
    }
    for (const [path, { kind, place }] of copies) {
      const copy = join(staging, place);
      if (kind === "key") await copyBytes(path, copy);
      else if (kind === "state") await ifThere(copyDatabase(path, copy, systemClock));
      else {
        const { problems } = await copyLog(path, (file) => join(dirname(copy), basename(file)));
        if (problems.length > 0) throw badConfig(problems.join("; "));
      }
    }
    for (const [name, text] of texts) await Deno.writeTextFile(join(staging, name), text, { mode: 0o640 });
    // Load the written configs, so that an error is found before the services start.
    await findSources(staging);
  });
}
