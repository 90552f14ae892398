import { join, resolve } from "node:path";
import { systemRandom } from "@gateway/shared/clock";
import { appendToList, type ValuePath } from "@gateway/shared/config";
import type { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { command, count, oneOf, repeat } from "../kit/command.ts";
import { createFile, readOperatorText } from "../kit/files.ts";
import { isFields } from "../kit/entries.ts";
import { CONTROL_PLANE_FILE, editFile, SIGNER_FILE } from "../kit/signer_change.ts";
import {
  CA_KEY,
  checkNames,
  CONTROL_PLANE,
  endIn,
  findIssued,
  type FoundCertificate,
  type IdentityFiles,
  openAuthority,
  openOwnFiles,
  PKI,
  refuseDenied,
} from "./identity_files.ts";
import { bundlePassword, encodePkcs12 } from "./pkcs12.ts";
import {
  checkName,
  checkRole,
  IDENTITY_KINDS,
  type IdentityKind,
  isServer,
  LEAF_DAYS,
  LOCAL_NAMES,
  readCertificateFacts,
  roleOf,
} from "./kinds.ts";
import { conflict, invalid } from "../kit/output.ts";

const KINDS = Object.keys(IDENTITY_KINDS) as IdentityKind[];

/** `identity add`: a certificate for a new name. */
export const ADD = command({
  name: "add",
  summary: "Issue a certificate for a new identity.",
  takes: {
    "<kind>": oneOf(KINDS, "kind of identity"),
    "<name>": "CN of the certificate",
    "--days <n>": count(`lifetime in days (default: ${LEAF_DAYS})`, 1, 825),
    "--san <name>": repeat("DNS name or address of a listener; repeatable"),
    "--csr <file>": "certificate request; the private key stays on the other machine",
    "--out <directory>": "output directory (default: the directory of client_ca)",
    "--p12": "also create a bundle for a browser",
    "--password-file <file>": "with --p12: file with the password in its first line",
    ...PKI,
    ...CA_KEY,
    ...CONTROL_PLANE,
  },
  help: `
Examples:
  broker-ctl identity add agent agent-7 --config gateway/signer.json
  broker-ctl identity add approver ann --p12 --config gateway/signer.json
  broker-ctl identity add signer signer2 --san gw.example.org --config gateway/signer.json
  broker-ctl identity add agent agent-8 --csr agent-8.csr --config gateway/signer.json

Creates NAME.crt and NAME.key in the directory of client_ca, valid for ${LEAF_DAYS} days. With --csr the key stays on the other machine, where broker-ctl identity request creates
it. The command adds an operator to reload_callers, a control plane to trusted_forwarders, an approver to
approval.callers, and a broker to sign_callers if that list is not empty. To let a broker use hosts: broker-ctl callers
add. --p12 creates NAME.p12 with a password that is printed once, or that of --password-file; an approver on another
machine needs that file and mtls_ca.crt. An interrupted run can be repeated. Root does not write to directories that
another user may write to, and with --pki only to that directory.
`,
  async run(flags, { workingFolder }) {
    const { kind } = flags;
    const name = checkName(flags.name);
    const setUp = await openOwnFiles(flags, workingFolder);
    const holder = checkFree(kind, name, setUp);
    const { p12 = false, csr, passwordFile, san = [] } = flags;
    if (p12 && csr !== undefined) {
      throw invalid("Cannot use --p12 with --csr: the private key is not on this machine");
    }
    if (passwordFile !== undefined && !p12) {
      throw invalid("Option '--password-file' has no effect without --p12");
    }
    if (san.length > 0 && !isServer(kind)) {
      throw invalid(`Option '--san' has no effect for kind ${kind}: it has no listener`);
    }
    const password = p12 ? await bundlePassword(passwordFile, workingFolder, systemRandom) : undefined;
    const { certify, readPublicKey, readRequestKey, requestCertificate } = await import("./x509.ts");
    const authority = await openAuthority(setUp.signer.client_ca, flags.caKey, workingFolder);
    const names = isServer(kind) ? [...LOCAL_NAMES, ...san] : [];
    checkNames(authority, names);
    const request = csr === undefined
      ? undefined
      : await readOperatorText(resolve(workingFolder, csr), "the request");
    const folder = flags.out === undefined ? setUp.folder : resolve(workingFolder, flags.out);
    const at = (suffix: string) => join(folder, `${name}.${suffix}`);
    // A key without a certificate is left over from an interrupted attempt.
    const left = request === undefined ? await ifThere(readRegularText(at("key"))) : undefined;
    const keyPem = request === undefined ? left ?? (await requestCertificate(name)).keyPem : undefined;
    const publicKey = keyPem === undefined ? await readRequestKey(request ?? "") : readPublicKey(keyPem);
    const own = join(setUp.folder, `${name}.crt`);
    const issued = await findIssued([at("crt"), own], { kind, name, authority, publicKey });
    if (holder !== undefined) {
      const isNamed = listOf(kind, setUp)?.includes(name) !== false;
      const isWhole = isNamed && await ifThere(Deno.lstat(at("crt"))) !== undefined;
      if (issued === undefined || isWhole) throw alreadyThere(holder.path, name);
    }
    const notAfter = issued === undefined
      ? endIn(flags.days ?? LEAF_DAYS, authority)
      : readCertificateFacts(issued).notAfter;
    const certPem = issued ?? await certify(authority, publicKey, {
      subject: [{ OU: [kind] }, { CN: [name] }],
      usage: IDENTITY_KINDS[kind],
      subjectAltNames: names,
      notAfter,
    });
    // The certificate comes last: an interrupted attempt can then be repeated.
    if (keyPem !== undefined && left === undefined) await createFile(at("key"), keyPem, 0o600);
    if (password !== undefined && keyPem !== undefined) {
      const options = { password: password.text, name, random: systemRandom };
      const bundle = encodePkcs12({ certPem, keyPem }, options);
      await ifThere(Deno.remove(at("p12")));
      await createFile(at("p12"), bundle, 0o600);
    }
    // A certificate that is only in another directory would be missing in the list, and never be renewed.
    for (const path of new Set([at("crt"), own])) {
      if (await ifThere(Deno.lstat(path)) === undefined) await createFile(path, certPem, 0o644);
    }
    const next = await giveRole(kind, name, setUp);
    const files = [
      at("crt"),
      ...keyPem === undefined ? [] : [at("key")],
      ...password === undefined ? [] : [at("p12")],
    ];
    const shown = password?.isNew === true ? { password: password.text } : {};
    return {
      json: { kind, name, files, expires: notAfter.toISOString(), ...shown, next },
      lines: [
        `${kind} ${quoteText(name)} added: ${files.join(", ")}`,
        ...Object.values(shown).map((text) => `password of the bundle, shown only now: ${text}`),
        ...next,
      ],
    };
  },
});

/** @returns the certificate that an interrupted attempt may have left */
function checkFree(
  kind: IdentityKind,
  name: string,
  { signer, controlPlane, certificates, denied }: IdentityFiles,
): FoundCertificate | undefined {
  refuseDenied(denied, name);
  checkRole(kind, name, roleOf(name, signer, controlPlane?.config));
  const holder = certificates.find((each) =>
    each.name === name || (each.kind === "ok" && each.facts.commonName === name)
  );
  if (holder !== undefined && holder.name !== name) throw alreadyThere(holder.path, name);
  return holder;
}

function alreadyThere(path: string, name: string): AppError {
  const problem = `Cannot add ${quoteText(name)}: ${quoteText(path)} exists`;
  return conflict(problem, undefined, `broker-ctl identity renew ${name}`);
}

/** The list of a config that gives the names of a kind their rights. */
const ROLE_LISTS: {
  readonly [Kind in IdentityKind]?: { readonly file: "signer" | "control_plane"; readonly path: ValuePath };
} = {
  operator: { file: "signer", path: ["reload_callers"] },
  "control-plane": { file: "signer", path: ["trusted_forwarders"] },
  approver: { file: "control_plane", path: ["approval", "callers"] },
  broker: { file: "control_plane", path: ["sign_callers"] },
};

const namesIn = (config: unknown, path: ValuePath): readonly unknown[] => {
  const list = path.reduce<unknown>((value, key) => isFields(value) ? value[key] : undefined, config);
  return Array.isArray(list) ? list : [];
};

/** The names in the list of a kind; undefined if the list needs no new name. */
function listOf(kind: IdentityKind, { signer, controlPlane }: IdentityFiles): readonly unknown[] | undefined {
  const role = ROLE_LISTS[kind];
  const config = role?.file === "signer" ? signer : controlPlane?.config;
  if (role === undefined || config === undefined) return undefined;
  const names = namesIn(config, role.path);
  // An empty list accepts every broker, so adding the first name would lock the others out.
  return kind === "broker" && names.length === 0 ? undefined : names;
}

/** Writes the new name into the configs. @returns the remaining steps */
async function giveRole(kind: IdentityKind, name: string, setUp: IdentityFiles): Promise<readonly string[]> {
  const { signer, signerFile, controlPlane } = setUp;
  const role = ROLE_LISTS[kind];
  if (role === undefined) {
    if (kind !== "agent") return [];
    return [
      `Next: if the broker's config has run_callers, add ${quoteText(name)} to it and restart the broker`,
    ];
  }
  const { file, path } = role;
  const list = path.join(".");
  const edit = (text: string, config: unknown) =>
    namesIn(config, path).includes(name) ? text : appendToList(text, path, name);
  if (file === "signer") {
    await editFile(SIGNER_FILE, signerFile, edit);
    return [`added to ${list} of ${signerFile}. Next: broker-ctl reload`];
  }
  const forwarders = signer.trusted_forwarders.join(",");
  const via = forwarders === "" ? "" : ` --only-via ${forwarders}`;
  const next = kind === "broker" ? [`Next: broker-ctl callers add --name ${name} --groups GROUPS${via}`] : [];
  if (controlPlane === undefined) {
    // Without a control plane, a broker needs no entry there.
    if (kind === "broker" && via === "") return next;
    const add = `Next: add ${quoteText(name)} to ${list} of the control plane's config, and restart it`;
    return [add, ...next];
  }
  if (listOf(kind, setUp) === undefined) return next;
  await editFile(CONTROL_PLANE_FILE, controlPlane.path, edit);
  return [`added to ${list} of ${controlPlane.path}. Next: restart the control plane`, ...next];
}
