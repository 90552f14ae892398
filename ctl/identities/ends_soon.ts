import { dirname, resolve } from "node:path";
import { openFile, readAt, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { systemClock } from "@gateway/shared/clock";
import { describeEnd, readCertificateFacts } from "./certificate_facts.ts";

/** As much of a config is looked at: certificates are named at its beginning, and a list of hosts can be long. */
const HEAD_BYTES = 65_536;
const NAMED = /"(?:server_cert|client_cert|client_ca|cert|ca)"\s*:\s*"([^"\\]+)"/g;

/**
 * What to say of the certificates that configs name and that end soon, or have ended. It says nothing of what it can't
 * read: whoever uses that says so.
 *
 * @param certificates others, by their paths
 */
export async function warningsOfEnds(
  configs: readonly string[],
  workingFolder: string,
  certificates: readonly string[] = [],
): Promise<readonly string[]> {
  const found = await Promise.all(configs.map(async (config) => {
    const text = await readHead(config);
    return [...text.matchAll(NAMED)].flatMap(([, path = ""]) => [
      resolve(workingFolder, path),
      resolve(dirname(config), path),
    ]);
  }));
  const paths = [...found.flat(), ...certificates.map((path) => resolve(workingFolder, path))];
  const warnings = await Promise.all([...new Set(paths)].map(async (path) => {
    try {
      const end = describeEnd(
        readCertificateFacts(await readRegularText(path)),
        systemClock.now(),
      );
      return end === undefined
        ? []
        : [`warning: certificate ${quoteText(path)} ${end}: broker-ctl identity renew`];
    } catch {
      return [];
    }
  }));
  return warnings.flat();
}

async function readHead(path: string): Promise<string> {
  try {
    await using file = await openFile(path);
    return new TextDecoder().decode(await readAt(file, 0, HEAD_BYTES));
  } catch {
    return "";
  }
}
