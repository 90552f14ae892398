// @ts-types="./ssh2_server.d.ts"
import ssh2, { type Connection, type ServerChannel, type Session } from "ssh2";
import { connect, type Socket } from "node:net";
import { userInfo } from "node:os";
import type { Duplex } from "node:stream";
import { type RunningCommand, startCommand } from "./embedded_command.ts";
import { decideLogin, type LoginDecision } from "./embedded_login.ts";
import { createHostKey } from "./host_key.ts";
import type { SshTarget, SshTargetOptions } from "./ssh_target.ts";

type Login = Extract<LoginDecision, { kind: "allowed" }>;

interface Running {
  readonly connections: Set<Connection>;
  readonly commands: Set<RunningCommand>;
}

/**
 * Starts an SSH server in this process, for machines without sshd. It checks certificates like sshd and runs
 * commands with `/bin/sh`. Unlike sshd, it runs everything as the user of this process and delivers signals
 * to forced commands.
 */
export async function createEmbeddedTarget(user: string, options: SshTargetOptions): Promise<SshTarget> {
  const hostKey = createHostKey();
  const running: Running = { connections: new Set(), commands: new Set() };
  const server = new ssh2.Server({ hostKeys: [hostKey.pem] }, (connection, { ip }) => {
    running.connections.add(connection);
    connection.on("error", () => {});
    connection.on("close", () => running.connections.delete(connection));
    serve(connection, ip, options, running);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("The SSH server has no port");
  return {
    kind: "embedded",
    port: address.port,
    hostKeyLine: hostKey.line,
    user,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const commands = [...running.commands];
      for (const command of commands) command.signal("KILL");
      for (const connection of running.connections) connection.end();
      await Promise.all([closed, ...commands.map((command) => command.ended)]);
    },
  };
}

function serve(connection: Connection, ip: string, options: SshTargetOptions, running: Running): void {
  let login: Login | undefined;
  connection.on("authentication", (context) => {
    if (context.method !== "publickey") return context.reject(["publickey"]);
    const decision = decideLogin({
      user: context.username,
      principals: Object.hasOwn(options.principals, context.username)
        ? options.principals[context.username] ?? []
        : [],
      algorithm: context.key.algo,
      certificate: context.key.data,
      signature: context.signature,
      signed: context.blob,
      caPublicKeyLine: options.caPublicKeyLine,
      remoteAddress: ip,
      nowSeconds: Date.now() / 1000,
    });
    if (decision.kind === "refused") return context.reject(["publickey"]);
    login = decision;
    context.accept();
  });
  connection.on("tcpip", (accept, reject, { destIP, destPort }) => {
    if (login?.forwarding !== true) return reject();
    forward(connection, connect({ host: destIP, port: destPort, noDelay: true }), accept, reject);
  });
  connection.on("session", (acceptSession) => {
    const session = acceptSession();
    session.on("eof", () => keepOpen(session));
    let pty = false;
    let command: RunningCommand | undefined;
    session.on("pty", (accept, reject) => {
      pty = login?.pty ?? false;
      // If the client wants no answer, ssh2 provides no functions for it.
      if (pty) accept?.();
      else reject?.();
    });
    const run = (accept: () => ServerChannel, asked: string) => {
      const channel = accept();
      channel.on("error", () => {});
      const started = startCommand(channel, {
        command: login?.forceCommand ?? asked,
        environment: { ...baseEnvironment(), SSH_ORIGINAL_COMMAND: asked },
        pty,
      });
      running.commands.add(started);
      started.ended.finally(() => running.commands.delete(started));
      command = started;
    };
    session.on("exec", (accept, _reject, info) => run(accept, info.command));
    session.on("shell", (accept, reject) => {
      if (login?.forceCommand === undefined) reject?.();
      else run(accept, "");
    });
    session.on("signal", (_accept, _reject, info) => command?.signal(info.name));
  });
}

/** Connects a channel and a socket. Each ends with the other, and both end with the connection. */
function forward(connection: Connection, socket: Socket, accept: () => Duplex, reject: () => void): void {
  socket.once("error", reject);
  socket.once("connect", () => {
    const channel = accept();
    channel.on("error", () => {});
    channel.on("close", () => socket.destroy());
    socket.on("error", () => channel.end());
    socket.on("close", () => channel.end());
    channel.pipe(socket).pipe(channel);
  });
  connection.on("close", () => socket.destroy());
}

/** ssh2's server ignores requests after the end of the client's input, but signals arrive later. */
export function keepOpen(session: Session): void {
  Reflect.set(session, "_ending", false);
}

function baseEnvironment(): Record<string, string> {
  const { username, homedir } = userInfo();
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    HOME: homedir,
    USER: username,
    LOGNAME: username,
  };
}
