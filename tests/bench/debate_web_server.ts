/**
 * One side of the comparison in `debate_web_bench.ts`, as a process of its own so that its CPU time can be told:
 * `app` streams events to subscribers as the debate's server does, `bare` writes the same bytes to as many sockets
 * in a loop. Arguments: which, how many subscribers, how many events, and how many of them come at a time, each time
 * 30 ms after the last. It prints its port, waits for all subscribers, and prints `done`.
 *
 * @module
 */
import { systemClock } from "@gateway/shared/clock";
import { EventLog } from "../../debate/runs/event_log.ts";
import { Subscribers } from "../../debate/web/subscribers.ts";

const TICK_MS = 30;

const [side = "", ...numbers] = Deno.args;
const [subscribers = 0, events = 0, together = 0] = numbers.map(Number);

function eventOf(number: number): string {
  const text = `piece ${number} of a text that a model writes, with some words in it to be long enough`;
  return JSON.stringify({
    type: "agent_reasoning",
    agent_node: "diagnostic_agent",
    agent_role: "Primary Diagnosis",
    content: text,
  });
}

async function emit(act: (number: number) => Promise<void> | void): Promise<void> {
  for (let number = 1; number <= events; number++) {
    await act(number);
    if (number % together === 0) await systemClock.sleep(TICK_MS);
  }
}

function say(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function serveApp(): Promise<void> {
  const log = new EventLog(systemClock);
  const stopping = new AbortController();
  const all = new Subscribers(systemClock, stopping.signal);
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: ({ port }) => say(String(port)) },
    ({ headers }) => all.follow(log, headers.get("last-event-id")),
  );
  while (all.size < subscribers) await systemClock.sleep(10);
  say("ready");
  await emit((number) => log.append({ type: "agent_reasoning", json: eventOf(number) }));
  log.end();
  stopping.abort();
  await server.shutdown();
}

async function serveBare(): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  say(String(listener.addr.port));
  const sockets: Deno.TcpConn[] = [];
  while (sockets.length < subscribers) {
    const socket = await listener.accept();
    // The head of the request, and an answer as long as nobody ends it.
    await socket.read(new Uint8Array(4096));
    await socket.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n"));
    sockets.push(socket);
  }
  say("ready");
  await emit(async (number) => {
    const bytes = new TextEncoder().encode(`id: ${number}\nevent: message\ndata: ${eventOf(number)}\n\n`);
    await Promise.all(sockets.map((socket) => writeAll(socket, bytes)));
  });
  for (const socket of sockets) socket.close();
  listener.close();
}

async function writeAll(socket: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) rest = rest.subarray(await socket.write(rest));
}

await (side === "app" ? serveApp() : serveBare());
say("done");
