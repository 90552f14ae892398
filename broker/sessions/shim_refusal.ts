import { quoteText, shortenText, visibleText } from "@gateway/shared/text";
import type { CommandResult } from "../ssh/run_command.ts";
import { keptBytes, type Output } from "../ssh/output.ts";

/** The exit code of a shim that refuses a command. */
const REFUSED = 126;
/** That of a shell which does not find a program. */
const NOT_FOUND = 127;
const MAX_REASON = 200;
/** The last line of what a shim says, after whatever the account's shell says at its start. */
const REFUSAL = /(?:^|\n)[^\s:]+: refused: (?<reason>[^\n]+)\n?$/;

/** What is to be done, by what a shim says, in the order of looking. */
const REMEDIES: readonly { readonly says: RegExp; readonly remedy: string }[] = [
  { says: /replay|already used/i, remedy: "if it did not run, send it again: an envelope is good once" },
  {
    says: /expir|clock|future/i,
    remedy:
      "the clocks of signer and host differ, or the way took longer than 30 seconds: an operator has to look",
  },
  { says: /nonce|store|record/i, remedy: "an operator has to look at the shim's store of used envelopes" },
  {
    says: /signature|\bkeys?\b|cannot read/i,
    remedy: "an operator has to give the host the signer's key (broker-ctl envelope pubkey)",
  },
  {
    says: /another host|host mismatch/i,
    remedy: "an operator has to find out why the certificate and the envelope name two hosts",
  },
];
const OTHER_REMEDY =
  "an operator has to compare the host's shim with envelope, envelope_domain and shim_command in the signer's config";
/** What an agent must know before it acts on words that came from a host. */
const FORGEABLE = "a command can print the same";

/** What to tell an agent whose command did not get past the shim of a sealed host; `undefined` for everything else. */
export function explainShimRefusal(
  { exitCode, stdout, stderr }: CommandResult,
  shim: string,
): string | undefined {
  if (stdout.totalBytes > 0) return undefined;
  if (exitCode === NOT_FOUND && textOf(stderr).includes(shim)) {
    return `the host is sealed, but its shell says that it does not find ${
      quoteText(shim)
    }, so that no command ran ` +
      `(${FORGEABLE}): an operator has to install the shim`;
  }
  const reason = exitCode === REFUSED ? REFUSAL.exec(textOf(stderr))?.groups?.["reason"] : undefined;
  if (reason === undefined) return undefined;
  const said = quoteText(shortenText(visibleText(reason), MAX_REASON));
  const remedy = REMEDIES.find(({ says }) => says.test(reason))?.remedy ?? OTHER_REMEDY;
  return "the sealed host answered as its shim does when it refuses a command, which then did not run " +
    `(${FORGEABLE}): ${said}; ${remedy}`;
}

function textOf(output: Output): string {
  return new TextDecoder().decode(keptBytes(output));
}
