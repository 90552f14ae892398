import { basename, dirname, join, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { nearMiss } from "@gateway/shared/config";
import { readRegularText } from "@gateway/shared/files";
import { readLast } from "../audit/logs.ts";
import { command, type CommandGroup, count } from "../kit/command.ts";
import { describeEntry } from "../kit/entries.ts";
import { createFile, readOperatorText, replaceFile } from "../kit/files.ts";
import { EMPTY_CELL, timeCell } from "../kit/table.ts";
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
  type IdentityFiles,
  isTrusted,
  openAuthority,
  openIdentityFiles,
  openOwnFiles,
  PKI,
  refuseDenied,
  type TrustedAuthority,
} from "./identity_files.ts";
import { errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { badConfig, invalid, notFound } from "../kit/output.ts";
import { freezeRequest, freezeResponse } from "@gateway/shared/wire";
import { asOneWord } from "../kit/arguments.ts";
import { CONFIG_KINDS, loadNeighbor } from "../kit/signer_file.ts";
import { askSigner, REMOTE_HELP, usesSigner } from "../kit/remote.ts";

const LIST = command({
  name: "list",
  summary: "List certificates, their expiry and last use.",
  takes: { ...PKI, ...CONTROL_PLANE },
  help: `
Examples:
  broker-ctl identity list

Lists the certificates in the directory of client_ca. LAST SEEN is the newest record of the CN among the last 20,000
records of the signer's and the control plane's audit logs on this machine.
`,
  async run(flags, { workingFolder }) {
    const rows = await describeAll(flags, workingFolder);
    const now = systemClock.now();
    const cells = rows.map(({ name, cn, kind, expires, key_is_here: isHere, last_seen, state }) => [
      ...[name, cn, kind, timeCell(expires, now), isHere ? "here" : "", timeCell(last_seen, now)],
      { text: state, role: state === "" || state === "ok" ? undefined : "warn" as const },
    ]);
    const columns = ["NAME", "CN", "FOR", "EXPIRES", "+KEY", "LAST SEEN", "STATE"];
    return { json: rows, lines: [{ none: "(no certificates)", columns, rows: cells }] };
  },
});

const SHOW = command({
  name: "show",
  summary: "Show a certificate.",
  takes: { "<name>": "certificate name or CN", ...PKI, ...CONTROL_PLANE },
  help: `
Examples:
  broker-ctl identity show agent-local
`,
  async run({ name, ...flags }, { workingFolder }) {
    const rows = await describeAll(flags, workingFolder);
    const found = rows.find((row) => row.name === name) ?? rows.find(({ cn }) => cn === name);
    if (found !== undefined) return { json: found, lines: await describeEntry(found.name, found) };
    throw notFound(`Cannot find certificate ${quoteText(name)}`, undefined, "broker-ctl identity list");
  },
});

async function describeAll(flags: Parameters<typeof openIdentityFiles>[0], workingFolder: string) {
  const setUp = await openIdentityFiles(flags, workingFolder);
  const { signer, controlPlane } = setUp;
  const seen = await findLastSeen([
    resolve(workingFolder, signer.audit_log),
    ...controlPlane === undefined ? [] : [resolve(dirname(controlPlane.path), controlPlane.config.audit_log)],
  ]);
  return setUp.certificates.map((found) => describe(found, setUp, seen));
}

const REQUEST = command({
  name: "request",
  summary: "Create a key and a certificate request.",
  takes: { "<name>": "CN of the certificate", "--out <directory>": "output directory (default: .)" },
  help: `
Examples:
  broker-ctl identity request agent-8

Creates agent-8.key, which stays on this machine, and agent-8.csr. On the machine with the CA, issue the certificate:
broker-ctl identity add agent agent-8 --csr agent-8.csr
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
    return {
      json: { key, request },
      lines: [`created ${key}`, `created ${request}; copy it to the machine with the CA`],
    };
  },
});

function describe(found: FoundCertificate, setUp: IdentityFiles, seen: ReadonlyMap<string, string>) {
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

/** The number of records that are read from the end of each log, because a log can have millions. */
const RECORDS = 20_000;

/** The time of the newest record of each caller in these logs. */
async function findLastSeen(logs: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const seen = new Map<string, string>();
  for (const path of logs) {
    for await (const line of readLast(path, RECORDS)) {
      const { caller = "", time = "" } = line?.record ?? {};
      if (caller !== "" && (seen.get(caller) ?? "") < time) seen.set(caller, time);
    }
  }
  return seen;
}

/** `identity renew`: the next certificate for the same key. */
const RENEW = command({
  name: "renew",
  summary: "Renew certificates.",
  takes: {
    "[names...]": "certificate names, as identity list shows them",
    "--due": "renew all certificates that expire soon",
    "--within <days>": count(`with --due: days until expiry (default: ${RENEW_DAYS})`, 1, 3650),
    "--days <n>": count(`lifetime in days (default: ${LEAF_DAYS})`, 1, 825),
    ...PKI,
    ...CA_KEY,
  },
  help: `
Examples:
  broker-ctl identity renew agent-7
  broker-ctl identity renew --due

Replaces the certificate by a new one for the same key, name and use. Services load it within 10 seconds, and open
connections continue. If the key is on another machine, copy the certificate there. A browser needs a new bundle.
Revoked certificates, and those that no CA of client_ca signed, are not renewed. If client_ca also contains a next CA,
--ca-key names its key, and the next CA signs the renewed certificates.
`,
  async run({ names, due = false, within = RENEW_DAYS, days = LEAF_DAYS, ...flags }, { workingFolder }) {
    if ((names.length > 0) === due) {
      throw invalid("Pass the names of certificates, or --due for all that expire soon");
    }
    const { signer, certificates, denied } = await openOwnFiles(flags, workingFolder);
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
          throw notFound(`Cannot find certificate ${quoteText(name)}`, undefined, "broker-ctl identity list");
        }
        if (found.kind === "ok") refuseDenied(denied, found.facts.commonName);
        return found;
      });
    if (chosen.length === 0) {
      return { json: { renewed: [], failed: [] }, lines: ["no certificate expires soon"] };
    }
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
        ...renewed.map(({ name, expires, key_is_here: isHere }) => {
          const copy = isHere ? "" : `; copy ${name}.crt to the machine with its key`;
          return `${name} renewed until ${expires.replace(".000", "")}${copy}`;
        }),
        ...failed.map(({ name, problem }) => `${name} NOT renewed: ${problem}`),
      ],
      failed: failed.length > 0,
    };
  },
});

/** @returns the expiry of the new certificate */
async function renewOne(found: FoundCertificate, authority: TrustedAuthority, days: number): Promise<string> {
  if (found.kind === "broken") throw badConfig(found.problem);
  const { path, pem, facts, hasKey } = found;
  if (facts.isAuthority) throw invalid("it is a CA, and this command does not renew CAs");
  // Otherwise an account with write access to the directory could obtain arbitrary certificates.
  if (!isTrusted(pem, authority)) throw badConfig("no CA of client_ca signed it");
  const { certify, readLeaf, readPublicKey } = await import("./x509.ts");
  const { publicKey: known, ...leaf } = readLeaf(pem);
  checkNames(authority, leaf.subjectAltNames ?? []);
  const keyPem = hasKey
    ? await readOperatorText(resolve(path.replace(/\.crt$/, ".key")), "the key")
    : undefined;
  // Use the current key file, even if the key was replaced, because the service uses it.
  const publicKey = keyPem === undefined ? known : readPublicKey(keyPem);
  const notAfter = endIn(days, authority);
  await replaceFile(path, await certify(authority, publicKey, { ...leaf, notAfter }));
  return readCertificateFacts(await readRegularText(path)).notAfter.toISOString();
}

/** `identity revoke`: services reject a certificate before it expires. */
const REVOKE = command({
  name: "revoke",
  summary: "Revoke an identity.",
  takes: {
    "<name>": "CN of the certificate",
    "--reason <text>": "reason, such as a ticket number; spaces become _",
    ...PKI,
    "--no-freeze": "only add the CN to denied_callers",
    "--force": "accept a CN that has no certificate here and no role in the configs",
  },
  help: `
Examples:
  broker-ctl identity revoke agent-7 --reason INC-42
  broker-ctl identity revoke agent-7 --no-freeze

Freezes the CN in the signer, as a caller and as an end user. Then adds it to the file denied_callers: within 10
seconds, every listener that uses this file rejects the certificate and closes its connections. If one of the two steps
fails, the other is still done, and the output shows the fix. broker-ctl never removes names from the file. If a service
runs on another machine, copy the file there.
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ name, freeze, force = false, ...flags }, call) {
    const reason = asOneWord(flags.reason ?? "");
    const requests = (["caller", "end_user"] as const).map((kind) => {
      const { data } = freezeRequest.safeParse({ kind, value: name, reason, allow_volatile: true });
      if (data !== undefined) return data;
      throw invalid("Cannot revoke: the name must be one word, and --reason must have no control characters");
    });
    const setUp = await openOwnFiles(flags, call.workingFolder);
    const { denied, certificates, signer, controlPlane } = setUp;
    const known = certificates.flatMap((each) => each.kind === "ok" ? each.facts.commonName : []);
    if (!force && !known.includes(name) && roleOf(name, signer, controlPlane?.config) === undefined) {
      const near = nearMiss(name, known);
      const hint = near === undefined ? "" : ` (did you mean ${quoteText(near)}?)`;
      const problem = `Cannot revoke ${quoteText(name)}: no certificate and no config has this CN${hint}`;
      throw notFound(problem, undefined, "broker-ctl identity list, or pass --force");
    }
    if (denied === undefined) {
      const list = quoteText(join(setUp.folder, "denied_callers"));
      const fix =
        `"denied_callers": ${list} in the config of each service, an empty file of that name, and a restart`;
      throw badConfig("Cannot revoke: the signer's config has no denied_callers", undefined, fix);
    }
    const [lines, problems]: [string[], string[]] = [[], []];
    // If one half fails, the other half must still run.
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
        return `${quoteText(name)} is frozen in the signer, as caller and end user`;
      },
      "frozen",
      `sessions can continue; run broker-ctl freeze --caller ${name} and broker-ctl freeze --end-user ${name}`,
    );
    const note = `${new Date(systemClock.now()).toISOString()} ${reason}`.trimEnd();
    const isListed = await attempt(
      async () => {
        const isNew = await addDenied(denied, name, note);
        return `${quoteText(name)} ${isNew ? "added to" : "was already in"} ${denied.path}`;
      },
      `added to ${denied.path}`,
      `its certificate is still accepted; run broker-ctl identity revoke ${name} again`,
    );
    const others = await findOtherLists(setUp, denied.path);
    const warnings = others.map((path) =>
      `warning: ${path} does not use this list: its listener still accepts ${name}`
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
async function findOtherLists({ signerFile, controlPlane }: IdentityFiles, list: string) {
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
  summary: "Manage certificates of services and people.",
  commands: [LIST, SHOW, ADD, RENEW, REVOKE, REQUEST],
};
