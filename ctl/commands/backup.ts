import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { makeBackup } from "../backup/make.ts";
import { restoreBackup } from "../backup/restore.ts";
import { once, repeated } from "../arguments.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { CommandResult } from "../output.ts";
import { readOperatorFile } from "../read_file.ts";

interface BackupFlags {
  readonly config?: string;
  readonly recipient?: readonly string[];
}

interface RestoreFlags {
  readonly dir?: string;
  readonly identity?: string;
}

const BACKUP_EXAMPLES = `
Examples:
  broker-ctl backup /mnt/backup/monday --config /etc/gateway/signer.json
  broker-ctl backup /mnt/backup/monday --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p

Copies the configs beside the signer's, the lists of denied callers, the state of signer and control plane, and the audit
logs with all rotated files, while the services run. Keys, certificates, tokens and the services' .env files only with
--recipient, encrypted in the format of age (age-keygen -o identity.txt makes a pair); without it, keep pki/ elsewhere: a
set-up does not start without its keys.
A log that is not intact is copied as it is, and said with exit code 1.
Run it as who may read all that, root for an installation of packages. Whoever can write the backup can take freezes and
revocations out of it: keep it where the services can't write. State in PostgreSQL is that server's to back up.
`;

const RESTORE_EXAMPLES = `
Examples:
  broker-ctl restore /mnt/backup/monday --identity identity.txt
  broker-ctl restore /mnt/backup/monday --identity identity.txt --dir ~/gateway

Stop the services first, and restore no backup that somebody else could write: it says which files are made. All goes
where it was, with its mode and, for root, its owner; or with --dir into another folder, where the configs then name
their files, and outside of which nothing is written. A file that is there as the backup has it stays, so that a restore
that was interrupted goes on when it is run again; any other one is a reason to write nothing. The audit logs are
verified, and must end where they ended.
Freezes, revocations, grants and approvals since the backup are gone: freeze again who was frozen since then.
`;

/** `backup` and `restore`: a set-up in a folder, and back. */
export const addBackup: AddCommand = (program, context) => {
  program.command("backup")
    .description("Copy configs, state and audit logs to a new folder.")
    .argument("<folder>", "where; it must not be there yet")
    .option("--recipient <age1…>", "encrypt the keys for this one, and add them; repeat for more", repeated)
    .addHelpText("after", BACKUP_EXAMPLES)
    .action((folder: string, _flags, command) =>
      context.run(command, ["config"], () => backup(folder, command.optsWithGlobals(), context))
    );
  program.command("restore")
    .description("Put a backup back.")
    .argument("<folder>", "the backup")
    .option("--dir <folder>", "put the set-up there instead of where it was", once)
    .option("--identity <file>", "opens the keys: lines AGE-SECRET-KEY-1…", once)
    .addHelpText("after", RESTORE_EXAMPLES)
    .action((folder: string, flags: RestoreFlags, command) =>
      context.run(command, [], () => restore(folder, flags, context))
    );
};

async function backup(
  folder: string,
  { config, recipient = [] }: BackupFlags,
  { workingFolder }: CommandContext,
): Promise<CommandResult> {
  const target = resolve(workingFolder, folder);
  const setUp = dirname(resolve(workingFolder, config ?? "signer.json"));
  const manifest = await makeBackup({ setUp, target, recipients: recipient, clock: systemClock });
  const count = (kind: string) => manifest.files.filter((file) => file.kind === kind).length;
  const { keys, left_out: leftOut, heads, problems = [] } = manifest;
  const lists = count("denied_callers");
  return {
    json: { folder: target, ...manifest },
    lines: [
      `backup of ${setUp} in ${target}: ${count("config")} configs, ${count("state")} states, ` +
      `${lists} ${lists === 1 ? "list" : "lists"} of denied callers, ` +
      `${count("audit_log")} files of audit logs, ${
        keys === undefined ? "no keys" : `${keys.count} keys (encrypted)`
      }`,
      ...heads.map(({ path, seq, hash }) =>
        `${path} ends with record ${seq}${hash === "" ? "" : `, ${hash}`}`
      ),
      ...(keys === undefined ? ["the keys are not in it: --recipient adds them, encrypted"] : []),
      ...leftOut.map((what) => `left out: ${what}`),
      ...problems.map((problem) => `ERROR: ${problem}`),
    ],
    failed: problems.length > 0,
  };
}

async function restore(
  folder: string,
  { dir, identity }: RestoreFlags,
  { workingFolder }: CommandContext,
): Promise<CommandResult> {
  const { manifest, folder: target, files, keys, missing, problems } = await restoreBackup({
    backup: resolve(workingFolder, folder),
    folder: dir === undefined ? undefined : resolve(workingFolder, dir),
    identities: identity === undefined ? [] : await readIdentities(resolve(workingFolder, identity)),
  });
  const ok = problems.length === 0;
  return {
    json: { ok, folder: target, made_at: manifest.made_at, files, keys, missing, problems },
    lines: [
      `restored ${files} files and ${keys} keys of ${manifest.made_at} to ${target}`,
      ...(ok ? [`${manifest.heads.length} audit logs: intact, and end where they did`] : []),
      ...problems.map((problem) => `ERROR: ${problem}`),
      ...missing.map((what) => `missing: ${what}`),
      `freezes, revocations, grants and approvals since then are not in it: freeze again who was frozen since then`,
    ],
    failed: !ok,
  };
}

/** The lines of a file of `age-keygen`. */
async function readIdentities(path: string): Promise<readonly string[]> {
  const text = new TextDecoder().decode(await readOperatorFile(path, "identity"));
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
}
