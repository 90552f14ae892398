import assert from "node:assert/strict";
import type { CertificateFields } from "@gateway/shared/ssh";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import { createHostKey, type HostKey } from "../ssh_target/host_key.ts";
import { type SceneRequest, shareTargets, withTarget } from "../ssh_target/scene.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import ssh2 from "ssh2";
import { onExec, runOn, withSshServer } from "../ssh_target/hostile.ts";
import type { SshLimits } from "../../broker/ssh/failures.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { endProcessTree } from "../ssh_target/process_tree.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { terminalTest } from "../ssh_target/terminals.ts";
import { fileURLToPath } from "node:url";

const REFUSED = { code: "upstream_failure", message: "connection: the host refused the certificate" };
const withShared = shareTargets();
const now = Math.floor(Date.now() / 1000);

interface Row {
  readonly name: string;
  readonly fields: Partial<CertificateFields>;
}

const accepted: readonly Row[] = [
  { name: "one principal of several", fields: { principals: ["host:other", PRINCIPAL] } },
  {
    name: "a matching source address",
    fields: { criticalOptions: { "source-address": "10.0.0.0/8,127.0.0.1" } },
  },
  { name: "the largest serial", fields: { serial: 18_446_744_073_709_551_615n } },
  { name: "no extension", fields: { extensions: [] } },
  { name: "an extension that nobody knows", fields: { extensions: ["note@example.com"] } },
];

const refused: readonly Row[] = [
  { name: "another principal", fields: { principals: ["host:other"] } },
  { name: "the user's name as principal", fields: { principals: ["root"] } },
  { name: "an end in the past", fields: { validAfter: now - 600, validBefore: now - 60 } },
  { name: "a beginning in the future", fields: { validAfter: now + 300, validBefore: now + 600 } },
  { name: "a source address elsewhere", fields: { criticalOptions: { "source-address": "10.0.0.0/8" } } },
  { name: "a critical option that nobody knows", fields: { criticalOptions: { "x@example.com": "1" } } },
];

const over = (rows: readonly Row[]) =>
  availableKinds().flatMap((kind) => rows.map((row) => ({ kind, ...row })));

Deno.test.each(over(accepted))(
  "$kind target accepts a certificate with $name",
  ({ kind, fields }) =>
    withShared(kind, async ({ run }) => {
      assert.equal((await run("exit 9", { fields })).exitCode, 9);
    }),
);

Deno.test.each(over(refused))(
  "$kind target refuses a certificate with $name",
  ({ kind, fields }) =>
    withShared(kind, async ({ run }) => {
      await assert.rejects(run("true", { fields }), REFUSED);
    }),
);

const kinds = availableKinds().map((kind) => ({ kind }));

Deno.test.each(kinds)(
  "$kind target rejects a certificate of another CA",
  ({ kind }) =>
    withShared(kind, async ({ run }) => {
      await assert.rejects(run("true", { ca: createTestCa() }), REFUSED);
    }),
);

Deno.test.each(kinds)(
  "$kind target rejects a signature by another key than the certified one",
  ({ kind }) =>
    withShared(kind, async ({ run }) => {
      const { publicKeyLine } = createEphemeralKey();
      await assert.rejects(run("true", { key: { publicKeyLine, sign: createEphemeralKey().sign } }), REFUSED);
    }),
);

Deno.test.each(kinds)("$kind target rejects another user", ({ kind }) =>
  withShared(kind, async ({ run }) => {
    await assert.rejects(run("true", { user: "nobody" }), REFUSED);
  }));

Deno.test.each(kinds)(
  "$kind target accepts the next login after rejected ones",
  ({ kind }) =>
    withShared(kind, async ({ run }) => {
      for (let attempt = 0; attempt < 3; attempt += 1) await assert.rejects(run("true", { user: "nobody" }));
      assert.equal((await run("true")).exitCode, 0);
    }),
);

Deno.test.each(kinds)(
  "runCommand() rejects a $kind target with another host key",
  ({ kind }) =>
    withShared(kind, async ({ run, target }) => {
      await assert.rejects(run("true", { hostKey: createHostKey().line }), {
        code: "upstream_failure",
        message: "connection: host key mismatch",
      });
      const [type, key] = target.hostKeyLine.split(" ");
      assert.equal((await run("true", { hostKey: `web01,10.0.0.1 ${type} ${key} root@web01` })).exitCode, 0);
    }),
);

// @ts-types="../ssh_target/ssh2_server.d.ts"

function pemKey(key: KeyObject, type: "pkcs1" | "sec1"): HostKey {
  const pem = key.export({ format: "pem", type }).toString();
  const parsed = ssh2.utils.parseKey(pem);
  if (parsed instanceof Error) throw parsed;
  return { pem, line: `${parsed.type} ${parsed.getPublicSSH().toBase64()}` };
}

const okay = onExec((channel) => {
  channel.exit(0);
  channel.end();
});

Deno.test("runCommand() requests only SHA-2 from a host with a pinned RSA key", async () => {
  const hostKey = pemKey(generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey, "pkcs1");
  let negotiated = "";
  await withSshServer((connection) => {
    connection.on("handshake", ({ serverHostKey }) => {
      negotiated = String(serverHostKey);
    });
    okay(connection);
  }, async ({ port, hostKeyLine }) => {
    assert.equal((await runOn({ port, hostKeyLine })).exitCode, 0);
  }, hostKey);
  assert.equal(negotiated, "rsa-sha2-512");
});

Deno.test.each([{ curve: "P-256" }, { curve: "P-384" }])(
  "runCommand() accepts a pinned ECDSA key on $curve",
  ({ curve }) => {
    const hostKey = pemKey(generateKeyPairSync("ec", { namedCurve: curve }).privateKey, "sec1");
    return withSshServer(okay, async ({ port, hostKeyLine }) => {
      assert.equal((await runOn({ port, hostKeyLine })).exitCode, 0);
    }, hostKey);
  },
);

Deno.test("runCommand() does not fall back to a host key of another type", () => {
  const hostKey = pemKey(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey, "sec1");
  return withSshServer(okay, async ({ port }) => {
    await assert.rejects(runOn({ port, hostKeyLine: createHostKey().line }), {
      code: "upstream_failure",
      message: "connection: SSH handshake failed: no matching host key format",
    });
  }, hostKey);
});

const kindsCancel = availableKinds();
const CANCELED = { code: "canceled", message: "execution: canceled" };
const FORCED = (command: string): SceneRequest => ({
  fields: { criticalOptions: { "force-command": command } },
});
const GRACE: Partial<SshLimits> = { killGraceMs: 200 };

/** `echo` in a loop. SIGPIPE ends it when nobody reads its output. */
const TALKS = "while :; do echo x; sleep 0.01; done";
const FLOOD = "exec yes";
const OBEYS_NOT_TERM = "trap '' TERM; while :; do sleep 0.01; done";

interface RowCancel {
  readonly name: string;
  readonly kind: SshTarget["kind"];
  readonly command: string;
  readonly request?: SceneRequest;
}

// sshd delivers no signals to a forced command, nor to root's sessions, which lack privilege separation. Such
// a command ends only when its output is no longer read or its terminal is lost.
const rows: readonly RowCancel[] = [
  ...kindsCancel.map((kind) => ({ name: "that prints", kind, command: TALKS })),
  ...kindsCancel.map((kind) => ({ name: "that floods", kind, command: FLOOD })),
  ...kindsCancel.map((kind) => ({
    name: "with a terminal",
    kind,
    command: "exec sleep 1000",
    request: { pty: true },
  })),
  { name: "that is silent", kind: "embedded", command: "exec sleep 1000" },
  { name: "that ignores TERM", kind: "embedded", command: OBEYS_NOT_TERM },
  ...(kindsCancel.includes("openssh") && Deno.uid() !== 0
    ? [
      { name: "that is silent", kind: "openssh", command: "exec sleep 1000" },
      { name: "that ignores TERM", kind: "openssh", command: OBEYS_NOT_TERM },
    ] as const
    : []),
];

for (const forced of [false, true]) {
  const tested = rows.filter(({ kind, request, command }) =>
    !forced || request?.pty || command === TALKS || kind === "embedded" && command !== FLOOD
  );
  for (const { name, kind, command, request } of tested) {
    const register = request?.pty && kind === "openssh" ? terminalTest : Deno.test;
    register(
      `runCommand() when canceled ends a ${forced ? "forced " : ""}command ${name} (${kind}) (K16)`,
      () =>
        withShared(kind, async ({ run, dir }) => {
          const controller = new AbortController();
          const path = `${dir}/${crypto.randomUUID()}`;
          const whole = `echo $$ > ${path}; ${command}`;
          const running = run(whole, {
            ...request,
            ...(forced ? FORCED(whole) : {}),
            ...(request?.pty ? { fields: { ...FORCED(whole).fields, extensions: ["permit-pty"] } } : {}),
            limits: GRACE,
            signal: controller.signal,
          });
          const [pid] = await Promise.all([
            readPid(path).then(async (pid) => {
              assert.ok(await isRunning(pid));
              controller.abort(new Error("the client has gone"));
              return pid;
            }),
            assert.rejects(running, CANCELED),
          ]);
          await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
        }),
    );
  }
}

Deno.test.each(kindsCancel.map((kind) => ({ kind })))(
  "runCommand() ends a command at its time limit ($kind)",
  ({ kind }) =>
    withShared(kind, async ({ run, dir }) => {
      const path = `${dir}/${crypto.randomUUID()}`;
      const running = run(`echo $$ > ${path}; ${TALKS}`, { limits: { ...GRACE, commandMs: 300 } });
      await assert.rejects(running, {
        code: "upstream_failure",
        message: "execution: SSH execution timeout (limit: 300ms)",
      });
      // The timeout can expire before the shell has written anything.
      const pid = Number(await Deno.readTextFile(path).catch(() => ""));
      await poll(async () => pid === 0 || !await isRunning(pid), { what: "that the remote command is gone" });
    }),
);

Deno.test("runCommand() reports a lost connection if sshd is killed during a command", {
  ignore: !kindsCancel.includes("openssh"),
}, () =>
  withTarget("openssh", async ({ run, dir }) => {
    await Promise.all([
      readPid(`${dir}/pid`).then(async () => {
        endProcessTree(Number(await Deno.readTextFile(`${dir}/sshd.pid`)));
      }),
      assert.rejects(run(`echo $$ > ${dir}/pid; ${TALKS}`), {
        code: "upstream_failure",
        message: "execution: connection lost: remote command exited without exit status or exit signal",
      }),
    ]);
  }));

const SCRIPT = fileURLToPath(new URL("../ssh_target/run_alone.ts", import.meta.url));
const [kind = "embedded"] = availableKinds();

function start(allowedAddress: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", `--allow-net=${allowedAddress}`, SCRIPT],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

const rowsPermissions = [
  { name: "needs no permission but to connect to the host", allowed: "host", shows: /^alone\n$/ },
  {
    name: "reports that it must not connect to the host",
    allowed: "other",
    shows: /connection: this broker must not connect to the host's address/,
  },
] as const;

Deno.test.each(rowsPermissions)(
  "runCommand() $name",
  ({ allowed, shows }) =>
    withTarget(kind, async ({ target, certify }) => {
      const addr = `127.0.0.1:${target.port}`;
      const child = start(allowed === "host" ? addr : `127.0.0.1:${target.port + 1}`);
      const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      const { value: publicKeyLine = "" } = await lines.read();
      const request = {
        name: "target",
        addr,
        hostKey: target.hostKeyLine,
        user: target.user,
        certificate: await certify(publicKeyLine),
      };
      const input = child.stdin.getWriter();
      await input.write(new TextEncoder().encode(JSON.stringify(request)));
      await input.close();
      const { value: output = "" } = await lines.read();
      const errors = await new Response(child.stderr).text();
      await child.status;
      await lines.cancel();
      assert.match(output || errors, shows);
    }),
);
