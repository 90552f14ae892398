import { poll } from "../stage/poll.ts";

export interface FakeMessage {
  readonly ts: string;
  readonly thread: string;
  readonly text: string;
  readonly blocks: readonly FakeBlock[];
}

interface FakeBlock {
  readonly type: string;
  readonly text?: { readonly type: string; readonly text: string };
  readonly elements?: readonly FakeElement[];
}

export interface FakeElement {
  readonly action_id: string;
  readonly value?: string;
  readonly options?: readonly { readonly value: string }[];
}

/** A single faulty response of Slack. */
export type Fault = () => Response | Promise<Response>;

export const TEAM = "T0TEAM";
export const CHANNEL = "C0CHANNEL";

/** Slack for the bridge: the Web API and Socket Mode, over real HTTP and WebSockets. */
export class FakeSlack implements AsyncDisposable {
  readonly messages = new Map<string, FakeMessage>();
  readonly acknowledged: string[] = [];
  readonly calls: string[] = [];
  /** The next responses of each method, first in first out. */
  readonly faults = new Map<string, Fault[]>();
  readonly users = new Map<string, Readonly<Record<string, unknown>>>();
  lastForm = new URLSearchParams();
  #sockets: WebSocket[] = [];
  #count = 0;
  readonly #closed = Promise.withResolvers<void>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => this.#serve(request),
    );
  }

  get apiUrl(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/api/`;
  }

  /** The messages in the channel, outside threads. */
  get posted(): readonly FakeMessage[] {
    return [...this.messages.values()].filter(({ thread }) => thread === "");
  }

  get said(): readonly string[] {
    return [...this.messages.values()].filter(({ thread }) => thread !== "").map(textOf);
  }

  fail(method: string, ...faults: readonly Fault[]): void {
    this.faults.set(method, [...this.faults.get(method) ?? [], ...faults]);
  }

  async connected(): Promise<void> {
    await poll(() => this.#sockets.some((each) => each.readyState === WebSocket.OPEN), {
      what: "the socket",
    });
  }

  send(payload: unknown, envelope: string = crypto.randomUUID(), type = "interactive"): string {
    this.sendText(JSON.stringify({ envelope_id: envelope, type, accepts_response_payload: false, payload }));
    return envelope;
  }

  sendText(text: string): void {
    this.#sockets.findLast((each) => each.readyState === WebSocket.OPEN)?.send(text);
  }

  cut(): void {
    for (const socket of this.#sockets) socket.close();
    this.#sockets = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    // The server waits for responses that a failed test left pending.
    this.#closed.resolve();
    await this.#server.shutdown();
  }

  async #serve(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/socket") return this.#upgrade(request);
    const method = pathname.slice("/api/".length);
    const form = new URLSearchParams(await request.text());
    this.calls.push(method);
    this.lastForm = form;
    const fault = this.faults.get(method)?.shift();
    if (fault !== undefined) return await Promise.race([fault(), this.#closed.promise.then(unavailable)]);
    const token = method === "apps.connections.open" ? "xapp-secret" : "xoxb-secret";
    if (request.headers.get("authorization") !== `Bearer ${token}`) {
      return Response.json({ ok: false, error: "not_allowed_token_type" });
    }
    return Response.json(this.answer(method, form));
  }

  answer(method: string, form: URLSearchParams): unknown {
    const ts = form.get("ts") ?? `1700000000.${String(++this.#count).padStart(6, "0")}`;
    const parse = (name: string, fallback: unknown) => JSON.parse(form.get(name) ?? JSON.stringify(fallback));
    switch (method) {
      case "auth.test":
        return { ok: true, team_id: TEAM, user_id: "U0BRIDGE", bot_id: "B0BRIDGE" };
      case "apps.connections.open":
        return { ok: true, url: `ws://127.0.0.1:${this.#server.addr.port}/socket?ticket=secret-ticket` };
      case "users.info":
        return { ok: true, user: { team_id: TEAM, ...this.users.get(form.get("user") ?? "") } };
      case "conversations.history":
        return { ok: true, messages: this.posted.map((each) => ({ ...each, bot_id: "B0BRIDGE" })) };
      case "chat.update":
        if (!this.messages.has(ts)) return { ok: false, error: "message_not_found" };
        this.messages.set(ts, {
          ...this.messages.get(ts)!,
          text: form.get("text")!,
          blocks: parse("blocks", []),
        });
        return { ok: true, ts };
      case "chat.postMessage":
        this.messages.set(ts, {
          ts,
          thread: form.get("thread_ts") ?? "",
          text: form.get("text") ?? "",
          blocks: parse("blocks", []),
        });
        return { ok: true, ts, channel: CHANNEL };
      default:
        return { ok: false, error: "unknown_method" };
    }
  }

  #upgrade(request: Request): Response {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onopen = () => {
      this.#sockets.push(socket);
      socket.send(JSON.stringify({ type: "hello", num_connections: 1 }));
    };
    socket.onmessage = ({ data }) => this.acknowledged.push(JSON.parse(data).envelope_id);
    return response;
  }
}

function unavailable(): Response {
  return new Response("", { status: 503 });
}

export function textOf({ blocks }: FakeMessage): string {
  return blocks.map(({ text }) => text?.text ?? "").filter((text) => text !== "").join("\n");
}

/** The buttons of a message. */
export function elementsOf({ blocks }: FakeMessage): readonly FakeElement[] {
  return blocks.find(({ type }) => type === "actions")?.elements ?? [];
}

export function clickOn(
  message: FakeMessage,
  action: "approve" | "deny" | "learn",
  user = "U0BOB",
): Readonly<Record<string, unknown>> {
  const element = elementsOf(message).find(({ action_id }) => action_id === `gateway_${action}`);
  return {
    type: "block_actions",
    api_app_id: "A0APP",
    team: { id: TEAM, domain: "example" },
    user: { id: user, username: "someone", team_id: TEAM },
    trigger_id: "1.2.3",
    container: { type: "message", message_ts: message.ts, channel_id: CHANNEL, is_ephemeral: false },
    channel: { id: CHANNEL, name: "approvals" },
    actions: [{
      type: element?.options === undefined ? "button" : "static_select",
      action_id: `gateway_${action}`,
      action_ts: `${performance.now()}`,
      value: element?.value,
      selected_option: element?.options?.[0],
    }],
  };
}
