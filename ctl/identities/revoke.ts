import { basename, dirname, join, resolve } from "node:path";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { errorText } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { type FreezeRequest, freezeRequest, freezeResponse } from "@gateway/shared/wire";
import { asOneWord } from "../kit/arguments.ts";
import { type Call, command } from "../kit/command.ts";
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
    const frozen = freeze ? await attempt(() => freezeAll(call, requests)) : undefined;
    const time = new Date(systemClock.now()).toISOString();
    const listed = await attempt(() => addDenied(denied, name, `${time} ${reason}`.trimEnd()));
    const others = await findOtherLists(setUp, denied.path);
    const problems = [
      ...frozen?.kind === "failed"
        ? [
          `NOT frozen: ${frozen.why}; sessions may go on until broker-ctl freeze --caller ${name} and ` +
          `--end-user ${name} succeed`,
        ]
        : [],
      ...listed.kind === "failed"
        ? [
          `NOT on ${denied.path}: ${listed.why}; its certificate is believed until broker-ctl identity revoke ` +
          `${name} succeeds`,
        ]
        : [],
    ];
    const isFrozen = frozen?.kind === "done";
    return {
      json: {
        name,
        denied: listed.kind === "done",
        frozen: isFrozen,
        ...(problems.length > 0 && { problem: problems.join("; ") }),
        warnings: others,
      },
      lines: [
        ...(isFrozen ? [`${quoteText(name)} is frozen in the signer, as a caller and as an end user`] : []),
        ...listed.kind === "done"
          ? [`${quoteText(name)} ${listed.result ? "is on" : "was already on"} ${denied.path}`]
          : [],
        ...others.map((path) =>
          `warning: ${path} does not name that list: its listener goes on believing ${name}`
        ),
        ...problems,
      ],
      failed: problems.length > 0,
    };
  },
});

/** If one half fails, the other half must still be done. */
async function attempt<T>(half: () => Promise<T>) {
  try {
    return { kind: "done" as const, result: await half() };
  } catch (error) {
    return { kind: "failed" as const, why: errorText(error) };
  }
}

async function freezeAll(call: Call, requests: readonly FreezeRequest[]): Promise<void> {
  for (const body of requests) {
    const question = { what: "freeze", method: "POST", path: "/v1/freeze", body } as const;
    await askSigner(call, { ...question, schema: freezeResponse });
  }
}

/** Configs of listeners in the same directory that name another list, or no list. */
async function findOtherLists(
  { signerFile, controlPlane }: IdentitySetUp,
  list: string,
): Promise<readonly string[]> {
  const folder = dirname(signerFile);
  const broker = join(folder, "config.json");
  const configs: { readonly path: string; readonly denied: string }[] = controlPlane === undefined
    ? []
    : [{ path: controlPlane.path, denied: controlPlane.config.denied_callers }];
  if (await ifThere(Deno.stat(broker)) !== undefined && basename(signerFile) !== "config.json") {
    const kind = { what: "broker config", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS };
    configs.push({ path: broker, denied: (await loadConfig({ path: broker, ...kind })).denied_callers });
  }
  return configs.filter(({ denied, path }) => denied === "" || resolve(dirname(path), denied) !== list)
    .map(({ path }) => path);
}
