import { basename, dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { describeEnd, readCertificateFacts, roleOf } from "../identities/kinds.ts";
import { type ClientService, clientConfigPlaces, findClient, SERVICES } from "../kit/client_config.ts";
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
import { conflict, invalid, notFound } from "../kit/output.ts";
import { usesSigner } from "../kit/remote.ts";
import { CONFIG_KINDS, loadNeighbor, loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL, formatTable, tableOr } from "../kit/table.ts";
import { isPlainName } from "../kit/values.ts";

const uses = () => [];

const LIST = command({
  name: "list",
  summary: "List the contexts.",
  help: `
Examples:
  broker-ctl context list
`,
  uses,
  async run(_given, { variables, terminal }) {
    const all = await loadContexts(variables);
    const rows = byName(all.contexts).map(([name, { config, client_config }]) => [
      name === all.current ? "*" : "",
      name,
      dirname(config ?? client_config ?? ""),
    ]);
    const none = "(no contexts; broker-ctl init and broker-ctl context add create one)";
    return { json: all, lines: tableOr(none, ["CURRENT", "NAME", "DIRECTORY"], rows, terminal.columns) };
  },
});

const USE = command({
  name: "use",
  summary: "Select the current context.",
  takes: { "<name>": "context name" },
  help: `
Examples:
  broker-ctl context use lab
`,
  uses,
  async run({ name }, { variables }) {
    contextOf(await loadContexts(variables), name);
    await editContexts(variables, (all) => [(contextOf(all, name), { ...all, current: name }), undefined]);
    return { json: { current: name }, lines: [`context ${quoteText(name)} is now current`] };
  },
});

const SHOW = command({
  name: "show",
  summary: "Show the files of a context.",
  takes: { "[name]": "context name (default: the current context)" },
  help: `
Examples:
  broker-ctl context show
  broker-ctl context show lab
`,
  uses,
  async run({ name: named, context }, { variables }) {
    const all = await loadContexts(variables);
    const name = named ?? context ?? all.current;
    if (name === undefined) throw notFound("Cannot find a current context", undefined, "broker-ctl context list");
    const files = contextOf(all, name);
    const isCurrent = name === all.current;
    return {
      json: { name, current: isCurrent, ...files },
      lines: describeFiles(`${name}${isCurrent ? " (current)" : ""}`, files),
    };
  },
});

const ADD = command({
  name: "add",
  summary: "Add a context for an installation that exists.",
  takes: { "<name>": "context name" },
  help: `
Examples:
  broker-ctl context add prod --config /etc/gateway/signer.json --client-config /etc/gateway/broker-ctl.json
  broker-ctl context add remote --client-config ~/remote/broker-ctl.json

Pass --config, --client-config or both. init adds the context of a new installation itself.
`,
  uses,
  async run({ name, config, clientConfig }, { variables, workingFolder }) {
    if (!isPlainName(name)) {
      throw invalid(`Cannot add context ${quoteText(name)}: expected letters, digits, dots, dashes and underscores`);
    }
    if (config === undefined && clientConfig === undefined) {
      throw invalid("Cannot add a context without files: pass --config, --client-config or both");
    }
    const read = async (path: string | undefined, what: string) => {
      if (path === undefined) return undefined;
      const absolute = resolve(workingFolder, path);
      await readOperatorText(absolute, what);
      return absolute;
    };
    const [client_config, signer] = [await read(clientConfig, "client config"), await read(config, "config")];
    const files = { ...client_config && { client_config }, ...signer && { config: signer } };
    const { current } = await editContexts(variables, (all) => {
      if (Object.hasOwn(all.contexts, name)) {
        const fix = `broker-ctl context remove ${name}, or choose another name`;
        throw conflict(`Cannot add context ${quoteText(name)}: it exists`, undefined, fix);
      }
      const edited = withContext(all, name, files);
      return [edited, edited];
    });
    return { json: { name, current: current === name, ...files }, lines: [describeUse(name, current === name)] };
  },
});

const REMOVE = command({
  name: "remove",
  summary: "Remove a context; its files stay.",
  takes: { "<name>": "context name" },
  help: `
Examples:
  broker-ctl context remove lab
`,
  uses,
  async run({ name }, { variables }) {
    contextOf(await loadContexts(variables), name);
    await editContexts(variables, (all) => {
      contextOf(all, name);
      const { [name]: _removed, ...contexts } = all.contexts;
      const current = all.current === name ? undefined : all.current;
      return [{ ...current !== undefined && { current }, contexts }, undefined];
    });
    return { json: { name, removed: true }, lines: [`context ${quoteText(name)} removed; its files stay`] };
  },
});

/** `context`: the installations that commands find without --config and --client-config. */
export const CONTEXT: CommandGroup = {
  name: "context",
  summary: "Select the installation that commands use.",
  commands: [LIST, USE, SHOW, ADD, REMOVE],
};

export const WHOAMI = command({
  name: "whoami",
  summary: "Show your certificates, their roles and the addresses.",
  help: `
Examples:
  broker-ctl whoami
  broker-ctl whoami --context lab

Reads files on this machine only, without requests to the services. ROLE comes from the signer's config and the control
plane's config, if they are on this machine. Exit code 1: a certificate is missing, or its time is wrong.
`,
  uses: usesSigner,
  async run({ context, config, clientConfig }, call) {
    const { workingFolder, terminal } = call;
    const signerFile = resolve(workingFolder, config ?? "signer.json");
    const signer = await loadSignerFile(config, workingFolder).catch(ignoreAppError);
    const controlPlane = await loadNeighbor(signerFile, "control-plane.json", CONFIG_KINDS.controlPlane)
      .catch(ignoreAppError);
    const describe = async (service: ClientService) => {
      const { url, cert } = await findClient(service, call.flags, call);
      const row = { service: SERVICES[service].name, url, cert };
      try {
        const facts = readCertificateFacts(await readOperatorText(cert, "certificate"));
        const { commonName: cn, notAfter } = facts;
        const role = signer && roleOf(cn, signer, controlPlane?.config);
        const problem = describeEnd(facts, systemClock.now());
        return { ...row, cn, role: role ?? "", expires: notAfter.toISOString(), problem: problem ?? "" };
      } catch (error) {
        return { ...row, cn: "", role: "", expires: "", problem: errorText(error) };
      }
    };
    const services = [await describe("signer"), await describe("control_plane")];
    const places = clientConfigPlaces(clientConfig, call).map(({ path }) => path);
    const found = await Promise.all(places.map((path) => Deno.stat(path).then(() => [path], () => [])));
    const [client_config] = found.flat();
    const files = { ...client_config && { client_config }, ...signer && { config: signerFile } };
    const rows = services.map(({ service, url, cn, role, expires }) =>
      [service, url, cn, role, expires.slice(0, 10)].map((cell) => cell || EMPTY_CELL)
    );
    const problems = services.flatMap(({ problem, cert }) => problem === "" ? [] : [`${cert}: ${problem}`]);
    return {
      json: { context: context ?? "", ...files, services },
      lines: [
        ...describeFiles(context ?? EMPTY_CELL, files),
        "",
        ...formatTable(["SERVICE", "ADDRESS", "CN", "ROLE", "EXPIRES"], rows, terminal.columns),
        ...[...new Set(problems)].map((problem) => `problem: ${problem}`),
      ],
      failed: problems.length > 0,
    };
  },
});

function ignoreAppError(error: unknown): undefined {
  if (!(error instanceof AppError)) throw error;
}

function describeFiles(name: string, { config, client_config }: ContextFiles): readonly string[] {
  return [
    `Context:       ${name}`,
    `Config:        ${config ?? EMPTY_CELL}`,
    `Client config: ${client_config ?? EMPTY_CELL}`,
  ];
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
 * @returns the name of the context, and a line for the operator
 */
export async function keepContext(
  wanted: string | undefined,
  files: ContextFiles & { readonly config: string },
  call: Call,
): Promise<{ readonly name: string; readonly line: string } | undefined> {
  const { variables } = call;
  if (wanted === "" || contextsPath(variables) === undefined) return undefined;
  const folder = dirname(files.config);
  // Existing client configs keep their effect until the operator selects the new context.
  const others = clientConfigPlaces(undefined, call).map(({ path }) => path);
  const hasOther = (await Promise.all(others.map((path) => Deno.stat(path).then(() => true, () => false))))
    .includes(true);
  try {
    const { name, current } = await editContexts(variables, (all) => {
      const name = freeName(all, wanted ?? basename(folder), folder, wanted === undefined);
      const edited = withContext(all, name, files, !hasOther);
      return [edited, { name, current: edited.current }];
    });
    return { name, line: describeUse(name, name === current) };
  } catch (error) {
    const fix = `broker-ctl context add <name> --config ${shellQuote(files.config)}`;
    return { name: "", line: `warning: no context was written: ${errorText(error)}; to add one: ${fix}` };
  }
}

/** The name for a directory: its existing one, or the wanted name with a number if another directory has that name. */
function freeName({ contexts }: Contexts, wanted: string, folder: string, mayReuse: boolean): string {
  const isOurs = (name: string) => dirname(contexts[name]?.config ?? "") === folder;
  const known = mayReuse ? Object.keys(contexts).find(isOurs) : undefined;
  const plain = isPlainName(wanted) ? wanted : "gateway";
  let name = known ?? plain;
  for (let number = 2; Object.hasOwn(contexts, name) && !isOurs(name); number++) name = `${plain}-${number}`;
  return name;
}
