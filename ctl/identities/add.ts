import { join, resolve } from "node:path";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { appendToList } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { countOf, once, repeated } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { editSignerFile } from "../kit/edit_signer_file.ts";
import { checkNames, openAuthority } from "./authority.ts";
import { bundlePassword } from "./bundle_password.ts";
import { readCertificateFacts } from "./certificate_facts.ts";
import { createFile, readOperatorFile } from "../kit/files.ts";
import type { FoundCertificate } from "./folder.ts";
import { findIssued } from "./issued.ts";
import {
  checkName,
  checkRole,
  IDENTITY_KINDS,
  type IdentityKind,
  isServer,
  LEAF_DAYS,
  LOCAL_NAMES,
  parseKind,
  roleOf,
} from "./kinds.ts";
import { addCaller, type ControlPlaneFile } from "./control_plane_file.ts";
import { type IdentityFlags, type IdentitySetUp, openOwnSetUp, refuseDenied } from "./set_up.ts";
import { encodePkcs12 } from "./pkcs12.ts";
import type { CommandResult } from "../kit/output.ts";

interface AddFlags extends IdentityFlags {
  readonly days?: number;
  readonly san?: readonly string[];
  readonly csr?: string;
  readonly out?: string;
  readonly p12?: boolean;
  readonly passwordFile?: string;
}

const ADD_EXAMPLES = `
Examples:
  broker-ctl identity add agent agent-7 --config gateway/signer.json
  broker-ctl identity add approver ann --p12 --config gateway/signer.json
  broker-ctl identity add signer signer2 --san gw.example.org --config gateway/signer.json
  broker-ctl identity add agent agent-8 --csr agent-8.csr --config gateway/signer.json

KIND is one of ${Object.keys(IDENTITY_KINDS).join(", ")}.
Makes NAME.crt and NAME.key in the folder of client_ca, for ${LEAF_DAYS} days, signed by the CA whose key lies there.
With --csr the key stays where it is: broker-ctl identity request makes one on the other machine. An operator is added
to reload_callers, a control plane to trusted_forwarders, an approver to approval.callers, a broker to sign_callers where
that has some; which hosts a broker may use is said by broker-ctl callers add. --p12 makes NAME.p12 for a browser, with a password that is printed once, or that of --password-file.
Approvers on other machines need it and mtls_ca.crt. What was ended half-way goes on when it is run again. Root works in
no folder that another user may write to, and with --pki in no other than that one.
`;

/** `identity add`: a certificate for somebody new. */
export const addIdentityAdd: AddCommand = (identity, context) => {
  identity.command("add")
    .description("Issue a certificate for somebody new.")
    .argument("<kind>", "what it is for")
    .argument("<name>", "the CN: who its holder is to the services")
    .option("--days <n>", `how long it is good (default: ${LEAF_DAYS})`, countOf(1, 825))
    .option("--san <name>", "a name or address that a listener is reached by; repeat for more", repeated)
    .option("--csr <file>", "a request; the private key stays where that was made", once)
    .option("--out <folder>", "where the files go (default: the folder of client_ca)", once)
    .option("--p12", "also a bundle for a browser")
    .option("--password-file <file>", "with --p12: its password, in the first line", once)
    .option("--pki <folder>", "the folder that client_ca must be in, whatever the config says", once)
    .option("--ca-key <file>", "the private key of client_ca (default: beside it)", once)
    .option("--control-plane <file>", "its config (default: control-plane.json beside the signer's)", once)
    .addHelpText("after", ADD_EXAMPLES)
    .action((kind: string, name: string, _flags, command) =>
      context.run(
        command,
        ["config"],
        () => add(parseKind(kind), checkName(name), command.optsWithGlobals() as AddFlags, context),
      )
    );
};

async function add(
  kind: IdentityKind,
  name: string,
  flags: AddFlags,
  context: CommandContext,
): Promise<CommandResult> {
  const { workingFolder } = context;
  const setUp = await openOwnSetUp(flags, context);
  const holder = checkFree(kind, name, setUp);
  if (flags.p12 === true && flags.csr !== undefined) {
    throw new AppError(
      "invalid_request",
      "Options '--p12' and '--csr' exclude each other: the key is not here",
    );
  }
  if (flags.passwordFile !== undefined && flags.p12 !== true) {
    throw new AppError("invalid_request", "Option '--password-file' means nothing without '--p12'");
  }
  if ((flags.san ?? []).length > 0 && !isServer(kind)) {
    throw new AppError("invalid_request", `Option '--san' means nothing to a ${kind}: nobody connects to it`);
  }
  const password = flags.p12 === true
    ? await bundlePassword(flags.passwordFile, workingFolder, systemRandom)
    : undefined;
  const { certify, readPublicKey, readRequestKey, requestCertificate } = await import("./x509.ts");
  const authority = await openAuthority({
    clientCa: setUp.signer.client_ca,
    caKey: flags.caKey,
    workingFolder,
  });
  const names = isServer(kind) ? [...LOCAL_NAMES, ...flags.san ?? []] : [];
  checkNames(authority, names);
  const request = flags.csr === undefined
    ? undefined
    : new TextDecoder().decode(await readOperatorFile(resolve(workingFolder, flags.csr), "the request"));
  const folder = flags.out === undefined ? setUp.folder : resolve(workingFolder, flags.out);
  const at = (suffix: string) => join(folder, `${name}.${suffix}`);
  // A key without its certificate is what an attempt left that was ended half-way.
  const left = request === undefined ? await ifThere(readRegularText(at("key"))) : undefined;
  const keyPem = request === undefined ? left ?? (await requestCertificate(name)).keyPem : undefined;
  const publicKey = keyPem === undefined ? await readRequestKey(request ?? "") : readPublicKey(keyPem);
  const own = join(setUp.folder, `${name}.crt`);
  const issued = await findIssued([at("crt"), own], { kind, name, authority, publicKey });
  if (holder !== undefined) {
    const isWhole = !lacksRole(kind, name, setUp) && await ifThere(Deno.lstat(at("crt"))) !== undefined;
    if (issued === undefined || isWhole) throw alreadyThere(holder.path, name);
  }
  // Not after the CA, which would be believed no more.
  const wished = systemClock.now() + (flags.days ?? LEAF_DAYS) * 86_400_000;
  const notAfter = issued === undefined
    ? new Date(Math.min(wished, authority.certificate.notAfter.getTime()))
    : readCertificateFacts(issued).notAfter;
  const certPem = issued ?? await certify(authority, publicKey, {
    subject: [{ OU: [kind] }, { CN: [name] }],
    usage: IDENTITY_KINDS[kind].usage,
    subjectAltNames: names,
    notAfter,
  });
  // The certificate last: without it there is no identity, and the next attempt goes on.
  if (keyPem !== undefined && left === undefined) await createFile(at("key"), keyPem, 0o600);
  if (password !== undefined && keyPem !== undefined) {
    const bundle = encodePkcs12({ certPem, keyPem }, { password: password.text, name, random: systemRandom });
    await ifThere(Deno.remove(at("p12")));
    await createFile(at("p12"), bundle, 0o600);
  }
  // Of one that went elsewhere the list would know nothing, and nobody would renew it.
  for (const path of new Set([at("crt"), own])) {
    if (await ifThere(Deno.lstat(path)) === undefined) await createFile(path, certPem, 0o644);
  }
  const next = await giveRole(kind, name, setUp, { ...flags, workingFolder });
  const files = [
    at("crt"),
    ...keyPem === undefined ? [] : [at("key")],
    ...password === undefined ? [] : [at("p12")],
  ];
  return {
    json: {
      kind,
      name,
      files,
      expires: notAfter.toISOString(),
      ...(password?.isNew === true && { password: password.text }),
      next,
    },
    lines: [
      `${kind} ${quoteText(name)} added: ${files.join(", ")}`,
      ...(password?.isNew === true ? [`the bundle's password, shown this once: ${password.text}`] : []),
      ...next,
    ],
  };
}

/** @returns what an attempt may have left that was ended half-way */
function checkFree(
  kind: IdentityKind,
  name: string,
  { signer, controlPlane, certificates, denied }: IdentitySetUp,
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
  return new AppError(
    "conflict",
    `There is ${quoteText(path)} for ${quoteText(name)}; broker-ctl identity renew makes it last longer`,
  );
}

/** Whether a config is still to be told of somebody. */
function lacksRole(kind: IdentityKind, name: string, { signer, controlPlane }: IdentitySetUp): boolean {
  switch (kind) {
    case "operator":
      return !signer.reload_callers.includes(name);
    case "control-plane":
      return !signer.trusted_forwarders.includes(name);
    case "approver":
      return controlPlane?.config.approval.callers.includes(name) === false;
    case "broker":
      return controlPlane !== undefined && namesBrokers(controlPlane) &&
        !controlPlane.config.sign_callers.includes(name);
    case "agent":
    case "signer":
      return false;
    default:
      return kind satisfies never;
  }
}

/** Where nobody is named everybody may ask: the first name would shut the others out. */
function namesBrokers({ config }: ControlPlaneFile): boolean {
  return config.sign_callers.length > 0;
}

/** What the configs say about whoever is new, and what is left to do. */
async function giveRole(
  kind: IdentityKind,
  name: string,
  { signer, signerFile, controlPlane }: IdentitySetUp,
  { config, workingFolder }: AddFlags & { readonly workingFolder: string },
): Promise<readonly string[]> {
  const addToSigner = async (list: "reload_callers" | "trusted_forwarders") => {
    await editSignerFile({
      path: config,
      workingFolder,
      edit: (text, { [list]: names }) => names.includes(name) ? text : appendToList(text, [list], name),
    });
    return `it is in ${list} of ${signerFile}; next: broker-ctl reload`;
  };
  switch (kind) {
    case "operator":
      return [await addToSigner("reload_callers")];
    case "control-plane":
      return [await addToSigner("trusted_forwarders")];
    case "approver":
      return [
        controlPlane === undefined
          ? `next: add ${quoteText(name)} to approval.callers of the control plane's config, and restart it`
          : await addCaller(controlPlane, "approver", name),
      ];
    case "broker": {
      const via = signer.trusted_forwarders.length === 0
        ? ""
        : ` --only-via ${signer.trusted_forwarders.join(",")}`;
      const isNamed = controlPlane !== undefined && namesBrokers(controlPlane);
      return [
        ...isNamed ? [await addCaller(controlPlane, "broker", name)] : [],
        ...controlPlane === undefined && via !== ""
          ? [`next: add ${quoteText(name)} to sign_callers of the control plane's config, and restart it`]
          : [],
        `next: broker-ctl callers add --name ${name} --groups …${via}, for the hosts that it may use`,
      ];
    }
    case "agent":
      return [
        `next: add ${
          quoteText(name)
        } to run_callers of a broker's config that has it, and restart that broker`,
      ];
    case "signer":
      return [];
    default:
      return kind satisfies never;
  }
}
