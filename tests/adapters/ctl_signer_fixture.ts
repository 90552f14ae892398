/** A service with scripted responses, for tests of commands that query a service. */
import { join } from "node:path";
import type { PeerHandler } from "@gateway/shared/http";
import { createFolder, run } from "./ctl_fixture.ts";
import { ca, foreignCa, issue, startServer, type TestServer } from "./mtls_fixture.ts";

const operator = await issue({ subject: "CN=operator-local", usage: "client" });
const approver = await issue({ subject: "CN=approver-local", usage: "client" });
const agent = await issue({ subject: "CN=agent-local", usage: "client" });

/** A directory with the files of an operator and an approver, and a client config, `client.json`, that names the server. */
export async function createOperator(
  server: TestServer,
): Promise<{ readonly path: string } & AsyncDisposable> {
  const folder = await createFolder();
  const files = {
    "operator.crt": operator.cert,
    "operator.key": operator.key,
    "approver.crt": approver.cert,
    "approver.key": approver.key,
    "agent.crt": agent.cert,
    "agent.key": agent.key,
    "ca.crt": ca,
    "foreign.crt": foreignCa,
    "client.json": JSON.stringify({
      signer: { url: server.url, cert: "operator.crt", key: "operator.key", ca: "ca.crt" },
      control_plane: { url: server.url, cert: "approver.crt", key: "approver.key", ca: "ca.crt" },
    }),
  };
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(join(folder.path, name), text);
  return folder;
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  /** Undefined if the request had no body. */
  readonly body: unknown;
  readonly caller: string;
}

export class FakeService implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly #server: TestServer;
  readonly #folder: { readonly path: string } & AsyncDisposable;

  private constructor(
    server: TestServer,
    folder: { readonly path: string } & AsyncDisposable,
    requests: SeenRequest[],
  ) {
    this.#server = server;
    this.#folder = folder;
    this.requests = requests;
  }

  static async start(body: unknown, status = 200): Promise<FakeService> {
    const requests: SeenRequest[] = [];
    const handler: PeerHandler = async (request, { caller }) => {
      const text = await request.text();
      const { method, url } = request;
      const path = url.slice(new URL(url).origin.length);
      requests.push({ method, path, body: text === "" ? undefined : JSON.parse(text), caller });
      return Response.json(body, { status });
    };
    const server = await startServer(handler);
    return new FakeService(server, await createOperator(server), requests);
  }

  static refusing(status: number, detail: string, code = "internal"): Promise<FakeService> {
    return FakeService.start({ type: "about:blank", title: "", status, detail, code }, status);
  }

  /** Runs `broker-ctl` as the operator, or as the approver for requests to the control plane. */
  run(...args: string[]): Promise<{ readonly out: string; readonly err: string; readonly exit: number }> {
    return run(this.#folder.path, "--client-config", "client.json", ...args);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    await this.#folder[Symbol.asyncDispose]();
  }
}
