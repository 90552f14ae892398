import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { fingerprint, formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { runToEnd } from "../kit/run_program.ts";
import { invalid } from "../kit/output.ts";

const ADDRESS = /^(?:\[(?<v6>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9][A-Za-z0-9._-]*))(?::(?<port>\d{1,5}))?$/;
const TIMEOUT_SECONDS = 10;

/**
 * Asks a host for its Ed25519 key, with `ssh-keyscan`. An attacker in the network can answer with another key.
 *
 * @param addr `host:port`; an IPv6 address is in brackets
 * @throws {AppError} `upstream_failure` if no such key is found
 */
export async function scanHostKey(addr: string) {
  const { v6, name, port = "22" } = ADDRESS.exec(addr)?.groups ?? {};
  const host = v6 ?? name;
  if (host === undefined) throw invalid(`Cannot scan ${quoteText(addr)}: expected host:port`);
  const args = ["-T", String(TIMEOUT_SECONDS), "-p", port, "-t", "ed25519", "--", host];
  const { stdout, stderr } = await runToEnd("ssh-keyscan", args);
  const key = stdout.split("\n").map(readLine).find((key) => key !== undefined);
  if (key !== undefined) return key;
  const why = stderr.split("\n").findLast((line) => line !== "" && !line.startsWith("#"));
  throw new AppError(
    "upstream_failure",
    `No Ed25519 host key at ${quoteText(addr)}${why === undefined ? "" : `: ${why}`}`,
  );
}

/** A line is the host's name, the algorithm and the key; comments begin with `#`. */
function readLine(line: string) {
  const [host = "", algorithm = "", key = ""] = line.split(" ");
  if (host.startsWith("#") || algorithm !== "ssh-ed25519") return undefined;
  try {
    const { blob } = parsePublicKey(`${algorithm} ${key}`);
    return { line: formatPublicKey(algorithm, blob).trim(), fingerprint: fingerprint(blob) };
  } catch {
    return undefined;
  }
}
