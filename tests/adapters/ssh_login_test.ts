import assert from "node:assert/strict";
import type { CertificateFields } from "@gateway/shared/ssh";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { withTarget } from "../ssh_target/scene.ts";
import { availableKinds } from "../ssh_target/target.ts";

const REFUSED = { code: "upstream_failure", message: "connection: the host refused the certificate" };
const now = Math.floor(Date.now() / 1000);

interface Row {
  readonly name: string;
  readonly fields: Partial<CertificateFields>;
}

const accepted: readonly Row[] = [
  { name: "one principal of several", fields: { principals: ["host:other", PRINCIPAL] } },
  {
    name: "a source address that fits",
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
    withTarget(kind, async ({ run }) => {
      assert.equal((await run("exit 9", { fields })).exitCode, 9);
    }),
);

Deno.test.each(over(refused))(
  "$kind target refuses a certificate with $name",
  ({ kind, fields }) =>
    withTarget(kind, async ({ run }) => {
      await assert.rejects(run("true", { fields }), REFUSED);
    }),
);

const kinds = availableKinds().map((kind) => ({ kind }));

Deno.test.each(kinds)(
  "$kind target refuses a certificate of another authority",
  ({ kind }) =>
    withTarget(kind, async ({ run }) => {
      await assert.rejects(run("true", { ca: createTestCa() }), REFUSED);
    }),
);

Deno.test.each(kinds)(
  "$kind target refuses a signature by another key than the certified one",
  ({ kind }) =>
    withTarget(kind, async ({ run }) => {
      const { publicKeyLine } = createEphemeralKey();
      await assert.rejects(run("true", { key: { publicKeyLine, sign: createEphemeralKey().sign } }), REFUSED);
    }),
);

Deno.test.each(kinds)("$kind target refuses another user", ({ kind }) =>
  withTarget(kind, async ({ run }) => {
    await assert.rejects(run("true", { user: "nobody" }), REFUSED);
  }));

Deno.test.each(kinds)(
  "$kind target takes the next login after a refusal",
  ({ kind }) =>
    withTarget(kind, async ({ run }) => {
      for (let attempt = 0; attempt < 3; attempt += 1) await assert.rejects(run("true", { user: "nobody" }));
      assert.equal((await run("true")).exitCode, 0);
    }),
);

Deno.test.each(kinds)(
  "runCommand() refuses a $kind target with another host key",
  ({ kind }) =>
    withTarget(kind, async ({ run, target }) => {
      await assert.rejects(run("true", { hostKey: createHostKey().line }), {
        code: "upstream_failure",
        message: "connection: host key mismatch",
      });
      const [type, key] = target.hostKeyLine.split(" ");
      assert.equal((await run("true", { hostKey: `web01,10.0.0.1 ${type} ${key} root@web01` })).exitCode, 0);
    }),
);
