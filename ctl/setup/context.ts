import { basename, dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { describeEnd, readCertificateFacts, roleOf } from "../identities/kinds.ts";
import { clientConfigPlaces, type ClientService, findClient, SERVICES } from "../kit/client_config.ts";
import { type Call, command, type CommandGroup } from "../kit/command.ts";
import {
  type ContextFiles,
  contextOf,
  type Contexts,
  contextsPath,
  editContexts,
  loadContexts,
  withContext,
} from "../kit/contexts.ts";
import { readOperatorText } from "../kit/files.ts";
import { ignoreAppError, invalid, notFound } from "../kit/output.ts";
import { usesSigner } from "../kit/remote.ts";
import { CONFIG_KINDS, loadNeighbor, loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL, timeCell } from "../kit/table.ts";
import { isPlainName } from "../kit/values.ts";

const uses = () => [];
const NAME = { "<name>": "context name" } as const;

const LIST = command({
  name: "list",
  summary: "List the contexts.",
  uses,
  async run(_given, { variables }) {
    const all = await loadContexts(variables);
    const rows = byName(all.contexts).map(([name, { config, client_config }]) => {
      return [name, name === all.current ? "*" : "", dirname(config ?? client_config ?? "")];
    });
    const none = "(no contexts; broker-ctl init and broker-ctl context use create one)";
    return { json: all, lines: [{ none, columns: ["NAME", "CURRENT", "DIRECTORY"], rows }] };
  },
});

const USE = command({
  name: "use",
  summary: "Select the current context.",
  takes: NAME,
  help: `
Examples:
  broker-ctl context use lab
  broker-ctl context use prod --config /etc/gateway/signer.json --client-config /etc/gateway/broker-ctl.json

With --config, --client-config or both, the context gets these files. init writes the context of a new installation.
`,
  uses,
  async run({ name, config, clientConfig }, { variables, workingFolder }) {
    const files = {
      ...clientConfig !== undefined && { client_config: resolve(workingFolder, clientConfig) },
      ...config !== undefined && { config: resolve(workingFolder, config) },
    };
    const paths = Object.values(files);
    for (const path of paths) await readOperatorText(path, "config");
    if (paths.length > 0 && !isPlainName(name)) {
      throw invalid(`Cannot use context ${quoteText(name)}: expected a plain name`);
    }
    await editContexts(variables, (all) => {
      const { contexts } = paths.length > 0 ? withContext(all, name, files) : all;
      contextOf({ contexts }, name);
      return [{ current: name, contexts }, undefined];
    });
    return { json: { current: name }, lines: [describeUse(name, true)] };
  },
});

const SHOW = command({
  name: "show",
  summary: "Show the files of a context.",
  takes: { "[name]": "context name (default: the current context)" },
  uses,
  async run({ name: named, context }, { variables }) {
    const all = await loadContexts(variables);
    const name = named ?? context ?? all.current;
    if (name === undefined) {
      throw notFound("Cannot find a current context", undefined, "broker-ctl context list");
    }
    const files = contextOf(all, name);
    return { json: { name, current: name === all.current, ...files }, lines: describeFiles(name, files) };
  },
});

const REMOVE = command({
  name: "remove",
  summary: "Remove a context; its files stay.",
  takes: NAME,
  uses,
  async run({ name }, { variables }) {
    await editContexts(variables, (all) => {
      contextOf(all, name);
      const { current = name, contexts: { [name]: _removed, ...contexts } } = all;
      return [{ ...current !== name && { current }, contexts }, undefined];
    });
    return { json: { name, removed: true }, lines: [`context ${quoteText(name)} removed; its files stay`] };
  },
});

/** `context`: the installations that commands find without --config and --client-config. */
export const CONTEXT: CommandGroup = {
  name: "context",
  summary: "Select the installation that commands use.",
  help: `
Examples:
  broker-ctl context list
  broker-ctl context use lab
  broker-ctl status --context prod
`,
  commands: [LIST, USE, SHOW, REMOVE],
};

const HEADING = ["SERVICE", "ADDRESS", "CN", "ROLE", "EXPIRES"];

export const WHOAMI = command({
  name: "whoami",
  summary: "Show your certificates, their roles and the addresses.",
  help: `
Examples:
  broker-ctl whoami

Reads files on this machine, and sends no request. ROLE comes from the configs of signer and control plane, if they are
on this machine. Exit code 1: a certificate is missing, expired or expires soon.
`,
  uses: usesSigner,
  async run({ context = "", config = "signer.json", clientConfig }, call) {
    const signerFile = resolve(call.workingFolder, config);
    const signer = await loadSignerFile(signerFile, "/").catch(ignoreAppError);
    const controlPlane = await loadNeighbor(signerFile, "control-plane.json", CONFIG_KINDS.controlPlane)
      .catch(ignoreAppError);
    const describe = async (service: ClientService) => {
      const { url, cert } = await findClient(service, call.flags, call);
      const row = { service: SERVICES[service].name, url, cert, cn: "", role: "", expires: "" };
      try {
        const facts = readCertificateFacts(await readOperatorText(cert, "certificate"));
        const { commonName: cn, notAfter } = facts;
        const role = signer && roleOf(cn, signer, controlPlane?.config);
        const problem = describeEnd(facts, systemClock.now()) ?? "";
        return { ...row, cn, role: role ?? "", expires: notAfter.toISOString(), problem };
      } catch (error) {
        return { ...row, problem: errorText(error) };
      }
    };
    const [client_config] = await existing(clientConfigPlaces(clientConfig, call));
    const [found] = await existing([{ path: signerFile }]);
    const files = { ...client_config && { client_config }, ...found && { config: found } };
    // A local installation is one process without services.
    const isLocal = client_config === undefined && basename(found ?? "") === "mcp.json";
    const services = isLocal ? [] : [await describe("signer"), await describe("control_plane")];
    const rows = services.map(({ service, url, cn, role, expires, problem }) => [
      ...[service, url, cn, role],
      { ...timeCell(expires, systemClock.now()), ...problem !== "" && { role: "bad" as const } },
    ]);
    const problems = services.filter(({ problem }) => problem !== "");
    return {
      json: { context, ...files, services },
      lines: [
        ...describeFiles(context || EMPTY_CELL, files),
        "",
        { none: "(a local installation: no services)", columns: HEADING, rows },
        ...problems.map(({ service, problem }) => `problem: certificate for the ${service}: ${problem}`),
      ],
      failed: problems.length > 0,
    };
  },
});

async function existing(places: readonly { readonly path: string }[]): Promise<readonly string[]> {
  const found = places.map(({ path }) => Deno.stat(path).then(() => [path], () => []));
  return (await Promise.all(found)).flat();
}

function describeFiles(name: string, { config = EMPTY_CELL, client_config = EMPTY_CELL }: ContextFiles) {
  return [`Context:       ${name}`, `Config:        ${config}`, `Client config: ${client_config}`];
}

function describeUse(name: string, isCurrent: boolean): string {
  return isCurrent
    ? `Context ${quoteText(name)} is current: commands find this installation without --config.`
    : `Context ${quoteText(name)} added. To use it: broker-ctl context use ${shellQuote(name)}`;
}

/**
 * Writes the context of a new installation. A failure does not affect the installation.
 *
 * @param wanted its name; absent: the name of the directory; empty: no context
 * @returns the name of the context, empty after a failure, and a line for the operator
 */
export async function keepContext(
  wanted: string | undefined,
  files: ContextFiles & { readonly config: string },
  call: Call,
) {
  const { variables } = call;
  if (wanted === "" || contextsPath(variables) === undefined) return undefined;
  // Existing client configs keep their effect until the operator selects the new context.
  const mayBeCurrent = (await existing(clientConfigPlaces(undefined, call))).length === 0;
  try {
    return await editContexts(variables, (all) => {
      const name = freeName(all, wanted, dirname(files.config));
      const edited = withContext(all, name, files, mayBeCurrent);
      return [edited, { name, line: describeUse(name, name === edited.current) }];
    });
  } catch (error) {
    const fix = `broker-ctl context use NAME --config ${shellQuote(files.config)}`;
    return { name: "", line: `warning: no context was written: ${errorText(error)}; to add one: ${fix}` };
  }
}

/** The name for a directory: its existing one, or the wanted name with a number if another directory has that name. */
function freeName({ contexts }: Contexts, wanted: string | undefined, folder: string): string {
  const isOurs = (name: string) => dirname(contexts[name]?.config ?? "") === folder;
  const known = wanted === undefined ? Object.keys(contexts).find(isOurs) : undefined;
  const plain =
    [wanted, basename(folder), "gateway"].find((name) => name !== undefined && isPlainName(name)) ?? "";
  let name = known ?? plain;
  for (let number = 2; Object.hasOwn(contexts, name) && !isOurs(name); number++) name = `${plain}-${number}`;
  return name;
}
