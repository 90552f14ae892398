import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { type SignerClientConfig, signerUrls } from "@gateway/shared/config";
import { describeFault, errorText } from "@gateway/shared/errors";
import { JsonClient, loadSignerTls, parseListenAddress, type TlsMaterial } from "@gateway/shared/http";
import { describeVersion } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import { reachable } from "../kit/addresses.ts";
import { adviseOnContact } from "../kit/contact_advice.ts";
import { fail, type Found, pass, unknown, warn } from "./findings.ts";
import { MOST_SKEW_SECONDS } from "./host_checks.ts";
import { askMonitor, readStatus } from "./monitor.ts";

const WAIT_MS = 5_000;
/** With an older state, services that share it decide nothing. */
const MOST_STATE_AGE_SECONDS = 2;

export async function checkService(monitorListen: string): Promise<readonly Found[]> {
  if (monitorListen === "") {
    const check = "there is no monitor_listen: nobody sees whether it works";
    return [warn(check, "set it, such as 127.0.0.1:9160")];
  }
  const address = reachable(monitorListen);
  try {
    parseListenAddress(monitorListen);
    const { ready, metrics } = await askMonitor(address);
    const { version, stateAgeSeconds } = readStatus({ address, ready, metrics });
    const ownVersion = describeVersion({ verbose: false });
    const skew = Math.abs(ready.time - systemClock.now()) / 1000;
    const unclear = (what: string) =>
      unknown(`what answers at ${address} does not say ${what}`, "look at what listens there");
    return [
      !ready.ok
        ? fail(
          `the service is there and not ready: ${ready.text.trim().slice(0, 200)}`,
          "its log says more",
        )
        : version === undefined
        ? unclear("which version of the service it is")
        : pass(`ready, version ${version}`),
      ...version === undefined || version === ownVersion ? [] : [warn(
        `the service is of version ${quoteText(version)}, this program of ${quoteText(ownVersion)}`,
        "restart the service after an upgrade, and have the same version everywhere",
      )],
      ...stateAgeSeconds === undefined ? [] : [
        stateAgeSeconds <= MOST_STATE_AGE_SECONDS ? pass("what it decides by is fresh") : fail(
          `what it decides by is ${stateAgeSeconds} s old: it decides nothing`,
          "look at the database and the network to it",
        ),
      ],
      Number.isNaN(skew)
        ? unclear("which time it is")
        : skew <= MOST_SKEW_SECONDS
        ? pass("its clock is right")
        : fail(`its clock is ${Math.round(skew)} s off this machine's`, "run a time service on both"),
    ];
  } catch (error) {
    return [fail(`the service does not answer at ${address}: ${errorText(error)}`, "start it")];
  }
}

/** Checks each URL of a `signer` block: services pass over one that is down, and nobody notices. */
export async function checkUpstreams(
  signer: SignerClientConfig,
  workingFolder: string,
): Promise<readonly Found[]> {
  const at = (path: string) => resolve(workingFolder, path);
  const { client_cert, client_key, ca } = signer;
  let tls: TlsMaterial;
  try {
    tls = await loadSignerTls({ client_cert: at(client_cert), client_key: at(client_key), ca: at(ca) });
  } catch (error) {
    const check = `what it asks can't be asked from here: ${errorText(error)}`;
    return [unknown(check, "run it as who may read its certificate and key, such as root")];
  }
  return await Promise.all(
    signerUrls(signer).map(async (url) => {
      try {
        using client = new JsonClient({
          ...{ clock: systemClock, what: "it", baseUrl: url, timeoutMs: WAIT_MS },
          ...tls,
        });
        // "Not found" is an answer too. 401: the service does not accept the certificate.
        const { status } = await client.request({ method: "GET", path: "/healthz" });
        return status !== 401 ? pass(`${url} answers`) : fail(
          `${url} does not take the certificate of signer.client_cert`,
          "have a certificate that its client_ca has issued and its denied_callers does not name: broker-ctl identity list",
        );
      } catch (error) {
        const advice = adviseOnContact(error, { name: "service", parameters: { url, ca: signer.ca } });
        return fail(
          `${url} does not answer: ${describeFault(error)}`,
          advice ?? "look at the network to it, and its log",
        );
      }
    }),
  );
}
