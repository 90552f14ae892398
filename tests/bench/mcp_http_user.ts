import { type Agent, SCOPE } from "../e2e/open_id_server.ts";

/** Where a user connects to, and as whom. */
export interface McpHttpUserOptions {
  readonly url: string;
  readonly issuer: string;
  readonly agent: Agent;
  readonly http: Deno.HttpClient;
}

/** A client of one end user in a session of MCP over HTTP: no more than what it takes to call tools. */
export class McpHttpUser {
  readonly #options: McpHttpUserOptions;
  readonly #token: string;
  #session: string | undefined;
  #id = 0;

  private constructor(options: McpHttpUserOptions, token: string) {
    this.#options = options;
    this.#token = token;
  }

  /** Gets a token and opens a session. */
  static async connect(options: McpHttpUserOptions): Promise<McpHttpUser> {
    const { url, issuer, agent: { id, secret } } = options;
    const response = await fetch(`${issuer}/token`, {
      method: "POST",
      headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
      body: new URLSearchParams({ grant_type: "client_credentials", scope: SCOPE, resource: url }),
    });
    const user = new McpHttpUser(options, (await response.json()).access_token);
    await user.#open();
    return user;
  }

  /**
   * Calls a tool.
   *
   * @returns its structured result
   * @throws {Error} with the tool's text when it fails
   */
  async call(name: string, args: object): Promise<Readonly<Record<string, unknown>>> {
    const { text } = await this.#post(this.#request("tools/call", { name, arguments: args }));
    // The event before it only gives an id.
    const answer = text.split("\n").findLast((line) => line.startsWith("data: {"))?.slice("data: ".length) ??
      "{}";
    const { result, error } = JSON.parse(answer);
    if (result === undefined || result.isError === true) {
      throw new Error(`${name}: ${result?.content[0].text ?? error?.message ?? text}`);
    }
    return result.structuredContent;
  }

  async #open(): Promise<void> {
    const { response } = await this.#post(this.#request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "bench", version: "1" },
    }));
    this.#session = response.headers.get("mcp-session-id") ?? undefined;
    await this.#post({ jsonrpc: "2.0", method: "notifications/initialized" });
  }

  #request(method: string, params: object): object {
    this.#id += 1;
    return { jsonrpc: "2.0", id: this.#id, method, params };
  }

  async #post(message: object): Promise<{ readonly response: Response; readonly text: string }> {
    const { url, http } = this.#options;
    const response = await fetch(url, {
      client: http,
      method: "POST",
      headers: {
        authorization: `Bearer ${this.#token}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...(this.#session === undefined ? {} : { "mcp-session-id": this.#session }),
      },
      body: JSON.stringify(message),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`The broker answered ${response.status}: ${text}`);
    return { response, text };
  }
}
