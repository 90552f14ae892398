import assert from "node:assert/strict";
import { startSigner } from "../testing/memory_signer.ts";

Deno.test("POST /v1/sign withholds the certificate when the record can't be written (closed)", async () => {
  const signer = await startSigner();
  signer.log.failing = true;
  const { status, body } = await signer.sign({});
  assert.deepEqual([status, body.detail, body.certificate], [500, "audit unavailable", undefined]);
  assert.deepEqual(signer.counts, { failures: 1, blocked: 1 });
  assert.doesNotMatch(
    await signer.metrics.text(),
    /outcome="issued"/,
    "a withheld certificate is not an issued one",
  );
  signer.log.failing = false;
  assert.equal((await signer.sign({})).status, 200, "it recovers without a restart");
});

Deno.test("POST /v1/sign withholds also a denial's text and a dry run when the record can't be written", async () => {
  const signer = await startSigner();
  signer.log.failing = true;
  for (const changes of [{ command: "id" }, { dry_run: true }, { host: "db01" }]) {
    assert.equal((await signer.sign(changes)).body.detail, "audit unavailable");
  }
});

Deno.test("POST /v1/sign proceeds without a record in fail mode open, and counts it", async () => {
  const signer = await startSigner({ audit_fail_mode: "open" });
  signer.log.failing = true;
  assert.equal((await signer.sign({})).status, 200);
  assert.deepEqual(signer.counts, { failures: 1, blocked: 0 });
});

Deno.test.each([
  { name: "issued", request: {}, outcome: "issued" },
  { name: "denied by the policy", request: { command: "mysql -phunter2" }, outcome: "denied" },
  { name: "asked about", request: { dry_run: true }, outcome: "dry_run_allowed" },
  { name: "asked about and denied", request: { command: "id", dry_run: true }, outcome: "dry_run_denied" },
  { name: "on behalf of somebody by one who may not", request: { on_behalf_of: "x" }, outcome: "denied" },
])("POST /v1/sign records for masking which command was $name", async ({ request, outcome }) => {
  const signer = await startSigner();
  await signer.sign(request);
  const [entry] = signer.log.entries;
  assert.deepEqual([entry?.outcome, entry?.command_line], [outcome, request.command ?? "uptime"]);
  assert.doesNotMatch(
    entry?.command ?? "",
    /uptime|hunter2/,
    "what stands outside is not masked as a command",
  );
});
