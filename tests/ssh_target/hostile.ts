// @ts-types="./ssh2_server.d.ts"
import ssh2, { type Connection, type ServerChannel } from "ssh2";
import { systemClock } from "@gateway/shared/clock";
import type { HopLogins } from "../../broker/ssh/connect.ts";
import { createEphemeralKey, type EphemeralKey } from "../../broker/ssh/login.ts";
import type { SshLimits } from "../../broker/ssh/failures.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { createTestCa } from "./certificates.ts";
import { PATIENT_LIMITS } from "./patient_limits.ts";
import { createHostKey, type HostKey } from "./host_key.ts";
import { type Printed, printedBy } from "./printed.ts";

export interface HostileRequest {
  readonly port: number;
  readonly hostKeyLine: string;
  readonly limits?: Partial<SshLimits>;
  readonly signal?: AbortSignal;
  /** Replaces the signing key in the certificate by this key. */
  readonly certifiedKey?: EphemeralKey;
}

/** Runs `true` with a certificate that the servers of this file do not check. */
export async function runOn(request: HostileRequest): Promise<Printed> {
  const { limits, signal } = request;
  return printedBy(
    await runCommand({
      clock: systemClock,
      hops: await hopsTo(request),
      command: "true",
      pty: false,
      limits: { ...PATIENT_LIMITS, ...limits },
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}

/** The route to a server of this file. */
export async function hopsTo({ port, hostKeyLine, certifiedKey }: HostileRequest): Promise<HopLogins> {
  const key = createEphemeralKey();
  return [{
    name: "hostile",
    addr: `127.0.0.1:${port}`,
    hostKey: hostKeyLine,
    user: "root",
    certificate: await createTestCa().certify((certifiedKey ?? key).publicKeyLine),
    key,
  }];
}

export async function withTcpServer(
  onConnection: (connection: Deno.TcpConn) => Promise<void>,
  test: (port: number) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      connections.push(onConnection(connection).catch(() => {}).finally(() => closeQuietly(connection)));
    }
  })();
  try {
    await test(listener.addr.port);
  } finally {
    listener.close();
    await accepting;
    await Promise.all(connections);
  }
}

/** Reads until the other side closes. */
export async function readToEnd(connection: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(4096);
  while (await connection.read(buffer) !== null);
}

/** Runs a test with an SSH server that accepts every login and calls a handler for each connection. */
export async function withSshServer(
  onConnection: (connection: Connection) => void,
  test: (server: { readonly port: number; readonly hostKeyLine: string }) => Promise<void>,
  hostKey: HostKey = createHostKey(),
): Promise<void> {
  const sockets = new Set<Connection>();
  const server = new ssh2.Server({ hostKeys: [hostKey.pem] }, (connection) => {
    sockets.add(connection);
    connection.on("error", () => {});
    connection.on("close", () => sockets.delete(connection));
    connection.on("authentication", (context) => context.accept());
    onConnection(connection);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("The SSH server has no port");
  try {
    await test({ port: address.port, hostKeyLine: hostKey.line });
  } finally {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const connection of sockets) connection.end();
    await closed;
  }
}

/** Accepts the command of a connection and passes its channel on. */
export function onExec(
  act: (channel: ServerChannel, connection: Connection) => void,
): (connection: Connection) => void {
  return (connection) => {
    connection.on("session", (accept) => {
      accept().on("exec", (acceptCommand) => act(acceptCommand(), connection));
    });
  };
}

function closeQuietly(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // The test has already closed it.
  }
}
