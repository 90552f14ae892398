import { dirname } from "node:path";
import { endOfTurn } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere, mayOthersWrite } from "@gateway/shared/files";
import type { ServiceLogger } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import { type BrokerSocket, privateSocketPath } from "../config/config.ts";
import type { ToolsetPorts } from "../tools/toolset.ts";
import type { McpStdioOptions, serveMcpStdio } from "./mcp_stdio.ts";

const MAX_CONNECTIONS = 16;
/** The largest message, as over HTTP: the content of a file transfer fits. */
const MAX_MESSAGE_BYTES = 1 << 20;
/** Limit of unanswered requests per socket. Higher than that of calls, so that cancellations are still read. */
const MAX_OPEN_REQUESTS = 40;
/** The pause at the limit of requests and after a failed accept, in milliseconds. */
const PAUSE_MS = 50;

type McpStdio = ReturnType<typeof serveMcpStdio>;
type SocketPorts = Pick<McpStdioOptions, "clock" | "random"> & { readonly logger: ServiceLogger };
/** Serves a connection. Awaits `turn` before each message, with its length in characters. */
type Serve = (
  connection: Deno.UnixConn,
  turn: (length: number) => Promise<void>,
  onProtocolError: (error: Error) => void,
) => McpStdio;

/** Serves MCP on all of these sockets. It loads the libraries for MCP only if there are sockets. */
export async function openMcpSockets(
  sockets: readonly BrokerSocket[],
  broker: ToolsetPorts,
  ports: SocketPorts,
): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  if (sockets.length > 0) {
    const [{ serveMcpStdio }, { mcpOptions }, { UserBudget }] = await Promise.all([
      import("./mcp_stdio.ts"),
      import("./mcp_server.ts"),
      import("./user_budget.ts"),
    ]);
    const shared = { ...ports, ...mcpOptions(broker, ports.logger), askInChat: false };
    const budget = new UserBudget();
    for (const socket of sockets) {
      const { caller } = socket;
      const serve: Serve = ({ readable: input, writable: output }, turn, onProtocolError) => {
        const bounds = { maxLineBytes: MAX_MESSAGE_BYTES, turn, budget };
        return serveMcpStdio({ ...shared, input, output, caller, bounds, onProtocolError });
      };
      opened.use(serveSocket(await listenOn(socket), socket, ports, serve));
    }
  }
  return opened.move();
}

function serveSocket(
  listener: Deno.UnixListener,
  { path, caller }: BrokerSocket,
  { clock, logger }: SocketPorts,
  serve: Serve,
): AsyncDisposable {
  const connections = new Set<McpStdio>();
  const hasRoom = () =>
    [...connections].reduce((sum, { openRequests }) => sum + openRequests, 0) < MAX_OPEN_REQUESTS;
  // One message per caller and turn of the event loop, regardless of its connections. Before a long message, other
  // callers get about the time that parsing takes: 1 MiB of nested lists takes 100 ms.
  let last = Promise.resolve();
  const turn = (length: number) =>
    last = last.then(async () => {
      await (length < 8192 ? endOfTurn() : clock.sleep(length >> 13));
      while (!hasRoom()) await clock.sleep(PAUSE_MS);
    });
  const handle = async (connection: Deno.UnixConn) => {
    using _connection = connection;
    if (connections.size >= MAX_CONNECTIONS) return;
    let isLogged = false;
    const mcp = serve(connection, turn, ({ message }) => {
      // Once per connection: a client that sends only garbage would fill the log.
      if (!isLogged) logger.warn("MCP message rejected", { caller, error: message });
      isLogged = true;
    });
    connections.add(mcp);
    await mcp.ended.finally(() => connections.delete(mcp));
    await mcp.close();
  };
  const handling = new Set<Promise<unknown>>();
  let closed = false;
  const accepting = (async () => {
    while (!closed) {
      try {
        const handled = handle(await listener.accept())
          .catch((error) => logger.warn("MCP connection failed", { caller, error }))
          .finally(() => handling.delete(handled));
        handling.add(handled);
        // An account that only opens connections must not occupy the event loop.
        await endOfTurn();
      } catch (error) {
        if (closed) return;
        logger.warn("Cannot accept MCP connection", { caller, error });
        await clock.sleep(PAUSE_MS);
      }
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      closed = true;
      listener.close();
      await accepting;
      await Promise.all([...connections].map((mcp) => mcp.close()));
      await Promise.all(handling);
      await ifThere(Deno.remove(path));
    },
  };
}

async function listenOn({ path, mode }: BrokerSocket): Promise<Deno.UnixListener> {
  const reject = (reason: string, cause?: unknown) =>
    new AppError("invalid_config", `Cannot listen on socket ${quoteText(path)}: ${reason}`, { cause });
  const directory = dirname(path);
  const aside = privateSocketPath(path);
  try {
    if (await ifThere(Deno.stat(directory)) === undefined) await Deno.mkdir(directory, { mode: 0o700 });
    if (mayOthersWrite(await Deno.stat(directory))) {
      throw reject(`other users can write to its directory; chmod go-w ${directory}`);
    }
    const found = await ifThere(Deno.lstat(path));
    if (found !== undefined && !found.isSocket) throw reject("a file that is not a socket exists");
    if (found !== undefined && await isServed(path)) throw reject("another process serves it");
    await ifThere(Deno.remove(aside.directory, { recursive: true }));
    // Until chmod, the socket has the mode of the umask. The private directory protects it meanwhile.
    await Deno.mkdir(aside.directory, { mode: 0o700 });
    const listener = Deno.listen({ transport: "unix", path: aside.socket });
    try {
      await Deno.chmod(aside.socket, parseInt(mode, 8));
      await Deno.rename(aside.socket, path);
      await Deno.remove(aside.directory);
    } catch (error) {
      listener.close();
      throw error;
    }
    return listener;
  } catch (error) {
    throw error instanceof AppError ? error : reject(errorText(error), error);
  }
}

/** Whether a process accepts connections there. `kill -9` leaves a socket that no process serves. */
async function isServed(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
}
