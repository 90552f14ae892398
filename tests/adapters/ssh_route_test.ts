import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { type ChainRequest, shareChains, withChain } from "../ssh_target/chain.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { readToEnd, withSshServer, withTcpServer } from "../ssh_target/hostile.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { terminalTest } from "../ssh_target/terminals.ts";
import { availableKinds } from "../ssh_target/target.ts";

const kinds = availableKinds();
const withShared = shareChains();
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const failure = (message: string) => ({ code: "upstream_failure", message: `connection: ${message}` });

Deno.test.each(kinds.flatMap((kind) => [1, 2, 3, 4].map((hosts) => ({ kind, hosts }))))(
  "connectRoute() reaches the last of $hosts hosts ($kind)",
  ({ kind, hosts }) =>
    withShared(kind, hosts, async ({ run }) => {
      const result = await run("echo out; echo err >&2; exit 7");
      assert.deepEqual([text(result.stdout), text(result.stderr), result.exitCode], ["out\n", "err\n", 7]);
    }),
);

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "connectRoute() passes a megabyte through two bastions ($kind)",
  ({ kind }) =>
    withShared(kind, 3, async ({ run }) => {
      assert.equal((await run("head -c 1048576 /dev/zero")).stdout.length, 1_048_576);
    }),
);

Deno.test.each(kinds.flatMap((kind) => [0, 1].map((hop) => ({ kind, hop }))))(
  "a bastion's certificate opens no shell on hop $hop of a chain that it carries ($kind)",
  ({ kind, hop }) =>
    withShared(kind, 3, async ({ run, targets, certify, dir }) => {
      assert.equal((await run("true")).exitCode, 0);
      const target = targets[hop];
      assert.ok(target);
      const { port, hostKeyLine: hostKey, user } = target;
      for (const pty of [false, true]) {
        const key = createEphemeralKey();
        const certificate = await certify(key.publicKeyLine, hop);
        const login = { name: "bastion", addr: `127.0.0.1:${port}`, hostKey, user, certificate, key };
        const tried = runCommand({
          clock: systemClock,
          hops: [login],
          command: `touch ${dir}/ran`,
          pty,
          limits: PATIENT_LIMITS,
        });
        // The terminal is denied before any command runs, because the certificate does not permit it.
        if (pty) await assert.rejects(tried, { code: "upstream_failure" });
        else assert.deepEqual([(await tried).exitCode, text((await tried).stdout.head)], [1, ""]);
      }
      await assert.rejects(Deno.stat(`${dir}/ran`), Deno.errors.NotFound);
    }),
);

for (const kind of kinds) {
  const register = kind === "openssh" ? terminalTest : Deno.test;
  register(
    `connectRoute() passes a terminal through two bastions (${kind})`,
    () =>
      withShared(kind, 3, async ({ run }) => {
        assert.equal(text((await run("echo x", { pty: true })).stdout), "x\r\n");
      }),
  );
}

const HOPS = [0, 1, 2].map((hop) => ({ hop, where: hop === 2 ? "" : `bastion "hop${hop}": ` }));

Deno.test.each(HOPS)(
  "connectRoute() rejects another host key at hop $hop",
  ({ hop, where }) =>
    withShared(kinds[0] ?? "embedded", 3, async ({ run, dir }) => {
      const other = createHostKey().line;
      const change: ChainRequest["change"] = (login, index) =>
        index === hop ? { ...login, hostKey: other } : login;
      await assert.rejects(run(`touch ${dir}/ran`, { change }), failure(`${where}host key mismatch`));
      await assert.rejects(Deno.stat(`${dir}/ran`));
    }),
);

Deno.test.each(HOPS)(
  "connectRoute() presents the certificate of hop $hop only to that hop",
  ({ hop, where }) =>
    withShared(kinds[0] ?? "embedded", 3, async ({ run, certify }) => {
      const key = createEphemeralKey();
      const certificate = await certify(key.publicKeyLine, (hop + 1) % 3);
      const change: ChainRequest["change"] = (login, index) =>
        index === hop ? { ...login, key, certificate } : login;
      await assert.rejects(run("true", { change }), failure(`${where}the host refused the certificate`));
    }),
);

Deno.test.each(HOPS)(
  "connectRoute() makes no connection if hop $hop is unusable",
  ({ hop, where }) =>
    withTcpServer(
      () => Promise.reject(new Error("Connected")),
      (port) =>
        withShared("embedded", 3, async ({ run }) => {
          const change: ChainRequest["change"] = (login, index) => ({
            ...login,
            addr: `127.0.0.1:${port}`,
            hostKey: index === hop ? "" : login.hostKey,
          });
          await assert.rejects(
            run("true", { change }),
            failure(`${where}host key for "hop${hop}": parsing host key failed`),
          );
        }),
    ),
);

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "connectRoute() says so when a bastion permits no connection to the next host ($kind)",
  ({ kind }) =>
    withShared(kind, 2, async ({ run, certify }) => {
      const key = createEphemeralKey();
      const certificate = await certify(key.publicKeyLine, 0, []);
      const change: ChainRequest["change"] = (login, index) =>
        index === 0 ? { ...login, key, certificate } : login;
      await assert.rejects(run("true", { change }), {
        code: "upstream_failure",
        message:
          /^connection: the bastion (does not permit the connection|could not connect) to the next host$/,
      });
    }),
);

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "connectRoute() says so when a bastion cannot reach the next host, without its address ($kind)",
  ({ kind }) =>
    withShared(kind, 2, async ({ run }) => {
      const change: ChainRequest["change"] = (login, index) =>
        index === 1 ? { ...login, addr: "127.0.0.1:1" } : login;
      await assert.rejects(run("true", { change }), (error: Error) => {
        assert.match(error.message, /^connection: the bastion (could|did) not connect to the next host$/);
        return true;
      });
    }),
);

Deno.test.each([
  { hop: 0, where: 'bastion "hop0": ' },
  { hop: 1, where: "" },
])(
  "connectRoute() times out on a hop $hop that accepts TCP and sends no data (R7)",
  ({ hop, where }) => {
    const reached = Promise.withResolvers<void>();
    return withTcpServer((connection) => {
      reached.resolve();
      return readToEnd(connection);
    }, (port) =>
      withShared(kinds[0] ?? "embedded", 2, async ({ run }) => {
        const change: ChainRequest["change"] = (login, index) =>
          index === hop ? { ...login, addr: `127.0.0.1:${port}` } : login;
        const clock = new FakeClock();
        const limits = { connectMs: Infinity, channelMs: Infinity, handshakeMs: 10_000 };
        const running = run("true", { change, clock, limits });
        let isOver = false;
        // The server's reads end, which shows that no connection is left open.
        const rejected = assert.rejects(running, failure(`${where}SSH handshake timeout`))
          .finally(() => isOver = true);
        const passing = reached.promise.then(() =>
          poll(async () => {
            await clock.advance(10_000);
            return isOver;
          }, { what: "the end of the wait" })
        );
        await Promise.all([rejected, passing]);
      }));
  },
);

Deno.test("connectRoute() can be canceled while it waits for a hop behind a bastion", () => {
  const controller = new AbortController();
  return withTcpServer(
    async (connection) => {
      controller.abort();
      await readToEnd(connection);
    },
    (port) =>
      withShared(kinds[0] ?? "embedded", 2, async ({ run }) => {
        const change: ChainRequest["change"] = (login, index) =>
          index === 1 ? { ...login, addr: `127.0.0.1:${port}` } : login;
        await assert.rejects(run("true", { change, signal: controller.signal }), {
          code: "canceled",
          message: "connection: canceled",
        });
      }),
  );
});

Deno.test.each([
  {
    name: "times out on a bastion that never connects to the next host",
    limits: { channelMs: 200 },
    cancels: false,
    error: failure("the bastion took too long to connect to the next host"),
  },
  {
    name: "can be canceled while a bastion connects to the next host",
    limits: {},
    cancels: true,
    error: { code: "canceled", message: "connection: canceled" },
  },
])("connectRoute() $name", ({ limits, cancels, error }) => {
  const controller = new AbortController();
  let closed = false;
  return withSshServer((connection) => {
    connection.on("tcpip", () => {
      if (cancels) controller.abort();
    });
    connection.on("close", () => {
      closed = true;
    });
  }, ({ port, hostKeyLine }) =>
    withShared("embedded", 2, async ({ run }) => {
      const change: ChainRequest["change"] = (login, index) =>
        index === 0 ? { ...login, addr: `127.0.0.1:${port}`, hostKey: hostKeyLine } : login;
      await assert.rejects(run("true", { change, limits, signal: controller.signal }), error);
      await poll(() => closed, { what: "that the bastion's connection is closed" });
    }));
});

Deno.test("connectRoute() reports a bastion that closes the connection to the next host", () =>
  withSshServer((connection) => {
    connection.on("tcpip", () => connection.end());
  }, ({ port, hostKeyLine }) =>
    withShared("embedded", 2, async ({ run }) => {
      const change: ChainRequest["change"] = (login, index) =>
        index === 0 ? { ...login, addr: `127.0.0.1:${port}`, hostKey: hostKeyLine } : login;
      await assert.rejects(run("true", { change }), {
        code: "upstream_failure",
        message: /^connection: the bastion (closed the connection|did not connect to the next host)$/,
      });
    })));

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "connectRoute() fails when a bastion dies in the handshake of the next host ($kind)",
  ({ kind }) => {
    const greeted = Promise.withResolvers<void>();
    return withTcpServer(async (connection) => {
      // Our identification string has arrived, so the route is open.
      await connection.read(new Uint8Array(256));
      greeted.resolve();
      await readToEnd(connection);
    }, (port) =>
      withChain(kind, 2, async ({ run, targets }) => {
        const change: ChainRequest["change"] = (login, index) =>
          index === 1 ? { ...login, addr: `127.0.0.1:${port}` } : login;
        await Promise.all([
          greeted.promise.then(() => targets[0]?.close()),
          assert.rejects(
            run("true", { change }),
            failure("the host closed the connection in the SSH handshake"),
          ),
        ]);
      }));
  },
);

Deno.test.each(kinds.flatMap((kind) => [0, 1].map((hop) => ({ kind, hop }))))(
  "runCommand() fails when bastion $hop dies in mid-command ($kind)",
  ({ kind, hop }) =>
    withChain(kind, 3, async ({ run, targets, dir }) => {
      const running = run(`echo $$ > ${dir}/pid; while :; do echo x; sleep 0.01; done`);
      const [pid] = await Promise.all([
        readPid(`${dir}/pid`).then(async (pid) => {
          await targets[hop]?.close();
          return pid;
        }),
        assert.rejects(running, {
          code: "upstream_failure",
          message: "execution: connection lost: remote command exited without exit status or exit signal",
        }),
      ]);
      await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
    }),
);

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "runCommand() when canceled ends a command behind two bastions ($kind) (K16)",
  ({ kind }) =>
    withChain(kind, 3, async ({ run, dir }) => {
      const controller = new AbortController();
      const running = run(`echo $$ > ${dir}/pid; while :; do echo x; sleep 0.01; done`, {
        signal: controller.signal,
        limits: { killGraceMs: 200 },
      });
      const [pid] = await Promise.all([
        readPid(`${dir}/pid`).finally(() => controller.abort()),
        assert.rejects(running, { code: "canceled", message: "execution: canceled" }),
      ]);
      await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
    }),
);
