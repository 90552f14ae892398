import { z } from "@zod/zod";
import type { ClientParameters } from "@gateway/shared/config/client";
import { AppError } from "@gateway/shared/errors";
import { JsonClient } from "@gateway/shared/http/json_client";
import { once } from "../arguments.ts";
import { findClient, type RemoteFlags } from "../client_config.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import { type CommandResult, HintedError } from "../output.ts";
import { readOperatorFile } from "../read_file.ts";

const EXAMPLES = `
Examples:
  broker-ctl reload --client-config gateway/broker-ctl.json
  broker-ctl reload --url 10.0.0.9:9443 --cert me.crt --key me.key --ca ca.crt

The certificate's CN must stand in the signer's reload_callers. Each parameter comes from its flag, else from
BROKER_CTL_SIGNER_URL, _CERT, _KEY, _CA, else from the client config: --client-config, else
BROKER_CTL_CONFIG, else ~/.config/broker-ctl/config.json, else /etc/gateway/broker-ctl.json.
`;

const TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;

const reloadResponse = z.object({ hosts: z.int(), status: z.string() });
const problem = z.object({ detail: z.string() });

/** `reload`: the signer reads its config again. */
export const addReload: AddCommand = (program, context) => {
  program.command("reload")
    .description("Have the signer read its config again.")
    .option("--url <url>", "the signer, host:port", once)
    .option("--cert <file>", "your certificate", once)
    .option("--key <file>", "your private key", once)
    .option("--ca <file>", "the CA of the signer's certificate", once)
    .addHelpText("after", EXAMPLES)
    .action((_flags, command) =>
      context.run(
        command,
        ["config", "clientConfig"],
        () => reload(command.optsWithGlobals() as RemoteFlags, context),
      )
    );
};

async function reload(flags: RemoteFlags, context: CommandContext): Promise<CommandResult> {
  const parameters = await findClient("signer", flags, context);
  const body = await post(parameters, "/v1/reload");
  const { data } = reloadResponse.safeParse(body);
  if (data === undefined) {
    throw new AppError("upstream_failure", `${parameters.url} answered as no signer does: is the URL right?`);
  }
  const { hosts, status } = data;
  return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
}

async function post(parameters: ClientParameters, path: string): Promise<unknown> {
  const [cert, key, ca] = await Promise.all([
    readPem(parameters.cert, "certificate"),
    readPem(parameters.key, "private key"),
    readPem(parameters.ca, "CA certificate"),
  ]);
  const client = new JsonClient({
    baseUrl: parameters.url,
    cert,
    key,
    ca,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: MAX_RESPONSE_BYTES,
  });
  const url = `${parameters.url}${path}`;
  try {
    const response = await client.request({ method: "POST", path });
    if (response.status >= 200 && response.status < 300) return response.body;
    const { data } = problem.safeParse(response.body);
    const reason = data?.detail ?? response.text.slice(0, 1000).trim();
    throw new AppError("upstream_failure", `POST ${url} failed (HTTP ${response.status}): ${reason}`);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new HintedError(error, `asked ${url} with certificate ${parameters.cert}`);
  } finally {
    client.close();
  }
}

async function readPem(path: string, what: string): Promise<string> {
  return new TextDecoder().decode(await readOperatorFile(path, what));
}
