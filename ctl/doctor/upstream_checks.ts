import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { type SignerClientConfig, signerUrls } from "@gateway/shared/config";
import { describeFault, errorText } from "@gateway/shared/errors";
import { JsonClient, loadTlsMaterial, type TlsMaterial } from "@gateway/shared/http";
import { adviseOnContact } from "../kit/contact_advice.ts";
import { fail, type Finding, pass, unknown } from "./finding.ts";

const WAIT_MS = 5_000;
/** Whether it has such a page matters to nobody: "not found" is an answer. */
const PATH = "/healthz";
/** It is there, and does not take the certificate. */
const UNAUTHENTICATED = 401;

/**
 * Whether each service that a config names in its `signer` block answers, and takes the certificate that the config
 * shows there: one finding for each URL, because one that is down is passed over and not noticed.
 */
export async function checkUpstreams(
  file: string,
  signer: SignerClientConfig,
  workingFolder: string,
): Promise<readonly Finding[]> {
  const named = (key: "client_cert" | "client_key" | "ca") => ({
    key: `signer.${key}`,
    path: resolve(workingFolder, signer[key]),
  });
  let tls: TlsMaterial;
  try {
    tls = await loadTlsMaterial({ cert: named("client_cert"), key: named("client_key"), ca: named("ca") });
  } catch (error) {
    const check = `what it asks can't be asked from here: ${errorText(error)}`;
    return [unknown(file, check, "run it as who may read its certificate and key, such as root")];
  }
  return await Promise.all(signerUrls(signer).map((url) => checkUrl(file, { url, ca: signer.ca, tls })));
}

async function checkUrl(
  file: string,
  { url, ca, tls }: { readonly url: string; readonly ca: string; readonly tls: TlsMaterial },
): Promise<Finding> {
  try {
    using client = new JsonClient({
      ...{ clock: systemClock, what: "it", baseUrl: url, timeoutMs: WAIT_MS },
      ...tls,
    });
    const { status } = await client.request({ method: "GET", path: PATH });
    return status === UNAUTHENTICATED
      ? fail(
        file,
        `${url} does not take the certificate of signer.client_cert`,
        "have a certificate that its client_ca has issued and its denied_callers does not name: broker-ctl identity list",
      )
      : pass(file, `${url} answers`);
  } catch (error) {
    const advice = adviseOnContact(error, { name: "service", parameters: { url, ca } });
    return fail(
      file,
      `${url} does not answer: ${describeFault(error)}`,
      advice ?? "look at the network to it, and its log",
    );
  }
}
