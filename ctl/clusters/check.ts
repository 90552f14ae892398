import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { ApiServer } from "@gateway/shared/kubernetes";
import { checkCluster, type Finding } from "./check_rights.ts";
import { clusterOf } from "./entry.ts";
import { Reviews } from "./reviews.ts";
import { command } from "../kit/command.ts";
import { type Advice, badConfig, withHint } from "../kit/output.ts";
import { readOperatorFile } from "../kit/files.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { INDENT } from "../kit/table.ts";

const MISSING: Advice = {
  when: ({ code }) => code === "not_found",
  hint:
    "broker-ctl cluster enrol --print says how it is made; a relative path is taken from the working folder",
};

const LABEL = { ok: "ok", warning: "WARNING", error: "ERROR" } as const satisfies Record<
  Finding["level"],
  string
>;

/** `cluster check`: tries a cluster, and compares the rights of its accounts with the rules. */
export const CHECK = command({
  name: "check",
  summary: "Say whether a cluster works, and whether its accounts may do more than the rules.",
  takes: { "<name>": "which" },
  help: `
Examples:
  broker-ctl cluster check prod --config /etc/gateway/signer.json
  broker-ctl cluster check prod --json

Reaches the API server as the signer does: with ca_cert alone, and with the token of token_file. It says who makes the
tokens, and whether that account may do more than that. Then it makes one token for each account of sa_bindings, asks
with it what the account may do, and compares that with the rules: a right that no rule calls for is a warning, with
the role that gives it and the line of RBAC that would have to go. Rights are looked at in the namespaces of the rules
and of the accounts, and in default and kube-system. The tokens' ids are shown, for the API server's own audit log.
Exit code 1 where something is amiss. Relative paths of the config are taken from the working folder.
`,
  async run({ name, config }, { workingFolder }) {
    const cluster = clusterOf(await loadSignerFile(config, workingFolder), name);
    const read = async (key: "ca_cert" | "token_file") => {
      const path = resolve(workingFolder, cluster[key]);
      return new TextDecoder().decode(await withHint(MISSING, () => readOperatorFile(path, key)));
    };
    const [ca, token] = [await read("ca_cert"), (await read("token_file")).trim()];
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw badConfig("Cannot use token_file: expected one token and nothing else");
    }
    using server = new ApiServer({ url: cluster.api_server, ca, clock: systemClock });
    const reviews = new Reviews(server);
    const findings = await checkCluster({ name, cluster, token, reviews, now: systemClock.now() });
    const failed = findings.some(({ level }) => level !== "ok");
    return {
      json: { cluster: name, ok: !failed, findings },
      lines: findings.flatMap(({ level, text, details }) => [
        `${LABEL[level]}: ${text}`,
        ...details.map((detail) => `${INDENT}${detail}`),
      ]),
      failed,
    };
  },
});
