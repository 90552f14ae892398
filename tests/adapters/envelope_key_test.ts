import assert from "node:assert/strict";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
import { FakeClock } from "@gateway/shared/testing";
import { openConfigFile } from "../../signer/config/config_file.ts";

const seedOf = (length: number) => new Uint8Array(length).fill(7);

Deno.test.each<{ name: string; seed: Uint8Array | undefined; problem: RegExp | undefined }>([
  { name: "takes a seed of 32 bytes", seed: seedOf(32), problem: undefined },
  { name: "refuses a file that is shorter", seed: seedOf(31), problem: /envelope_key ".*": .* 31 bytes/ },
  {
    name: "refuses one byte more, such as a line end",
    seed: seedOf(33),
    problem: /envelope_key ".*": .* 33 bytes/,
  },
  { name: "refuses an empty file", seed: seedOf(0), problem: /envelope_key ".*": .* 0 bytes/ },
  {
    name: "refuses a path where there is no file",
    seed: undefined,
    problem: /envelope_key ".*": no such file/,
  },
])("the signer's envelope_key $name", async ({ seed, problem }) => {
  const dir = await Deno.makeTempDir({ prefix: "envelope-key-" });
  try {
    await Deno.writeTextFile(`${dir}/ca`, encodeOpensshPrivateKey(seedOf(32), "ca"), { mode: 0o600 });
    if (seed !== undefined) await Deno.writeFile(`${dir}/seed`, seed);
    const text = JSON.stringify({
      server_cert: "c",
      server_key: "k",
      client_ca: "a",
      ca_key: `${dir}/ca`,
      envelope_key: `${dir}/seed`,
      audit_log: "log/audit.log",
      audit_key: "seed",
    });
    const file = openConfigFile("signer.json", { clock: new FakeClock(), fetch, readEnv: () => undefined });
    if (problem !== undefined) return await assert.rejects(file.compile(text), problem);
    const { envelopeKey } = await file.compile(text);
    assert.deepEqual(envelopeKey?.publicKey, createEnvelopeKey(seedOf(32)).publicKey);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
