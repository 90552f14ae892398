import { dirname, join, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { describeEnd } from "./certificate_facts.ts";
import { createFile } from "../kit/files.ts";
import type { FoundCertificate } from "./folder.ts";
import { checkName, roleOf } from "./kinds.ts";
import { type IdentityFlags, type IdentitySetUp, openSetUp } from "./set_up.ts";
import type { CommandResult } from "../kit/output.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";
import { addIdentityAdd } from "./add.ts";
import { addIdentityRenew } from "./renew.ts";
import { addIdentityRevoke } from "./revoke.ts";
import { MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { ifThere, readChunks } from "@gateway/shared/files";
import { readRecord } from "../audit/record.ts";
import { findLastLines } from "../audit/logs.ts";

const LIST_EXAMPLES = `
Examples:
  broker-ctl identity list --config gateway/signer.json

Reads the certificates beside client_ca. LAST SEEN is the newest record of a caller in the audit logs of the signer and
the control plane, as far as they are on this machine and among the last 20,000 records of each.
`;

const REQUEST_EXAMPLES = `
Examples:
  broker-ctl identity request agent-8

Makes agent-8.key, which stays, and agent-8.csr, which goes to where the CA is: broker-ctl identity add agent agent-8
--csr agent-8.csr gives agent-8.crt for it.
`;

/** `identity`: who has certificates, and until when. */
export const addIdentity: AddCommand = (program, context) => {
  const identity = program.command("identity").description("Issue, renew and revoke certificates.");
  addIdentityAdd(identity, context);
  identity.command("list")
    .description("Show who has certificates, what for, until when, and when they were last seen.")
    .option("--pki <folder>", "the folder that client_ca must be in, whatever the config says", once)
    .option("--control-plane <file>", "its config (default: control-plane.json beside the signer's)", once)
    .addHelpText("after", LIST_EXAMPLES)
    .action((_flags, command) =>
      context.run(command, ["config"], () => list(command.optsWithGlobals() as IdentityFlags, context))
    );
  addIdentityRenew(identity, context);
  addIdentityRevoke(identity, context);
  identity.command("request")
    .description("Make a key, and a request for a certificate of it.")
    .argument("<name>", "who it is for")
    .option("--out <folder>", "where the files go (default: the working folder)", once)
    .addHelpText("after", REQUEST_EXAMPLES)
    .action((name: string, flags: { readonly out?: string }, command) =>
      context.run(
        command,
        [],
        () => request(checkName(name), resolve(context.workingFolder, flags.out ?? ".")),
      )
    );
};

async function list(flags: IdentityFlags, context: CommandContext): Promise<CommandResult> {
  const setUp = await openSetUp(flags, context);
  const { signer, controlPlane } = setUp;
  const logs = [
    resolve(context.workingFolder, signer.audit_log),
    ...controlPlane === undefined ? [] : [resolve(dirname(controlPlane.path), controlPlane.config.audit_log)],
  ];
  const seen = await findLastSeen(logs);
  const rows = setUp.certificates.map((found) => describe(found, setUp, seen));
  if (rows.length === 0) return { json: [], lines: ["(no certificates)"] };
  const heading = ["NAME", "CN", "FOR", "ENDS", "KEY", "LAST SEEN", "STATE"];
  const cells = rows.map(({ name, cn, kind, expires, key_is_here, last_seen, state }) => [
    name,
    cn,
    kind,
    expires === "" ? EMPTY_CELL : expires.slice(0, 10),
    key_is_here ? "here" : EMPTY_CELL,
    last_seen === "" ? EMPTY_CELL : last_seen,
    state,
  ]);
  return { json: rows, lines: formatTable(heading, cells, context.terminal.columns) };
}

function describe(found: FoundCertificate, setUp: IdentitySetUp, seen: ReadonlyMap<string, string>) {
  const { name, hasKey } = found;
  if (found.kind === "broken") {
    const nothing = { cn: "", kind: EMPTY_CELL, names: [], expires: "", last_seen: "" };
    return { name, ...nothing, key_is_here: hasKey, state: found.problem };
  }
  const { commonName: cn, kind, names, isAuthority, notAfter } = found.facts;
  const role = kind ?? roleOf(cn, setUp.signer, setUp.controlPlane?.config) ??
    (names.length > 0 ? "listener" : "client");
  const state = setUp.denied?.names.has(cn) === true
    ? "revoked"
    : describeEnd(found.facts, systemClock.now()) ?? "ok";
  return {
    name,
    cn,
    kind: isAuthority ? "CA" : role,
    names,
    expires: notAfter.toISOString(),
    key_is_here: hasKey,
    last_seen: seen.get(cn) ?? "",
    state,
  };
}

async function request(name: string, folder: string): Promise<CommandResult> {
  const { requestCertificate } = await import("./x509.ts");
  const { requestPem, keyPem } = await requestCertificate(name);
  const at = (suffix: string) => join(folder, `${name}.${suffix}`);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await createFile(at("key"), keyPem, 0o600);
  await createFile(at("csr"), requestPem, 0o644);
  return {
    json: { key: at("key"), request: at("csr") },
    lines: [`${at("key")} stays here; ${at("csr")} goes to where the CA is`],
  };
}

/** So many records of each log are looked at, the newest: a log can have millions. */
const RECORDS = 20_000;

/** When callers were last heard of, by the newest records of these logs; a log that is not there says nothing. */
async function findLastSeen(logs: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const seen = new Map<string, string>();
  for (const path of logs) {
    await using file = await ifThere(openLogFile(path));
    if (file === undefined) continue;
    const newest = readChunks(file, await findLastLines(file, RECORDS));
    for await (const { bytes, tooLong } of splitLines(newest, MAX_LINE_BYTES)) {
      const record = tooLong || bytes.length === 0 ? undefined : readRecord(bytes)?.record;
      if (record === undefined || record.caller === "") continue;
      if ((seen.get(record.caller) ?? "") < record.time) seen.set(record.caller, record.time);
    }
  }
  return seen;
}
