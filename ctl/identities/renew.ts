import { readRegularText } from "@gateway/shared/files";
import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { countOf, once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { checkNames, isTrusted, openAuthority, type TrustedAuthority } from "./authority.ts";
import { endsWithin, readCertificateFacts } from "./certificate_facts.ts";
import { LEAF_DAYS, RENEW_DAYS } from "./kinds.ts";
import { readOperatorFile, replaceFile } from "../kit/files.ts";
import type { FoundCertificate } from "./folder.ts";
import { type IdentityFlags, openOwnSetUp, refuseDenied } from "./set_up.ts";
import type { CommandResult } from "../kit/output.ts";

interface RenewFlags extends IdentityFlags {
  readonly due?: boolean;
  readonly within?: number;
  readonly days?: number;
}

const EXAMPLES = `
Examples:
  broker-ctl identity renew agent-7 --config gateway/signer.json
  broker-ctl identity renew --due --config gateway/signer.json

Issues the next certificate for the same key, name and use, and puts it in the place of the one there is. With --due
it renews what ends within ${RENEW_DAYS} days, or within --within. Services take it within 10 seconds, connections that
are open go on; a certificate whose key is elsewhere has to be taken there, and a browser needs the bundle anew. What
no CA of client_ca signed, and whoever is revoked, is left alone. Where client_ca holds a next CA too, --ca-key names
its key, and it signs what the former one signed.
`;

/** `identity renew`: the next certificate, for the same key. */
export const addIdentityRenew: AddCommand = (identity, context) => {
  identity.command("renew")
    .description("Issue the next certificate for a key.")
    .argument("[names...]", "which, as identity list shows them")
    .option("--due", "all that end soon")
    .option("--within <days>", `with --due: what is soon (default: ${RENEW_DAYS})`, countOf(1, 3650))
    .option("--days <n>", `how long it is good (default: ${LEAF_DAYS})`, countOf(1, 825))
    .option("--pki <folder>", "the folder that client_ca must be in, whatever the config says", once)
    .option("--ca-key <file>", "the private key of client_ca (default: beside it)", once)
    .addHelpText("after", EXAMPLES)
    .action((names: readonly string[], _flags, command) =>
      context.run(command, ["config"], () => renew(names, command.optsWithGlobals() as RenewFlags, context))
    );
};

async function renew(
  names: readonly string[],
  flags: RenewFlags,
  context: CommandContext,
): Promise<CommandResult> {
  if ((names.length > 0) === (flags.due === true)) {
    throw new AppError("invalid_request", "Name whose certificates to renew, or --due for all that end soon");
  }
  const setUp = await openOwnSetUp(flags, context);
  const { signer, certificates, denied } = setUp;
  const now = systemClock.now();
  const chosen = flags.due === true
    ? certificates.filter((each) =>
      each.kind === "broken" ||
      (!each.facts.isAuthority && denied?.names.has(each.facts.commonName) !== true &&
        endsWithin(each.facts, flags.within ?? RENEW_DAYS, now))
    )
    : names.map((name) => {
      const found = certificates.find((each) => each.name === name);
      if (found === undefined) throw new AppError("not_found", `There is no certificate ${quoteText(name)}`);
      if (found.kind === "ok") refuseDenied(denied, found.facts.commonName);
      return found;
    });
  if (chosen.length === 0) return { json: { renewed: [], failed: [] }, lines: ["nothing ends soon"] };
  const authority = await openAuthority({
    clientCa: signer.client_ca,
    caKey: flags.caKey,
    workingFolder: context.workingFolder,
  });
  const renewed: { name: string; expires: string; key_is_here: boolean }[] = [];
  const failed: { name: string; problem: string }[] = [];
  for (const each of chosen) {
    try {
      const expires = await renewOne(each, authority, flags.days ?? LEAF_DAYS);
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
}

/** @returns when the new one ends */
async function renewOne(found: FoundCertificate, authority: TrustedAuthority, days: number): Promise<string> {
  if (found.kind === "broken") throw new AppError("invalid_config", found.problem);
  const { path, pem, facts, hasKey } = found;
  if (facts.isAuthority) throw new AppError("invalid_request", "it is a CA, which is not renewed by this");
  // Otherwise whoever may write to the folder could have anything signed.
  if (!isTrusted(pem, authority)) throw new AppError("invalid_config", "no CA of client_ca signed it");
  const { certify, readLeaf, readPublicKey } = await import("./x509.ts");
  const { publicKey: known, ...leaf } = readLeaf(pem);
  checkNames(authority, leaf.subjectAltNames ?? []);
  const keyPem = hasKey
    ? new TextDecoder().decode(await readOperatorFile(resolve(path.replace(/\.crt$/, ".key")), "the key"))
    : undefined;
  // A key that was exchanged counts: its certificate is what is missing.
  const publicKey = keyPem === undefined ? known : readPublicKey(keyPem);
  const wished = systemClock.now() + days * 86_400_000;
  const notAfter = new Date(Math.min(wished, authority.certificate.notAfter.getTime()));
  await replaceFile(path, await certify(authority, publicKey, { ...leaf, notAfter }));
  return readCertificateFacts(await readRegularText(path)).notAfter.toISOString();
}
