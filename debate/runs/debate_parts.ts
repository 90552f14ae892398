/** Creates the parts of a process that runs debates from its settings. */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readNamedText } from "@gateway/shared/files";
import { createContextRedactor, ownSecrets } from "../context/redact_context.ts";
import { loadPrices } from "../models/prices.ts";
import { openProviders } from "../models/providers.ts";
import type { Settings } from "../settings/config.ts";
import { createToolAuditLog } from "../tools/audit_log.ts";
import { openMcpServers } from "../tools/mcp_server.ts";
import { createToolPorts, openToolset, readCa, TOOL_ENV_NAMES } from "../tools/catalogue.ts";

/** The pause between two pieces of a scripted text, in milliseconds, if a person watches the run. */
const REPLAY_PIECE_MS = 20;

interface Process {
  readonly clock: Clock;
  readonly randomBytes: (length: number) => Uint8Array;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Receives messages for the operator's log. They contain no secrets. */
  readonly warn: (message: string) => void;
  readonly isWatched: boolean;
}

export async function openDebateParts(settings: Settings, process: Process) {
  const redactor = createContextRedactor(ownSecrets(settings));
  const redact = (text: string) => redactor(text).text;
  const { clock, variables } = process;
  const env = Object.fromEntries(
    TOOL_ENV_NAMES.flatMap((name) => variables[name] ? [[name, variables[name]]] : []),
  );
  const ports = await createToolPorts({ settings, clock, redact, env });
  const file = settings.MCP_SERVERS_FILE;
  const servers = file === ""
    ? []
    : openMcpServers(await readNamedText("MCP_SERVERS_FILE", file), { settings, ports });
  const { sandboxProblem } = ports;
  if (sandboxProblem !== undefined) {
    process.warn(
      `programs of tools run without a sandbox: ${sandboxProblem}\nfix: apt-get install bubblewrap`,
    );
  }
  return {
    redactor,
    redact,
    sandboxProblem,
    prices: await loadPrices(settings.MODEL_PRICES_FILE),
    toolset: openToolset(settings, ports, servers),
    providers: await openModels(settings, process),
    audit: createToolAuditLog(`${settings.DATA_DIR}/audit.jsonl`, redact),
  };
}

export async function openModels(
  settings: Settings,
  { clock, randomBytes, warn, isWatched }: Omit<Process, "variables">,
) {
  return openProviders(settings, {
    fetch: await openFetch(settings),
    clock,
    warn,
    random: () => new DataView(randomBytes(4).slice().buffer).getUint32(0) / 2 ** 32,
    newId: () => randomBytes(16).toHex(),
    replayPieceDelayMs: isWatched ? REPLAY_PIECE_MS : 0,
  });
}

/** A client that trusts the CAs of the settings. @throws {AppError} `invalid_config` if they cannot be used */
export async function openFetch(settings: Settings): Promise<typeof fetch> {
  const ca = await readCa(settings);
  if (ca === undefined) return fetch;
  try {
    const client = Deno.createHttpClient({ caCerts: [ca] });
    return (input, init) => fetch(input, { ...init, client });
  } catch (cause) {
    const text = "Cannot use the CAs of REQUESTS_CA_BUNDLE or SSL_CERT_FILE";
    throw new AppError("invalid_config", text, { cause });
  }
}
