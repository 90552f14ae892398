/**
 * Proxies a signer or control plane for a broker, and can withhold an answer whose certificate was signed.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { parseJson } from "@gateway/shared/json";
import type { JsonService } from "@gateway/shared/http";
import { REQUEST_ID_HEADER } from "@gateway/shared/service";
import { freePort } from "../stage/free_port.ts";
import type { Stage } from "../stage/stage.ts";

export class AnswerKeeper implements AsyncDisposable {
  readonly port: number = freePort();
  readonly #identity: { readonly cert: string; readonly key: string };
  readonly #service: JsonService;
  #server: Server | undefined;
  /** Called with the next certificate, whose answer is withheld. */
  onCertificate: ((certificate: string, serial: string) => unknown) | undefined;

  private constructor(identity: { readonly cert: string; readonly key: string }, service: JsonService) {
    this.#identity = identity;
    this.#service = service;
  }

  /** @param service receives the requests in the broker's name */
  static async open({ init }: Stage, service: JsonService): Promise<AnswerKeeper> {
    const config = await Deno.readTextFile(init.signer_config);
    const [cert, key] = await Promise.all(["server_cert", "server_key"].map((name) => {
      const [, path = ""] = new RegExp(`"${name}": "([^"]+)"`).exec(config) ?? [];
      return Deno.readTextFile(path);
    }));
    const keeper = new AnswerKeeper({ cert: cert!, key: key! }, service);
    await keeper.listen();
    return keeper;
  }

  async listen(): Promise<void> {
    const server = createServer(this.#identity, (request, response) => this.#pass(request, response));
    await new Promise<void>((resolve) => server.listen(this.port, "127.0.0.1", resolve));
    this.#server = server;
  }

  /** Stops like a killed process. */
  async end(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  #pass(request: IncomingMessage, response: ServerResponse): void {
    let text = "";
    request.on("data", (bytes) => text += bytes);
    request.on("end", async () => {
      const id = request.headers[REQUEST_ID_HEADER];
      const reply = await this.#service.request({
        method: request.method === "POST" ? "POST" : "GET",
        path: request.url ?? "",
        headers: typeof id === "string" ? { [REQUEST_ID_HEADER]: id } : {},
        ...(text === "" ? {} : { body: parseJson(text) }),
      }).catch(() => undefined);
      if (reply === undefined) return void response.destroy();
      const { certificate, serial } = {
        ...reply.body as { readonly certificate?: string; readonly serial?: number | bigint } | undefined,
      };
      const keep = this.onCertificate;
      if (keep !== undefined && certificate !== undefined) return keep(certificate, String(serial));
      response.writeHead(reply.status, { "content-type": reply.headers["content-type"] ?? "text/plain" });
      response.end(reply.text);
    });
  }
}
