import { poll } from "../stage/poll.ts";

export interface FakePost {
  readonly id: string;
  readonly user_id: string;
  readonly channel_id: string;
  readonly root_id: string;
  readonly message: string;
  readonly type: string;
  readonly props: Readonly<Record<string, unknown>>;
}

export const HOME = "homehomehomehomehomehomeho";
export const BOT = "botbotbotbotbotbotbotbotbo";
const TOKEN = "mattermost-secret";

export class FakeMattermost implements AsyncDisposable {
  readonly posts = new Map<string, FakePost>();
  readonly users = new Map<string, Readonly<Record<string, unknown>>>();
  readonly faults: (() => Response)[] = [];
  /** Authenticated sockets. */
  #sockets: WebSocket[] = [];
  #count = 0;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => this.#serve(request),
    );
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  get token(): string {
    return TOKEN;
  }

  get posted(): readonly FakePost[] {
    return [...this.posts.values()].filter(({ root_id }) => root_id === "");
  }

  get said(): readonly string[] {
    return [...this.posts.values()].filter(({ root_id, user_id }) => root_id !== "" && user_id === BOT)
      .map(({ message }) => message);
  }

  async connected(): Promise<void> {
    await poll(() => this.#sockets.some((each) => each.readyState === WebSocket.OPEN), {
      what: "the socket",
    });
  }

  cut(): void {
    for (const socket of this.#sockets) socket.close();
    this.#sockets = [];
  }

  answer(root: FakePost, message: string, changes: Partial<FakePost> = {}): void {
    const post = this.#store({
      user_id: "bobbobbobbobbobbobbobbobbo",
      channel_id: HOME,
      root_id: root.id,
      message,
      ...changes,
    });
    this.send(JSON.stringify({ event: "posted", data: { post: JSON.stringify(post) }, seq: 1 }));
  }

  send(text: string): void {
    this.#sockets.findLast((each) => each.readyState === WebSocket.OPEN)?.send(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await this.#server.shutdown();
  }

  #store(post: Partial<FakePost>): FakePost {
    const id = `post${String(++this.#count).padStart(22, "0")}`;
    const stored = {
      user_id: BOT,
      channel_id: HOME,
      root_id: "",
      message: "",
      type: "",
      props: {},
      ...post,
      id,
    };
    this.posts.set(id, stored);
    return stored;
  }

  async #serve(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname.slice("/api/v4".length);
    if (path === "/websocket") return this.#upgrade(request);
    if (request.headers.get("authorization") !== `Bearer ${TOKEN}`) return new Response("", { status: 401 });
    const body = request.method === "GET" ? {} : await request.json();
    const fault = this.faults.shift();
    if (fault !== undefined) return fault();
    const [, kind = "", id = ""] = path.split("/");
    if (kind === "users") {
      const user = id === "me" ? BOT : id;
      return Response.json({ id: user, delete_at: 0, ...this.users.get(user) });
    }
    if (kind === "channels" && id !== HOME) return new Response("", { status: 403 });
    if (kind === "channels") return Response.json({ posts: Object.fromEntries(this.posts) });
    if (request.method === "POST") return Response.json(this.#store(body), { status: 201 });
    const post = this.posts.get(id);
    if (post === undefined) return new Response("", { status: 404 });
    this.posts.set(id, { ...post, message: body.message });
    return Response.json(this.posts.get(id));
  }

  #upgrade(request: Request): Response {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onmessage = ({ data }) => {
      const { action, data: credentials } = JSON.parse(data);
      if (action !== "authentication_challenge") return;
      if (credentials.token !== TOKEN) return socket.close();
      this.#sockets.push(socket);
      socket.send(JSON.stringify({ event: "hello", data: {}, seq: 0 }));
    };
    return response;
  }
}
