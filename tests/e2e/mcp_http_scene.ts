import {
  Client,
  ClientCredentialsProvider,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { freePort } from "../stage/free_port.ts";
import { brokerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { editConfig, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { BrokerScene } from "./broker_scene.ts";
import { type Agent, OpenIdServer, SCOPE } from "./open_id_server.ts";

export const AGENTS = [
  { id: "agent-1", secret: "secret-of-agent-1" },
  { id: "agent-2", secret: "secret-of-agent-2" },
] as const satisfies readonly Agent[];

export interface RawRequest {
  readonly method: string;
  readonly token: string;
  readonly session?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** A broker that serves MCP over HTTP under its own permissions, and its OpenID provider. */
export class McpHttpScene implements AsyncDisposable {
  readonly scene: BrokerScene;
  readonly provider: OpenIdServer;
  readonly broker: ServiceProcess;
  readonly groups: string[];
  readonly url: string;
  readonly #http: Deno.HttpClient;

  private constructor(parts: Pick<McpHttpScene, "scene" | "provider" | "broker" | "groups" | "url">) {
    this.scene = parts.scene;
    this.provider = parts.provider;
    this.broker = parts.broker;
    this.groups = parts.groups;
    this.url = parts.url;
    this.#http = Deno.createHttpClient({ caCerts: [parts.scene.pki.certPem] });
  }

  static async create(): Promise<McpHttpScene> {
    await using resources = new AsyncDisposableStack();
    const groups = ["web"];
    const provider = resources.use(await OpenIdServer.start({ agents: AGENTS, groups }));
    const scene = resources.use(await BrokerScene.create());
    const url = `https://${scene.listen}/mcp`;
    const config = JSON.parse(await Deno.readTextFile(scene.configPath));
    await Deno.writeTextFile(
      scene.configPath,
      JSON.stringify({
        ...config,
        client_ca: "",
        resource_url: url,
        oauth: {
          issuer: provider.issuer,
          audience: url,
          required_scopes: [SCOPE],
          groups_claim: "groups",
          max_token_age_seconds: 600,
        },
      }),
    );
    const broker = await ServiceProcess.start(await brokerCommand(scene.configPath, "serve-mcp-http"));
    resources.move();
    return new McpHttpScene({ scene, provider, broker, groups, url });
  }

  /** The `fetch` of a client that trusts the broker's certificate. */
  readonly fetch = (url: string | URL, init?: RequestInit): Promise<Response> =>
    fetch(url, { ...init, client: this.#http });

  /** The transport of an official client, which discovers the provider by itself. */
  transport(authProvider: OAuthClientProvider): StreamableHTTPClientTransport {
    return new StreamableHTTPClientTransport(new URL(this.url), { authProvider, fetch: this.fetch });
  }

  async connect({ id, secret }: Agent): Promise<Client> {
    const client = new Client({ name: "test", version: "1" });
    const credentials = { clientId: id, clientSecret: secret, scope: SCOPE };
    const auth = new ClientCredentialsProvider({ ...credentials, expectedIssuer: this.provider.issuer });
    await client.connect(this.transport(auth));
    return client;
  }

  send({ method, token, session, body, headers, signal }: RawRequest): Promise<Response> {
    return this.fetch(this.url, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json, text/event-stream",
        ...(session === undefined ? {} : { "mcp-session-id": session }),
        ...(method === "POST" ? { "content-type": "application/json" } : {}),
        ...headers,
      },
      ...(method === "POST" ? { body: JSON.stringify(body ?? {}) } : {}),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async openSession(token: string): Promise<string> {
    const clientInfo = { name: "test", version: "1" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    const body = { jsonrpc: "2.0", id: 0, method: "initialize", params };
    const response = await this.send({ method: "POST", token, body });
    await response.text();
    return response.headers.get("mcp-session-id") ?? "";
  }

  /** A token as a program gets it, by default for this frontend. */
  async token({ id, secret }: Agent, { resource = this.url, scope = SCOPE } = {}): Promise<string> {
    const response = await fetch(`${this.provider.issuer}/token`, {
      method: "POST",
      headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
      body: new URLSearchParams({ grant_type: "client_credentials", scope, resource }),
    });
    return (await response.json()).access_token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.close();
    await this.broker[Symbol.asyncDispose]();
    await this.scene[Symbol.asyncDispose]();
    await this.provider[Symbol.asyncDispose]();
  }
}

/** Runs a test on a real signer that verifies end users, a broker with OAuth, and a real sshd. */
export async function withVerifiedAgent(
  test: (parts: {
    readonly stage: Stage;
    readonly provider: OpenIdServer;
    readonly url: string;
    readonly agent: Agent;
  }) => Promise<void>,
): Promise<void> {
  const [agent] = AGENTS;
  await using provider = await OpenIdServer.start({ agents: [agent], groups: ["local"] });
  const listen = `127.0.0.1:${freePort()}`;
  const url = `https://${listen}/mcp`;
  const oidc = { issuer: provider.issuer, audience: url, required_scopes: [SCOPE], groups_claim: "groups" };
  const gated = { allowed_groups: ["local"], require_verified_end_user: true };
  const signer = [
    { path: ["command_policies", "starter"], value: { mode: "off" } },
    { path: ["callers", "broker-local"], value: gated },
    { path: ["end_user_oidc"], value: oidc },
  ];
  await withStage({ signer }, async (stage) => {
    await stage.startSigner();
    await editConfig(stage.init.broker_config, [
      { path: ["listen"], value: listen },
      { path: ["resource_url"], value: url },
      { path: ["oauth"], value: oidc },
    ]);
    await stage.start(await brokerCommand(stage.init.broker_config, "serve-mcp-http"));
    await test({ stage, provider, url, agent });
  });
}
