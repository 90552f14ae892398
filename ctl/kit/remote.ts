import {
  JsonClient,
  type JsonClientRequest,
  type JsonClientResponse,
  readProblem,
} from "@gateway/shared/http";
import type { Command } from "commander";
import type * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { systemClock } from "@gateway/shared/clock";
import { quoteText } from "@gateway/shared/text";
import { once } from "./arguments.ts";
import type { ClientParameters, ClientSection, ClientService } from "./client_config.ts";
import { adviseOnContact } from "./contact_advice.ts";
import type { Environment } from "./context.ts";
import { findClient, type RemoteFlags } from "./find_client.ts";
import { type Advice, HintedError, RemoteError, withHint } from "./output.ts";
import { readOperatorFile } from "./files.ts";

/** What is asked of a service, and how its answer is read. */
interface ServiceQuestion<T> {
  /** The command as messages name it: `policy add`. */
  readonly what: string;
  readonly method: JsonClientRequest["method"];
  /** Encoded; see {@linkcode joinPath}. */
  readonly path: string;
  readonly body?: unknown;
  readonly schema: z.ZodType<T>;
  /** What to do about an error status, where the command knows it better than the program does. */
  readonly advice?: Readonly<Record<number, string>>;
}

interface ServiceAnswer<T> {
  readonly body: unknown;
  readonly data: T;
}

const TIMEOUT_MS = 10_000;
// The policy of ten thousand hosts has several megabytes.
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

const NAMES = { signer: "signer", control_plane: "control plane" } as const satisfies Record<
  ClientService,
  string
>;

const VARIABLES = { signer: "BROKER_CTL_SIGNER_URL", control_plane: "BROKER_CTL_CP_URL" } as const;

/** Where the CN of who asks has to stand. */
const ROLES = {
  signer: "reload_callers of the signer's config",
  control_plane: "approval.callers of the control plane's config",
} as const satisfies Record<ClientService, string>;

function adviseOn(status: number, service: ClientService): string | undefined {
  const name = NAMES[service];
  switch (status) {
    case 401:
      return `the ${name} takes certificates of its client_ca alone, with exactly one CN`;
    case 403:
      return `the certificate's CN must be in ${ROLES[service]}`;
    case 404:
    case 405:
      return `is this the ${name}, and not older than this program?`;
    case 500:
      return `the ${name}'s log says more`;
    default:
      return undefined;
  }
}

const MISSING_FILE: Advice = {
  when: ({ code }) => code === "not_found",
  hint: "name the client config with --client-config, or each file with --cert, --key and --ca",
};

/** How to find the service, for the help of every command that asks it. */
export function remoteHelp(service: ClientService): string {
  return `
The certificate's CN must be in ${ROLES[service]}. Each parameter comes from its
flag, else from ${VARIABLES[service]}, _CERT, _KEY, _CA, else from the client config: --client-config, else
BROKER_CTL_CONFIG, else ~/.config/broker-ctl/config.json, else /etc/gateway/broker-ctl.json.
`;
}

/** The help of the commands that ask the signer. */
export const REMOTE_HELP: string = remoteHelp("signer");

/** Gives a command the flags that say where the service is and who asks. */
export function addRemoteOptions(command: Command, service: ClientService = "signer"): Command {
  const name = NAMES[service];
  return command
    .option("--url <url>", `the ${name}, host:port`, once)
    .option("--cert <file>", "your certificate", once)
    .option("--key <file>", "your private key", once)
    .option("--ca <file>", `the CA of the ${name}'s certificate`, once);
}

/** @throws {AppError} `invalid_request` for a flag that says whom to ask when nobody is asked */
export function refuseRemoteFlags(flags: ClientSection): void {
  for (const name of ["url", "cert", "key", "ca"] as const) {
    if (flags[name] === undefined) continue;
    throw new AppError("invalid_request", `Option '--${name}' means nothing to 'list' without --remote`);
  }
}

/**
 * A path of a service's; each segment is encoded for itself.
 *
 * @throws {AppError} `invalid_request` for a segment that URLs would resolve away
 */
export function joinPath(...segments: readonly string[]): string {
  return segments.map((segment) => {
    if (/^\.{0,2}$/.test(segment)) {
      throw new AppError("invalid_request", `Cannot ask about ${quoteText(segment)}: expected a name`);
    }
    return `/${encodeURIComponent(segment.toWellFormed())}`;
  }).join("");
}

/**
 * Asks the signer, as the command's flags, the environment and the client config say.
 *
 * @throws {RemoteError} when the signer refuses, with what to do about it
 * @throws {AppError} when it can't be asked, or does not answer as a signer does
 */
export async function askSigner<T>(
  command: Command,
  environment: Environment,
  question: ServiceQuestion<T>,
): Promise<ServiceAnswer<T>> {
  return await askService("signer", command, environment, question);
}

/** Asks the control plane as {@linkcode askSigner} asks the signer. */
export async function askControlPlane<T>(
  command: Command,
  environment: Environment,
  question: ServiceQuestion<T>,
): Promise<ServiceAnswer<T>> {
  return await askService("control_plane", command, environment, question);
}

async function askService<T>(
  service: ClientService,
  command: Command,
  environment: Environment,
  question: ServiceQuestion<T>,
): Promise<ServiceAnswer<T>> {
  const parameters = await findClient(service, command.optsWithGlobals() as RemoteFlags, environment);
  const asked = `asked ${parameters.url}${question.path} with certificate ${parameters.cert}`;
  const response = await exchange(parameters, question, { service, asked });
  if (response.status < 200 || response.status > 299) throw refusal(response, question, { service, asked });
  const { data } = question.schema.safeParse(response.body);
  if (data === undefined) {
    const message = `${parameters.url} answered as no ${NAMES[service]} does: is the URL right?`;
    throw new HintedError(new AppError("upstream_failure", message), asked);
  }
  return { body: response.body, data };
}

/** Who was asked, and how a hint says it. */
interface Asked {
  readonly service: ClientService;
  readonly asked: string;
}

async function exchange(
  parameters: ClientParameters,
  { method, path, body }: Omit<ServiceQuestion<unknown>, "schema">,
  { service, asked }: Asked,
): Promise<JsonClientResponse> {
  const [cert, key, ca] = await Promise.all([
    readPem(parameters.cert, "certificate"),
    readPem(parameters.key, "private key"),
    readPem(parameters.ca, "CA certificate"),
  ]);
  try {
    using client = new JsonClient({
      clock: systemClock,
      what: `the ${NAMES[service]}`,
      baseUrl: parameters.url,
      cert,
      key,
      ca,
      timeoutMs: TIMEOUT_MS,
      maxResponseBytes: MAX_RESPONSE_BYTES,
    });
    return await client.request({ method, path, ...(body !== undefined && { body }) });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "invalid_config") {
      throw new HintedError(
        error,
        `certificate ${parameters.cert}, private key ${parameters.key}, CA ${parameters.ca}`,
      );
    }
    const advice = adviseOnContact(error, { name: NAMES[service], parameters });
    throw new HintedError(error, advice === undefined ? asked : `${asked}; ${advice}`);
  }
}

function refusal(
  reply: JsonClientResponse,
  { what, advice = {} }: Omit<ServiceQuestion<unknown>, "schema">,
  { service, asked }: Asked,
): RemoteError {
  const { detail, code = "upstream_failure" } = readProblem(reply);
  const error = new AppError(code, `${what} failed (HTTP ${reply.status}): ${detail}`);
  const mend = advice[reply.status] ?? adviseOn(reply.status, service);
  return new RemoteError(error, mend === undefined ? asked : `${asked}; ${mend}`);
}

async function readPem(path: string, what: string): Promise<string> {
  return new TextDecoder().decode(await withHint(MISSING_FILE, () => readOperatorFile(path, what)));
}
