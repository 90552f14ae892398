import { basename, dirname, join, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { errorText } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { freezeRequest, freezeResponse } from "@gateway/shared/wire";
import { asOneWord } from "../kit/arguments.ts";
import { command } from "../kit/command.ts";
import { CONFIG_KINDS } from "../kit/config_kinds.ts";
import { badConfig, HintedError, invalid } from "../kit/output.ts";
import { askSigner, REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";
import { addDenied, type IdentitySetUp, openOwnSetUp, PKI } from "./set_up.ts";

/** `identity revoke`: services reject a certificate before its end. */
export const REVOKE = command({
  name: "revoke",
  summary: "Have a certificate refused from now on.",
  takes: {
    ...SIGNER,
    "<name>": "the CN",
    "--reason <text>": "why, such as a ticket's number; blanks become _",
    ...PKI,
    "--no-freeze": "change the list alone; the signer is not asked",
  },
  help: `
Examples:
  broker-ctl identity revoke agent-7 --reason INC-42 --config gateway/signer.json
  broker-ctl identity revoke agent-7 --no-freeze --config gateway/signer.json

Freezes the CN in the signer at once, as a caller and as an end user (a broker names agents so); then puts it on the list
of denied_callers, which every listener that names the list takes within 10 seconds, and ends its open connections.
What fails of the two is said with what to do; the other is done all the same.
The list is never shortened by this program. Where a service runs on another machine, take the list there.
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ name, freeze, ...flags }, call) {
    const reason = asOneWord(flags.reason ?? "");
    const requests = (["caller", "end_user"] as const).map((kind) => {
      const { data } = freezeRequest.safeParse({ kind, value: name, reason, allow_volatile: true });
      if (data !== undefined) return data;
      throw invalid("Cannot revoke: the name must be one word, and --reason have no control characters");
    });
    const setUp = await openOwnSetUp(flags, call.workingFolder);
    const { denied } = setUp;
    if (denied === undefined) {
      const list = quoteText(join(setUp.folder, "denied_callers"));
      throw new HintedError(
        badConfig("Cannot revoke: the signer's config has no denied_callers"),
        `"denied_callers": ${list} in the config of each service, an empty file of that name, and a restart`,
      );
    }
    const [lines, problems]: [string[], string[]] = [[], []];
    // If one half fails, the other half must still be done.
    const attempt = async (half: () => Promise<string>, problem: string, fix: string) => {
      try {
        lines.push(await half());
        return true;
      } catch (error) {
        problems.push(`NOT ${problem}: ${errorText(error)}; ${fix}`);
        return false;
      }
    };
    const isFrozen = freeze && await attempt(
      async () => {
        for (const body of requests) {
          const question = { what: "freeze", method: "POST", path: "/v1/freeze", body } as const;
          await askSigner(call, { ...question, schema: freezeResponse });
        }
        return `${quoteText(name)} is frozen in the signer, as a caller and as an end user`;
      },
      "frozen",
      `sessions may go on until broker-ctl freeze --caller ${name} and --end-user ${name} succeed`,
    );
    const note = `${new Date(systemClock.now()).toISOString()} ${reason}`.trimEnd();
    const isListed = await attempt(
      async () => {
        const isNew = await addDenied(denied, name, note);
        return `${quoteText(name)} ${isNew ? "is on" : "was already on"} ${denied.path}`;
      },
      `on ${denied.path}`,
      `its certificate is believed until broker-ctl identity revoke ${name} succeeds`,
    );
    const others = await findOtherLists(setUp, denied.path);
    const warnings = others.map((path) =>
      `warning: ${path} does not name that list: its listener goes on believing ${name}`
    );
    const failed = problems.length > 0;
    const problem = failed ? { problem: problems.join("; ") } : {};
    return {
      json: { name, denied: isListed, frozen: isFrozen, ...problem, warnings: others },
      lines: [...lines, ...warnings, ...problems],
      failed,
    };
  },
});

/** Configs of listeners in the same directory that name another list, or no list. */
async function findOtherLists(
  { signerFile, controlPlane }: IdentitySetUp,
  list: string,
): Promise<readonly string[]> {
  const broker = join(dirname(signerFile), "config.json");
  const configs = controlPlane === undefined
    ? []
    : [{ path: controlPlane.path, denied: controlPlane.config.denied_callers }];
  if (await ifThere(Deno.stat(broker)) !== undefined && basename(signerFile) !== "config.json") {
    const { denied_callers: denied } = await loadConfig({ path: broker, ...CONFIG_KINDS.broker });
    configs.push({ path: broker, denied });
  }
  return configs.filter(({ denied, path }) => denied === "" || resolve(dirname(path), denied) !== list)
    .map(({ path }) => path);
}
