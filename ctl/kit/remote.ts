import type { Line } from "./table.ts";
import { X509Certificate } from "node:crypto";
import { basename } from "node:path";
import { JsonClient, type JsonClientRequest, readProblem } from "@gateway/shared/http";
import type * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { systemClock } from "@gateway/shared/clock";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { type Call, command, type CommandData, type CommandSpec, type Given, type Takes } from "./command.ts";
import { type ClientParameters, type ClientService, findClient, SERVICES } from "./client_config.ts";
import { type AddedPatterns, formatWarnings, lintAddedPatterns } from "./lint_warnings.ts";
import { adviseOnContact } from "./contact_advice.ts";
import { type Advice, HintedError, invalid, RemoteError, type Use, withHint } from "./output.ts";
import { readOperatorText } from "./files.ts";

/** A request to a service. */
export interface ServiceQuestion<T> {
  /** The request as messages name it; absent: the command's name. */
  readonly what?: string;
  readonly method: JsonClientRequest["method"];
  /** Encoded; see {@linkcode joinPath}. */
  readonly path: string;
  readonly body?: unknown;
  readonly schema: z.ZodType<T>;
  /** The fixes for error statuses that are specific to this command. */
  readonly advice?: Readonly<Record<number, string>>;
}

const TIMEOUT_MS = 10_000;
// The policy of 10,000 hosts has several megabytes.
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** The fix for a rejected request. The connection works, so the cause is the certificate, the request or the service. */
function adviseOnStatus(
  status: number,
  { name, role }: (typeof SERVICES)[ClientService],
  { cert, pem, command }: Readonly<Record<"cert" | "pem" | "command", string>>,
): string {
  const another = `is this the ${name}, and at least as new as this program? see broker-ctl whoami`;
  const isExpired = new X509Certificate(pem).validToDate.getTime() < systemClock.now();
  const advice: Readonly<Record<number, string>> = {
    400: `broker-ctl ${command} --help`,
    401: isExpired
      ? `broker-ctl identity renew ${shellQuote(basename(cert, ".crt"))}`
      : `use a certificate of the ${name}'s client_ca, with exactly one CN: broker-ctl identity list`,
    403: `the CN of certificate ${cert} must be in ${role}`,
    404: another,
    405: another,
  };
  return advice[status] ?? `see the ${name}'s log`;
}

/** The command that shows the address and the certificate for each service. */
const CHECK = "check the address and the certificate: broker-ctl whoami";

const MISSING_FILE: Advice = {
  when: ({ code }) => code === "not_found",
  hint: "pass --client-config, or --cert, --key and --ca",
};

/** The last lines of the help of every command that sends a request to the service. */
export const remoteHelp = (service: ClientService): string => `
The certificate's CN must be in ${SERVICES[service].role}.
`;

/** The last lines of the help of every command that sends a request to the signer. */
export const REMOTE_HELP: string = remoteHelp("signer");

/** The files that a command reads to find the signer: without --url, the signer's config has the address. */
export const usesSigner = (): readonly Use[] => ["config", "clientConfig"];

/** A path of a service. Each segment is encoded separately. */
export function joinPath(...segments: readonly string[]): string {
  return segments.map((segment) => {
    if (/^\.{0,2}$/.test(segment)) throw invalid(`Cannot use ${quoteText(segment)}: expected a name`);
    return `/${encodeURIComponent(segment.toWellFormed())}`;
  }).join("");
}

/** A command that sends one request to the signer. */
export function asking<const T extends Takes, D>({ question, show, adds, help, ...spec }:
  & Omit<CommandSpec<T>, "run" | "uses">
  & {
    /** The patterns that the request adds; their risks are shown. */
    readonly adds?: (given: Given<T>) => AddedPatterns | undefined;
    readonly question: (given: Given<T>, call: Call) => ServiceQuestion<D> | Promise<ServiceQuestion<D>>;
    readonly show: (data: D, given: Given<T>, call: Call) => readonly Line[];
  }): CommandData {
  return command<T>({
    ...spec,
    help: `${help}${REMOTE_HELP}`,
    uses: usesSigner,
    run: async (given, call) => {
      const { body, data } = await askSigner(call, await question(given, call));
      const lines = show(data, given, call);
      const added = adds?.(given);
      if (added === undefined) return { json: body, lines };
      const findings = await lintAddedPatterns(added, given.config, call.workingFolder);
      return { json: { ...Object(body), findings }, lines: [...lines, ...formatWarnings(findings)] };
    },
  });
}

/** Sends a request to the signer that flags, environment and client config name. */
export const askSigner = <T>(call: Call, question: ServiceQuestion<T>) =>
  askService("signer", call, question);

/** Sends a request to the service that flags, environment and client config name. */
export async function askService<T>(service: ClientService, call: Call, question: ServiceQuestion<T>) {
  const { name } = SERVICES[service];
  const parameters = await findClient(service, call.flags, call);
  const { pem, response } = await exchange(name, parameters, question);
  const { status, body } = response;
  if (status < 200 || status > 299) {
    const { detail, code = "upstream_failure" } = readProblem(response);
    const error = new AppError(code, `${question.what ?? call.name} failed (HTTP ${status}): ${detail}`);
    const fix = question.advice?.[status] ??
      adviseOnStatus(status, SERVICES[service], { cert: parameters.cert, pem, command: call.name });
    throw new RemoteError(error, fix);
  }
  const { data } = question.schema.safeParse(body);
  if (data === undefined) {
    const message = `${parameters.url} did not respond like a ${name}: is the URL correct?`;
    throw new HintedError(new AppError("upstream_failure", message), CHECK);
  }
  return { body, data };
}

async function exchange(
  name: string,
  parameters: ClientParameters,
  { method, path, body }: Omit<ServiceQuestion<unknown>, "schema">,
) {
  const [cert, key, ca] = await Promise.all([
    readPem(parameters.cert, "certificate"),
    readPem(parameters.key, "private key"),
    readPem(parameters.ca, "CA certificate"),
  ]);
  try {
    const what = `the ${name} at ${parameters.url}`;
    using client = new JsonClient({
      ...{ clock: systemClock, what, baseUrl: parameters.url, cert, key, ca },
      ...{ timeoutMs: TIMEOUT_MS, maxResponseBytes: MAX_RESPONSE_BYTES },
    });
    const response = await client.request({ method, path, ...(body !== undefined && { body }) });
    return { pem: cert, response };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const files = `check certificate ${parameters.cert}, private key ${parameters.key}, CA ${parameters.ca}`;
    if (error.code === "invalid_config") throw new HintedError(error, files);
    throw new HintedError(error, adviseOnContact(error, { name, ...parameters }) ?? CHECK);
  }
}

async function readPem(path: string, what: string): Promise<string> {
  return await withHint(MISSING_FILE, () => readOperatorText(path, what));
}
