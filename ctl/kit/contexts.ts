/**
 * Contexts: the installations that `broker-ctl` finds without `--config` and `--client-config`, in a file of the user.
 *
 * @module
 */
import * as z from "@zod/zod";
import { basename, dirname, join, resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere, tryLockFile } from "@gateway/shared/files";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { configHome, type RemoteFlags } from "./client_config.ts";
import { replaceFile } from "./files.ts";
import { type Advice, type Environment, HintedError, internal, notFound, type Use } from "./output.ts";

const file = z.string().startsWith("/").exactOptional();
/** The files of an installation, absolute. A local installation has no client config. */
const entry = z.strictObject({ client_config: file, config: file });
const schema = z.strictObject({ current: z.string().exactOptional(), contexts: z.record(z.string(), entry) });

export type ContextFiles = Readonly<z.infer<typeof entry>>;
export type Contexts = Readonly<z.infer<typeof schema>>;

export function contextsPath(variables: Environment["variables"]): string | undefined {
  const home = configHome(variables);
  return home ? join(home, "broker-ctl", "contexts.json") : undefined;
}

export async function loadContexts(variables: Environment["variables"]): Promise<Contexts> {
  const path = contextsPath(variables);
  if (path === undefined) return { contexts: {} };
  try {
    return await loadConfig({ path, what: "contexts", schema });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.cause instanceof Deno.errors.NotFound) return { contexts: {} };
    throw new HintedError(error, `correct this file, or remove it: rm ${shellQuote(path)}`);
  }
}

export function contextOf({ contexts }: Contexts, name: string): ContextFiles {
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (found !== undefined) return found;
  throw notFound(`Cannot find context ${quoteText(name)}`, undefined, "broker-ctl context list");
}

/** Changes the contexts in their file under a lock. Creates the file if necessary. */
export async function editContexts<T>(
  variables: Environment["variables"],
  edit: (contexts: Contexts) => readonly [edited: Contexts, result: T],
): Promise<T> {
  const path = contextsPath(variables);
  if (path === undefined) throw notFound("Cannot find the contexts: HOME is not set");
  const folder = dirname(path);
  try {
    if (await ifThere(Deno.stat(path)) === undefined) {
      // Another account, such as root of `sudo` with the user's HOME, must not own files there.
      const home = await ifThere(Deno.stat(configHome(variables) ?? "/"));
      if (home !== undefined && home.uid !== Deno.uid()) {
        throw new Error("another account owns its directory");
      }
      await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    }
    using lock = await tryLockFile(folder);
    if (lock === undefined) throw new Error("another process is editing it, try again");
    const [edited, result] = edit(await loadContexts(variables));
    await replaceFile(path, `${JSON.stringify(edited, null, 2)}\n`);
    return result;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    const fix = `check the owner of the directory: ls -ld ${shellQuote(folder)}`;
    throw internal(`Cannot write ${quoteText(path)}: ${errorText(cause)}`, cause, fix);
  }
}

/** Adds a context. @param mayBeCurrent makes it the current context if there is none */
export function withContext(
  { current, contexts }: Contexts,
  name: string,
  files: ContextFiles,
  mayBeCurrent = true,
): Contexts {
  const next = current ?? (mayBeCurrent ? name : undefined);
  return { ...next !== undefined && { current: next }, contexts: { ...contexts, [name]: files } };
}

/** The context, and those of its files that the command uses. */
interface FoundFiles {
  readonly config?: string | undefined;
  readonly clientConfig?: string | undefined;
  readonly context?: string;
}

/**
 * The files of the context, where no option or variable names a file. `--context` selects the context. With `--config`,
 * it is the context of that config: the current context belongs to another installation.
 */
export async function findFiles(
  flags: RemoteFlags & { readonly context?: string },
  uses: readonly Use[],
  { variables, workingFolder, terminal }: Environment,
): Promise<FoundFiles> {
  const { context: chosen, config, clientConfig } = flags;
  const isNamed = clientConfig !== undefined ||
    (chosen === undefined && Boolean(variables["BROKER_CTL_CONFIG"]));
  if (config !== undefined && isNamed) return {};
  const all = await loadContexts(variables);
  const name = chosen ?? (config === undefined ? all.current : nameOf(all, resolve(workingFolder, config)));
  if (name === undefined) return {};
  const files = contextOf(all, name);
  const here = resolve(workingFolder, "signer.json");
  const isHere = chosen === undefined && config === undefined &&
    await Deno.stat(here).then(() => true, () => false);
  if (isHere && uses.includes("config") && files.config !== here) {
    const note = `note: the config is ./signer.json, and connections are those of context ${quoteText(name)}`;
    terminal.err(`${visibleText(note)}\n`);
  }
  return {
    ...config === undefined && !isHere && { config: files.config },
    ...!isNamed && { clientConfig: files.client_config },
    context: name,
  };
}

function nameOf({ current, contexts }: Contexts, config: string): string | undefined {
  const names = Object.keys(contexts).filter((name) => contexts[name]?.config === config);
  return names.find((name) => name === current) ?? names[0];
}

/** The fix for a file of a context that is missing, or is not the config of a signer. */
export function adviseOnFiles({ config, clientConfig, context = "" }: FoundFiles): Advice {
  const isLocal = clientConfig === undefined && config !== undefined && basename(config) === "mcp.json";
  const paths = [config, clientConfig].flatMap((path) => path === undefined ? [] : [JSON.stringify(path)]);
  const quoted = shellQuote(context);
  return {
    when: ({ message, cause }) =>
      context !== "" &&
      (isLocal ? message.startsWith("Cannot load") : cause instanceof Deno.errors.NotFound) &&
      paths.some((path) => message.includes(path)),
    hint: isLocal
      ? `this local installation has no services; broker-ctl init --from-local ${
        shellQuote(dirname(config))
      } adds them`
      : `context ${quoted} names this file: broker-ctl context use <another>, or broker-ctl context remove ${quoted}`,
  };
}
