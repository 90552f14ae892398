import { dirname, join, resolve } from "node:path";
import { MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { ifThere, readChunks } from "@gateway/shared/files";
import { findLastLines } from "../audit/logs.ts";
import { readRecord } from "../audit/record.ts";
import { command, type CommandGroup } from "../kit/command.ts";
import { createFile } from "../kit/files.ts";
import { EMPTY_CELL, tableOr } from "../kit/table.ts";
import { ADD } from "./add.ts";
import { describeEnd } from "./certificate_facts.ts";
import { checkName, roleOf } from "./kinds.ts";
import { RENEW } from "./renew.ts";
import { REVOKE } from "./revoke.ts";
import { CONTROL_PLANE, type FoundCertificate, type IdentitySetUp, openSetUp, PKI } from "./set_up.ts";

const LIST = command({
  name: "list",
  summary: "Show who has certificates, what for, until when, and when they were last seen.",
  takes: { ...PKI, ...CONTROL_PLANE },
  help: `
Examples:
  broker-ctl identity list --config gateway/signer.json

Reads the certificates beside client_ca. LAST SEEN is the newest record of a caller in the audit logs of the signer and
the control plane, as far as they are on this machine and among the last 20,000 records of each.
`,
  async run(flags, { workingFolder, terminal }) {
    const setUp = await openSetUp(flags, workingFolder);
    const { signer, controlPlane } = setUp;
    const seen = await findLastSeen([
      resolve(workingFolder, signer.audit_log),
      ...controlPlane === undefined
        ? []
        : [resolve(dirname(controlPlane.path), controlPlane.config.audit_log)],
    ]);
    const rows = setUp.certificates.map((found) => describe(found, setUp, seen));
    const cells = rows.map(({ name, cn, kind, expires, key_is_here, last_seen, state }) => [
      name,
      cn,
      kind,
      expires.slice(0, 10) || EMPTY_CELL,
      key_is_here ? "here" : EMPTY_CELL,
      last_seen || EMPTY_CELL,
      state,
    ]);
    const heading = ["NAME", "CN", "FOR", "ENDS", "KEY", "LAST SEEN", "STATE"];
    return { json: rows, lines: tableOr("(no certificates)", heading, cells, terminal.columns) };
  },
});

const REQUEST = command({
  name: "request",
  summary: "Make a key, and a request for a certificate of it.",
  takes: {
    "<name>": "who it is for",
    "--out <folder>": "where the files go (default: the working folder)",
  },
  help: `
Examples:
  broker-ctl identity request agent-8

Makes agent-8.key, which stays, and agent-8.csr, which goes to where the CA is: broker-ctl identity add agent agent-8
--csr agent-8.csr gives agent-8.crt for it.
`,
  uses: () => [],
  async run({ name, out = "." }, { workingFolder }) {
    checkName(name);
    const folder = resolve(workingFolder, out);
    const { requestCertificate } = await import("./x509.ts");
    const { requestPem, keyPem } = await requestCertificate(name);
    const [key, request] = [join(folder, `${name}.key`), join(folder, `${name}.csr`)];
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    await createFile(key, keyPem, 0o600);
    await createFile(request, requestPem, 0o644);
    return { json: { key, request }, lines: [`${key} stays here; ${request} goes to where the CA is`] };
  },
});

/** `identity`: the certificates of a deployment. */
export const IDENTITY: CommandGroup = {
  name: "identity",
  summary: "Issue, renew and revoke certificates.",
  commands: [ADD, LIST, RENEW, REVOKE, REQUEST],
};

function describe(found: FoundCertificate, setUp: IdentitySetUp, seen: ReadonlyMap<string, string>) {
  const { name, hasKey } = found;
  if (found.kind === "broken") {
    const nothing = { cn: "", kind: EMPTY_CELL, names: [], expires: "", last_seen: "" };
    return { name, ...nothing, key_is_here: hasKey, state: found.problem };
  }
  const { commonName: cn, kind, names, isAuthority, notAfter } = found.facts;
  const role = kind ?? roleOf(cn, setUp.signer, setUp.controlPlane?.config) ??
    (names.length > 0 ? "listener" : "client");
  const isRevoked = setUp.denied?.names.has(cn) === true;
  return {
    name,
    cn,
    kind: isAuthority ? "CA" : role,
    names,
    expires: notAfter.toISOString(),
    key_is_here: hasKey,
    last_seen: seen.get(cn) ?? "",
    state: isRevoked ? "revoked" : describeEnd(found.facts, systemClock.now()) ?? "ok",
  };
}

/** The newest records of each log that are read: a log can have millions. */
const RECORDS = 20_000;

/** The time of the newest record of each caller in these logs. */
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
