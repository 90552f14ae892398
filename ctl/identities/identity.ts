import { basename, dirname, join, resolve } from "node:path";
import { MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { ifThere, readChunks, readRegularText } from "@gateway/shared/files";
import { findLastLines } from "../audit/logs.ts";
import { readRecord } from "../audit/record.ts";
import { command, type CommandGroup, count } from "../kit/command.ts";
import { createFile, readOperatorText, replaceFile } from "../kit/files.ts";
import { EMPTY_CELL, tableOr } from "../kit/table.ts";
import { ADD } from "./add.ts";
import {
  checkName,
  describeEnd,
  endsWithin,
  LEAF_DAYS,
  readCertificateFacts,
  RENEW_DAYS,
  roleOf,
} from "./kinds.ts";
import {
  addDenied,
  CA_KEY,
  checkNames,
  CONTROL_PLANE,
  endIn,
  type FoundCertificate,
  type IdentitySetUp,
  isTrusted,
  openAuthority,
  openOwnSetUp,
  openSetUp,
  PKI,
  refuseDenied,
  type TrustedAuthority,
} from "./set_up.ts";
import { errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { badConfig, HintedError, invalid, notFound } from "../kit/output.ts";
import { freezeRequest, freezeResponse } from "@gateway/shared/wire";
import { asOneWord } from "../kit/arguments.ts";
import { CONFIG_KINDS, loadNeighbor } from "../kit/signer_file.ts";
import { askSigner, REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";

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

/** `identity renew`: the next certificate for the same key. */
const RENEW = command({
  name: "renew",
  summary: "Issue the next certificate for a key.",
  takes: {
    "[names...]": "which, as identity list shows them",
    "--due": "all that end soon",
    "--within <days>": count(`with --due: what is soon (default: ${RENEW_DAYS})`, 1, 3650),
    "--days <n>": count(`how long it is good (default: ${LEAF_DAYS})`, 1, 825),
    ...PKI,
    ...CA_KEY,
  },
  help: `
Examples:
  broker-ctl identity renew agent-7 --config gateway/signer.json
  broker-ctl identity renew --due --config gateway/signer.json

Issues the next certificate for the same key, name and use, and puts it in the place of the one there is. With --due
it renews what ends within ${RENEW_DAYS} days, or within --within. Services take it within 10 seconds, connections that
are open go on; a certificate whose key is elsewhere has to be taken there, and a browser needs the bundle anew. What
no CA of client_ca signed, and whoever is revoked, is left alone. Where client_ca holds a next CA too, --ca-key names
its key, and it signs what the former one signed.
`,
  async run({ names, due = false, within = RENEW_DAYS, days = LEAF_DAYS, ...flags }, { workingFolder }) {
    if ((names.length > 0) === due) {
      throw invalid("Name whose certificates to renew, or --due for all that end soon");
    }
    const { signer, certificates, denied } = await openOwnSetUp(flags, workingFolder);
    const now = systemClock.now();
    const chosen = due
      ? certificates.filter((each) =>
        each.kind === "broken" ||
        (!each.facts.isAuthority && denied?.names.has(each.facts.commonName) !== true &&
          endsWithin(each.facts, within, now))
      )
      : names.map((name) => {
        const found = certificates.find((each) => each.name === name);
        if (found === undefined) {
          throw notFound(`There is no certificate ${quoteText(name)}`);
        }
        if (found.kind === "ok") refuseDenied(denied, found.facts.commonName);
        return found;
      });
    if (chosen.length === 0) return { json: { renewed: [], failed: [] }, lines: ["nothing ends soon"] };
    const authority = await openAuthority(signer.client_ca, flags.caKey, workingFolder);
    const renewed: { name: string; expires: string; key_is_here: boolean }[] = [];
    const failed: { name: string; problem: string }[] = [];
    for (const each of chosen) {
      try {
        const expires = await renewOne(each, authority, days);
        renewed.push({ name: each.name, expires, key_is_here: each.hasKey });
      } catch (error) {
        failed.push({ name: each.name, problem: errorText(error) });
      }
    }
    return {
      json: { renewed, failed },
      lines: [
        ...renewed.map(({ name, expires, key_is_here }) =>
          `${name} renewed until ${expires.replace(".000", "")}${
            key_is_here ? "" : `; take ${name}.crt to where its key is`
          }`
        ),
        ...failed.map(({ name, problem }) => `${name} NOT renewed: ${problem}`),
      ],
      failed: failed.length > 0,
    };
  },
});

/** @returns the end of the new certificate */
async function renewOne(found: FoundCertificate, authority: TrustedAuthority, days: number): Promise<string> {
  if (found.kind === "broken") throw badConfig(found.problem);
  const { path, pem, facts, hasKey } = found;
  if (facts.isAuthority) throw invalid("it is a CA, which is not renewed by this");
  // Otherwise an account that may write to the directory could have anything signed.
  if (!isTrusted(pem, authority)) throw badConfig("no CA of client_ca signed it");
  const { certify, readLeaf, readPublicKey } = await import("./x509.ts");
  const { publicKey: known, ...leaf } = readLeaf(pem);
  checkNames(authority, leaf.subjectAltNames ?? []);
  const keyPem = hasKey
    ? await readOperatorText(resolve(path.replace(/\.crt$/, ".key")), "the key")
    : undefined;
  // A key that was replaced counts: it needs the certificate.
  const publicKey = keyPem === undefined ? known : readPublicKey(keyPem);
  const notAfter = endIn(days, authority);
  await replaceFile(path, await certify(authority, publicKey, { ...leaf, notAfter }));
  return readCertificateFacts(await readRegularText(path)).notAfter.toISOString();
}

/** `identity revoke`: services reject a certificate before its end. */
const REVOKE = command({
  name: "revoke",
  summary: "Have a certificate refused from now on.",
  takes: {
    ...SIGNER,
    "<name>": "the CN",
    "--reason <text>": "why, such as a ticket's number; blanks become _",
    ...PKI,
    "--no-freeze": "change the list alone; the signer is not asked",
  },
  help: `
Examples:
  broker-ctl identity revoke agent-7 --reason INC-42 --config gateway/signer.json
  broker-ctl identity revoke agent-7 --no-freeze --config gateway/signer.json

Freezes the CN in the signer at once, as a caller and as an end user (a broker names agents so); then puts it on the list
of denied_callers, which every listener that names the list takes within 10 seconds, and ends its open connections.
What fails of the two is said with what to do; the other is done all the same.
The list is never shortened by this program. Where a service runs on another machine, take the list there.
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ name, freeze, ...flags }, call) {
    const reason = asOneWord(flags.reason ?? "");
    const requests = (["caller", "end_user"] as const).map((kind) => {
      const { data } = freezeRequest.safeParse({ kind, value: name, reason, allow_volatile: true });
      if (data !== undefined) return data;
      throw invalid("Cannot revoke: the name must be one word, and --reason have no control characters");
    });
    const setUp = await openOwnSetUp(flags, call.workingFolder);
    const { denied } = setUp;
    if (denied === undefined) {
      const list = quoteText(join(setUp.folder, "denied_callers"));
      throw new HintedError(
        badConfig("Cannot revoke: the signer's config has no denied_callers"),
        `"denied_callers": ${list} in the config of each service, an empty file of that name, and a restart`,
      );
    }
    const [lines, problems]: [string[], string[]] = [[], []];
    // If one half fails, the other half must still be done.
    const attempt = async (half: () => Promise<string>, problem: string, fix: string) => {
      try {
        lines.push(await half());
        return true;
      } catch (error) {
        problems.push(`NOT ${problem}: ${errorText(error)}; ${fix}`);
        return false;
      }
    };
    const isFrozen = freeze && await attempt(
      async () => {
        for (const body of requests) {
          const question = { what: "freeze", method: "POST", path: "/v1/freeze", body } as const;
          await askSigner(call, { ...question, schema: freezeResponse });
        }
        return `${quoteText(name)} is frozen in the signer, as a caller and as an end user`;
      },
      "frozen",
      `sessions may go on until broker-ctl freeze --caller ${name} and --end-user ${name} succeed`,
    );
    const note = `${new Date(systemClock.now()).toISOString()} ${reason}`.trimEnd();
    const isListed = await attempt(
      async () => {
        const isNew = await addDenied(denied, name, note);
        return `${quoteText(name)} ${isNew ? "is on" : "was already on"} ${denied.path}`;
      },
      `on ${denied.path}`,
      `its certificate is believed until broker-ctl identity revoke ${name} succeeds`,
    );
    const others = await findOtherLists(setUp, denied.path);
    const warnings = others.map((path) =>
      `warning: ${path} does not name that list: its listener goes on believing ${name}`
    );
    const failed = problems.length > 0;
    const problem = failed ? { problem: problems.join("; ") } : {};
    return {
      json: { name, denied: isListed, frozen: isFrozen, ...problem, warnings: others },
      lines: [...lines, ...warnings, ...problems],
      failed,
    };
  },
});

/** Configs of listeners in the same directory that name another list, or no list. */
async function findOtherLists({ signerFile, controlPlane }: IdentitySetUp, list: string) {
  const broker = basename(signerFile) === "config.json"
    ? undefined
    : await loadNeighbor(signerFile, "config.json", CONFIG_KINDS.broker);
  return [controlPlane ?? [], broker ?? []].flat().filter(({ path, config: { denied_callers: denied } }) =>
    denied === "" || resolve(dirname(path), denied) !== list
  ).map(({ path }) => path);
}

/** `identity`: the certificates of a deployment. */
export const IDENTITY: CommandGroup = {
  name: "identity",
  summary: "Issue, renew and revoke certificates.",
  commands: [ADD, LIST, RENEW, REVOKE, REQUEST],
};
