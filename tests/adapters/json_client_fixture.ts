import assert from "node:assert/strict";
import { createServer, type ServerOptions } from "node:https";
import type { RequestListener } from "node:http";
import { systemClock } from "@gateway/shared/clock";
import { AppError, describeFault } from "@gateway/shared/errors";
import { JsonClient, type JsonClientOptions } from "@gateway/shared/http";
import { broker, ca, serverIdentity } from "./mtls_fixture.ts";

/** Only a hanging request takes this long, even on a busy machine. */
export const HANGS_MS = 60_000;
export const SHORT_MS = 500;

export interface Upstream extends AsyncDisposable {
  readonly url: string;
  readonly connections: () => number;
}

/** A server that sends any response, valid or not, without the checks of our server. */
export async function startUpstream(
  listener: RequestListener,
  options: ServerOptions = {},
): Promise<Upstream> {
  let connections = 0;
  const server = createServer({ ...serverIdentity, ...options }, listener);
  server.on("secureConnection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `https://127.0.0.1:${address.port}`,
    connections: () => connections,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A client of the test server that uses the certificate of `broker-1`. */
export function connect(baseUrl: string, options: Partial<JsonClientOptions> = {}): JsonClient {
  const defaults = { clock: systemClock, what: "the signer", timeoutMs: HANGS_MS };
  return new JsonClient({ ...defaults, baseUrl, ...broker, ca, ...options });
}

/** For `assert.rejects`: a failure of the server with this message, which must not contain an address. */
export const isUpstreamFailure = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, "upstream_failure");
  assert.match(error.message, message);
  assert.doesNotMatch(error.message, /127\.0\.0\.1|localhost/, "no address in the message");
  assert.match(describeFault(error), /asking 127\.0\.0\.1:\d+/, "the address is for the log");
  return true;
};
