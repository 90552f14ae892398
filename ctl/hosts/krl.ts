import { basename, join, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { setValue } from "@gateway/shared/config";
import { allowedSignersLine, createEnvelopeKey } from "@gateway/shared/envelope";
import { ifThere } from "@gateway/shared/files";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { HOST_IDENTITY_SUFFIX, KRL_NAMESPACE } from "@gateway/shared/wire";
import { command, required } from "../kit/command.ts";
import { editFile, SIGNER_FILE } from "../kit/signer_change.ts";
import { createFolder, readOperatorFile, readOperatorText } from "../kit/files.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";
import { hostOf } from "./add.ts";
import { badConfig, conflict, invalid } from "../kit/output.ts";

const KRL_YEARS = 10;

/** `host krl`: a host's identity and files to fetch the revocation list. */
export const KRL = command({
  name: "krl",
  summary: "Set up a host to fetch the revocation list.",
  takes: {
    "<name>": "host name",
    "--url <url>": required("signer URL that the host can reach, https://name:port"),
    "--ca-key <file>": required("private key of client_ca, PEM"),
    "--out <directory>": "new directory for the host's files (default: ./krl-<name>)",
  },
  help: `
Examples:
  broker-ctl host krl web01 --url https://signer.example:9443 --ca-key pki/mtls_ca.key
  broker-ctl reload

Creates an identity that may fetch the signer's revocation list and nothing else, writes it to a directory, and adds it
to krl_callers in the signer's config. The output lists the commands that install it on the host. The installer writes
/etc/gateway/krl there. To keep a login that does not depend on the list, read revocation-lists.md next to the installer.
`,
  async run({ name, config: path = "signer.json", url, caKey, out = `krl-${name}` }, { workingFolder }) {
    const config = await loadSignerHosts(path, workingFolder);
    hostOf(config, name);
    if (config.envelope_key === "") {
      throw badConfig("Cannot sign a revocation list: the signer's config has no envelope_key");
    }
    const at = (file: string) => resolve(workingFolder, file);
    const ca = await readOperatorText(at(config.client_ca), "client_ca");
    const key = await readOperatorText(at(caKey), "the CA's key");
    const seed = await readOperatorFile(at(config.envelope_key), "envelope_key");
    const caller = name + HOST_IDENTITY_SUFFIX;
    // Some commands never need the library for certificates.
    const { issueLeaf, loadAuthority } = await import("../identities/x509.ts");
    const pair = await issueLeaf(await loadAuthority(ca, key), {
      subject: [{ CN: [caller] }],
      usage: "client",
      // The identity gives access only to the list, and is not renewed on the host, so it is valid for years.
      notAfter: new Date(systemClock.now() + KRL_YEARS * 365 * 86_400_000),
    });
    const signers = allowedSignersLine(createEnvelopeKey(seed), [KRL_NAMESPACE]);
    const directory = at(out);
    const files = {
      "ca.crt": ca,
      "client.crt": pair.certPem,
      "client.key": pair.keyPem,
      krl_signers: `${signers}\n`,
      "signer.env": `GATEWAY_KRL_SIGNER=${readUrl(url)}\n`,
    };
    if (await ifThere(Deno.lstat(directory)) !== undefined) {
      throw conflict(`Cannot create ${quoteText(directory)}: it exists`, undefined, "pass another --out");
    }
    await createFolder(directory, async (staging) => {
      for (const [name, text] of Object.entries(files)) {
        await Deno.writeTextFile(join(staging, name), text, { mode: 0o600 });
      }
    });
    try {
      const edit = (text: string) => setValue(text, ["krl_callers", caller], [name]);
      await editFile(SIGNER_FILE, at(path), edit);
    } catch (error) {
      await Deno.remove(directory, { recursive: true });
      throw error;
    }
    return {
      json: { host: name, caller, folder: directory },
      lines: [
        `${caller} may fetch the revocation list for ${name} after the next reload of the signer. Run:`,
        "  broker-ctl reload",
        `  scp -r ${shellQuote(directory)} /usr/share/gateway/krl/* ${shellQuote(`root@${name}:`)}`,
        `  ssh ${shellQuote(`root@${name}`)} ./install-gateway-krl ${shellQuote(basename(directory))}`,
        `  ssh ${shellQuote(`root@${name}`)} ./install-gateway-krl --keep`,
        "The last command must be a new login within 5 minutes. Instructions: revocation-lists.md in " +
        "/usr/share/gateway/krl/. In the sources: shim/ and docs/guides/revocation-lists.md.",
      ],
    };
  },
});

function readUrl(text: string): string {
  const url = URL.parse(text);
  if (url?.protocol === "https:" && url.pathname === "/" && url.origin === text.replace(/\/$/, "")) {
    return url.origin;
  }
  throw invalid(`Cannot use --url ${quoteText(text)}: expected https://name:port`);
}
