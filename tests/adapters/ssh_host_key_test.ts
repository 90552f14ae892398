import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
// @ts-types="../ssh_target/ssh2_server.d.ts"
import ssh2 from "ssh2";
import { createHostKey, type HostKey } from "../ssh_target/host_key.ts";
import { onExec, runOn, withSshServer } from "../ssh_target/hostile.ts";

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

Deno.test("runCommand() asks a host with a pinned RSA key for SHA-2 only", async () => {
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
