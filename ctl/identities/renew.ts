import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { command, count } from "../kit/command.ts";
import { readOperatorText, replaceFile } from "../kit/files.ts";
import { checkNames, endIn, isTrusted, openAuthority, type TrustedAuthority } from "./authority.ts";
import { endsWithin, readCertificateFacts } from "./certificate_facts.ts";
import { LEAF_DAYS, RENEW_DAYS } from "./kinds.ts";
import { CA_KEY, type FoundCertificate, openOwnSetUp, PKI, refuseDenied } from "./set_up.ts";
import { badConfig, invalid } from "../kit/output.ts";

/** `identity renew`: the next certificate for the same key. */
export const RENEW = command({
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
          throw new AppError("not_found", `There is no certificate ${quoteText(name)}`);
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
