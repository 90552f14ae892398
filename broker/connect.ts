import { writeAll, writeAllSync } from "@gateway/shared/text";
import { errorText } from "@gateway/shared/errors";

/**
 * Relays the standard streams to a broker's socket, and gives the exit code. It reads no config and no key: who may
 * connect is decided by the mode of the socket.
 */
export async function connect(path: string): Promise<number> {
  const say = (text: string) => writeAllSync(Deno.stderr, `gateway: ${text}\n`);
  let connection: Deno.UnixConn;
  try {
    connection = await Deno.connect({ transport: "unix", path });
  } catch (error) {
    say(`cannot connect to ${JSON.stringify(path)}: ${errorText(error)}`);
    say("fix: start the broker (serve-http), and check that this account may write to the socket");
    return 1;
  }
  let clientEnded = false;
  const sending = (async () => {
    for await (const chunk of Deno.stdin.readable) await writeAll(connection, chunk);
    clientEnded = true;
    await connection.closeWrite();
  })();
  // The read below detects that the broker has exited.
  sending.catch(() => {});
  try {
    for await (const chunk of connection.readable) await writeAll(Deno.stdout, chunk);
  } catch (error) {
    say(`connection to ${JSON.stringify(path)} failed: ${errorText(error)}`);
    return 1;
  }
  if (clientEnded) return 0;
  say(`the broker closed the connection to ${JSON.stringify(path)}`);
  return 1;
}

if (import.meta.main) Deno.exit(await connect(Deno.args[0] ?? ""));
