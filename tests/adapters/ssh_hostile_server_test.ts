import assert from "node:assert/strict";
import { connect } from "node:net";
// @ts-types="../ssh_target/ssh2_server.d.ts"
import type { Connection } from "ssh2";
import { systemClock } from "@gateway/shared/clock";
import { connectRoute } from "../../broker/ssh/connect.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { failureClassOf } from "../../broker/ssh/failures.ts";
import { runOn as runOnOpen } from "../../broker/ssh/run_command.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { keepOpen } from "../ssh_target/embedded.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { hopsTo, onExec, readToEnd, runOn, withSshServer, withTcpServer } from "../ssh_target/hostile.ts";

const { line: hostKeyLine } = createHostKey();
const encoder = new TextEncoder();

const failure = (message: string) => ({ code: "upstream_failure", message });
const PIN = failure('connection: host key for "hostile": parsing host key failed');

Deno.test("runCommand() times out on a host that accepts TCP and sends no data (R7)", () =>
  withTcpServer(readToEnd, async (port) => {
    await assert.rejects(
      runOn({ port, hostKeyLine, limits: { handshakeMs: 50 } }),
      failure("connection: SSH handshake timeout"),
    );
  }));

Deno.test("runCommand() can be canceled during the handshake", () => {
  const controller = new AbortController();
  return withTcpServer(async (connection) => {
    await connection.read(new Uint8Array(1));
    controller.abort();
    await readToEnd(connection);
  }, async (port) => {
    await assert.rejects(runOn({ port, hostKeyLine, signal: controller.signal }), {
      code: "canceled",
      message: "connection: canceled",
    });
  });
});

Deno.test.each([
  { name: "closes at once", sends: "" },
  { name: "has too many connections (sshd's MaxStartups)", sends: "Exceeded MaxStartups\r\n" },
  { name: "closes after its identification", sends: "SSH-2.0-OpenSSH_9.2\r\n" },
  { name: "closes in mid-packet", sends: "SSH-2.0-OpenSSH_9.2\r\n\0\0\x01\x04" },
])("runCommand() reports a host that $name", ({ sends }) =>
  withTcpServer(async (connection) => {
    await connection.read(new Uint8Array(4096));
    await connection.write(encoder.encode(sends));
  }, async (port) => {
    await assert.rejects(runOn({ port, hostKeyLine }), (error: Error & { code: string }) => {
      assert.equal(error.code, "upstream_failure");
      assert.match(
        error.message,
        /^connection: the host closed the connection in the SSH handshake.* MaxStartups.* Retry in a few seconds/,
      );
      assert.match(failureClassOf(error) ?? "", /MaxStartups/);
      return true;
    });
  }));

Deno.test.each([
  { name: "speaks HTTP", sends: "HTTP/1.1 400 Bad Request\r\n\r\n".repeat(2000) },
  { name: "speaks SSH 1", sends: "SSH-1.5-old\r\n" },
  { name: "sends an enormous packet length", sends: "SSH-2.0-x\r\n\x7f\x7f\x7f\x7f" + "a".repeat(100) },
])("runCommand() reports a host that $name", ({ sends }) =>
  withTcpServer(async (connection) => {
    await connection.write(encoder.encode(sends));
    await readToEnd(connection);
  }, async (port) => {
    await assert.rejects(
      runOn({ port, hostKeyLine }),
      failure("connection: SSH handshake failed"),
    );
  }));

Deno.test("runCommand() reports a refused connection without the address (I19)", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  await assert.rejects(runOn({ port, hostKeyLine }), (error: Error) => {
    assert.equal(error.message, "connection: connection refused");
    assert.match(String(error.cause), new RegExp(`127\\.0\\.0\\.1:${port}`));
    return true;
  });
});

/** A port whose connection queue is full, so that connects neither succeed nor fail. */
async function withFullQueue(test: (port: number) => Promise<void>): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0, tcpBacklog: 1 });
  const sockets = Array.from({ length: 8 }, () => connect({ host: "127.0.0.1", port: listener.addr.port }));
  const closed = sockets.map((socket) =>
    new Promise((resolve) => socket.on("error", () => {}).on("close", resolve))
  );
  // The first established connection shows that the others are queued or wait for a place in the queue.
  await Promise.race(sockets.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
  try {
    await test(listener.addr.port);
  } finally {
    for (const socket of sockets) socket.destroy();
    listener.close();
    await Promise.all(closed);
  }
}

Deno.test("runCommand() times out if the host does not accept the connection", () =>
  withFullQueue(async (port) => {
    await assert.rejects(runOn({ port, hostKeyLine, limits: { connectMs: 50 } }), (error: Error) => {
      assert.equal(error.message, "connection: connect timeout");
      assert.match(String(error.cause), new RegExp(`connecting to 127\\.0\\.0\\.1:${port}$`));
      return true;
    });
  }));

Deno.test("runCommand() can be canceled while it connects", () =>
  withFullQueue(async (port) => {
    const signal = AbortSignal.timeout(50);
    await assert.rejects(runOn({ port, hostKeyLine, signal }), {
      code: "canceled",
      message: "connection: canceled",
    });
  }));

Deno.test("runCommand() rejects a host that skips authentication", () =>
  withSshServer((connection) => {
    connection.on("handshake", () => {
      const protocol = Object(Reflect.get(connection, "_protocol"));
      protocol._authsQueue.push("none");
      protocol.authSuccess();
    });
  }, async ({ port, hostKeyLine }) => {
    await assert.rejects(
      runOn({ port, hostKeyLine }),
      failure("connection: the host skipped authentication"),
    );
  }));

Deno.test("runCommand() reports a host that rejects the channel", () =>
  withSshServer(() => {}, async ({ port, hostKeyLine }) => {
    // ssh2 rejects a channel without a listener.
    await assert.rejects(runOn({ port, hostKeyLine }), failure("execution: the host refused the command"));
  }));

const openSessionOnly = (connection: Connection) => {
  connection.on("session", (accept) => {
    accept().on("exec", () => {});
  });
};

Deno.test("runCommand() times out on a host that never starts the command", () =>
  withSshServer(openSessionOnly, async ({ port, hostKeyLine }) => {
    await assert.rejects(
      runOn({ port, hostKeyLine, limits: { channelMs: 50, killGraceMs: 50 } }),
      failure("execution: channel open timeout (limit: 50ms)"),
    );
  }));

Deno.test("runCommand() ends a command that the host starts after the cancellation", async () => {
  const controller = new AbortController();
  const signals: string[] = [];
  await withSshServer((connection) => {
    connection.on("session", (accept) => {
      const session = accept();
      session.on("eof", () => keepOpen(session));
      session.on("exec", (acceptCommand) => {
        controller.signal.addEventListener("abort", () => {
          const channel = acceptCommand();
          session.on("signal", (_accept, _reject, { name }) => {
            signals.push(name);
            if (name !== "KILL") return;
            channel.exit("KILL", false, "");
            channel.end();
          });
        });
        controller.abort();
      });
    });
  }, async ({ port, hostKeyLine }) => {
    const running = runOn({ port, hostKeyLine, signal: controller.signal, limits: { killGraceMs: 100 } });
    await assert.rejects(running, { code: "canceled", message: "execution: canceled" });
  });
  assert.deepEqual(signals, ["TERM", "KILL"]);
});

Deno.test("runOn() ends a command that the host starts after the timeout", () => {
  const begin = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  return withSshServer((connection) => {
    connection.on("session", (accept) => {
      accept().on("exec", (acceptCommand) => {
        begin.promise.then(() => acceptCommand().on("close", () => ended.resolve()).resume());
      });
    });
  }, async (server) => {
    const clock = systemClock;
    const limits = { ...PATIENT_LIMITS, channelMs: 20, killGraceMs: 20 };
    const connection = await connectRoute(await hopsTo(server), { clock, limits });
    try {
      await assert.rejects(
        runOnOpen(connection, { clock, command: "true", pty: false, limits }),
        failure("execution: channel open timeout (limit: 20ms)"),
      );
      begin.resolve();
      await ended.promise;
      assert.equal(connection.lost.aborted, false);
    } finally {
      await connection.close();
    }
  });
});

Deno.test("runCommand() treats a channel closed without status as an error (K21)", () =>
  withSshServer(onExec((channel) => channel.end("some output")), async ({ port, hostKeyLine }) => {
    await assert.rejects(
      runOn({ port, hostKeyLine }),
      failure("execution: remote command exited without exit status or exit signal"),
    );
  }));

Deno.test("runCommand() rejects partial output if the connection is lost", () =>
  withSshServer(
    onExec((channel, connection) => {
      channel.write("half");
      channel.exit(0);
      connection.end();
    }),
    async ({ port, hostKeyLine }) => {
      await assert.rejects(
        runOn({ port, hostKeyLine }),
        failure("execution: connection lost: remote command exited without exit status or exit signal"),
      );
    },
  ));

Deno.test("runCommand() succeeds if the host resets the connection after the command", async () => {
  const ends: Promise<unknown>[] = [];
  await withSshServer((connection) => {
    onExec((channel) => {
      channel.exit(0);
      channel.end();
    })(connection);
    ends.push(new Promise<void>((resolve) => connection.on("close", () => resolve())));
    connection.on("end", () => {
      const socket: unknown = Reflect.get(connection, "_sock");
      if (typeof socket === "object" && socket !== null) Reflect.get(socket, "resetAndDestroy")?.call(socket);
    });
  }, async ({ port, hostKeyLine }) => {
    assert.equal((await runOn({ port, hostKeyLine })).exitCode, 0);
    await Promise.all(ends);
  });
});

Deno.test.each([
  { name: "the pinned key is empty", request: { hostKeyLine: "" }, error: PIN },
  { name: "the pinned key is broken", request: { hostKeyLine: "ssh-ed25519 AAAA" }, error: PIN },
  {
    name: "the certificate is for another key",
    request: { certifiedKey: createEphemeralKey() },
    error: failure("connection: certificate is not usable"),
  },
  {
    name: "the signal is already aborted",
    request: { signal: AbortSignal.abort() },
    error: { code: "canceled", message: "connection: canceled" },
  },
])("runCommand() does not connect if $name", ({ request, error }) => {
  let connections = 0;
  return withTcpServer((connection) => {
    connections += 1;
    return readToEnd(connection);
  }, async (port) => {
    await assert.rejects(runOn({ port, hostKeyLine, ...request }), error);
    assert.equal(connections, 0);
  });
});
