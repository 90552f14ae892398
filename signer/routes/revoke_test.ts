import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { ALONE } from "@gateway/shared/instances";
import { memoryStore } from "../testing/failing_store.ts";
import { post, startSigner } from "../testing/memory_signer.ts";

type Signer = Awaited<ReturnType<typeof startSigner>>;

const BEHALF = { "x-on-behalf-of": "broker-1" };
const revoke = (
  signer: Signer,
  serials: readonly unknown[],
  cn: string,
  headers: Record<string, string> = {},
) => signer.send(post("/v1/revocations/serials", stringifyJson({ serials, reason: "INC-7" }), headers), cn);
const listed = ({ krl }: Signer, serial: bigint) =>
  krl.current.bytes.toHex().includes(serial.toString(16).padStart(16, "0"));

async function issue(
  signer: Signer,
  cn = "broker-1",
  request: Record<string, unknown> = {},
): Promise<bigint> {
  const { serial } = (await signer.sign(request, cn)).body;
  assert.ok(serial);
  return BigInt(serial);
}

/** Random bytes of which each certificate gets a serial of its own. */
const start = () => startSigner({}, { randomBytes: Array.from({ length: 251 }, (_, index) => index + 1) });

Deno.test("POST /v1/revocations/serials by a broker revokes its own certificates and passes others over", async () => {
  const signer = await start();
  const own = await issue(signer);
  const others = await issue(signer, "approver-broker");
  const { status, body } = await revoke(signer, [own, others, 99], "broker-1");
  assert.deepEqual([status, body], [200, {
    status: "ok",
    revoked: 1,
    krl_version: signer.krl.current.version,
  }]);
  assert.deepEqual([listed(signer, own), listed(signer, others), listed(signer, 99n)], [true, false, false]);
  assert.deepEqual(
    signer.log.entries.slice(2).map((
      { caller, serial, command, outcome },
    ) => [caller, serial, command, outcome]),
    [["broker-1", own, `revoked serial=${own} reason=INC-7`, "revoked"]],
  );
});

Deno.test("POST /v1/revocations/serials through a trusted forwarder revokes those of the broker it names, and none of its own", async () => {
  const signer = await start();
  const serial = await issue(signer, "control-plane", { on_behalf_of: "broker-1" });
  assert.equal((await revoke(signer, [serial], "control-plane")).body["revoked"], 0);
  assert.equal((await revoke(signer, [serial], "broker-2", BEHALF)).status, 403);
  assert.equal((await revoke(signer, [serial], "control-plane", BEHALF)).body["revoked"], 1);
  assert.equal(listed(signer, serial), true);
});

Deno.test("POST /v1/revocations/serials is limited for each broker, apart from signing, and never for admins", async () => {
  const signer = await startSigner({ sign_rate_limit_per_min: 2 });
  const statuses = async (cn: string, headers?: Record<string, string>) => {
    const answers = [];
    for (let count = 0; count < 3; count++) answers.push(await revoke(signer, [7], cn, headers));
    return answers.map(({ status }) => status);
  };
  assert.deepEqual(await statuses("control-plane", BEHALF), [200, 200, 429]);
  assert.equal((await revoke(signer, [7], "broker-1")).body.detail, "revocations exceed 2 a minute");
  assert.deepEqual(await statuses("approver-broker"), [200, 200, 429]);
  assert.deepEqual(await statuses("operator"), [200, 200, 200]);
  assert.equal((await signer.sign({})).status, 200);
  await signer.clock.advance(30_000);
  assert.equal((await revoke(signer, [7], "broker-1")).status, 200);
});

Deno.test("POST /v1/revocations/serials by an admin revokes any, also unknown ones; a forwarder that names an admin does not", async () => {
  const signer = await start();
  const serial = await issue(signer);
  await revoke(signer, [serial], "control-plane", { "x-on-behalf-of": "operator" });
  assert.equal(listed(signer, serial), false);
  assert.equal((await revoke(signer, [serial, 2n ** 64n - 1n], "operator")).body["revoked"], 1);
  assert.deepEqual([listed(signer, serial), listed(signer, 2n ** 64n - 1n)], [true, true]);
});

Deno.test("POST /v1/revocations/key-ids is for admins, and revokes by the key id alone", async () => {
  const signer = await start();
  await issue(signer);
  const keyId = "agent=broker-1 host=web01 role=target t=1700000000";
  const body = { key_ids: [keyId] };
  assert.equal((await signer.send(post("/v1/revocations/key-ids", body), "broker-1")).status, 403);
  const answer = await signer.send(post("/v1/revocations/key-ids", body), "operator");
  assert.deepEqual(answer.body, { status: "ok", revoked: 1, krl_version: signer.krl.current.version });
  assert.ok(new TextDecoder().decode(signer.krl.current.bytes).includes(keyId));
  assert.equal(signer.log.entries.at(-1)?.command, `revoked key_id="${keyId}"`);
});

Deno.test.each<{ name: string; path: string; body: string }>([
  { name: "serial 0", path: "serials", body: '{"serials":[0]}' },
  { name: "a serial of 65 bits", path: "serials", body: '{"serials":[18446744073709551616]}' },
  { name: "a serial in quotes", path: "serials", body: '{"serials":["7"]}' },
  { name: "a fraction", path: "serials", body: '{"serials":[7.5]}' },
  { name: "no serials", path: "serials", body: '{"serials":[]}' },
  { name: "101 serials", path: "serials", body: JSON.stringify({ serials: Array(101).fill(1) }) },
  { name: "a reason of two words", path: "serials", body: '{"serials":[7],"reason":"a b"}' },
  { name: "the id of a request with a blank", path: "requests", body: '{"request_ids":["a b"]}' },
  { name: "an empty id of a request", path: "requests", body: '{"request_ids":[""]}' },
  { name: "no requests", path: "requests", body: '{"request_ids":[]}' },
  { name: "101 requests", path: "requests", body: JSON.stringify({ request_ids: Array(101).fill("r") }) },
  { name: "an empty key id", path: "key-ids", body: '{"key_ids":[""]}' },
  { name: "a key id with a line feed", path: "key-ids", body: '{"key_ids":["a\\nb"]}' },
])("POST /v1/revocations/$path refuses $name", async ({ path, body }) => {
  const signer = await start();
  const { version } = signer.krl.current;
  assert.equal((await signer.send(post(`/v1/revocations/${path}`, body), "operator")).status, 400);
  assert.equal(signer.krl.current.version, version);
});

Deno.test("nothing is revoked that could not be recorded", async () => {
  const signer = await start();
  const serial = await issue(signer);
  signer.log.failing = true;
  assert.equal((await revoke(signer, [serial], "operator")).body.code, "audit_unavailable");
  assert.equal(listed(signer, serial), false);
});

Deno.test("a caller with too many valid certificates gets 429 and no more of them", async () => {
  const signer = await start();
  signer.krl.issued.hasRoomFor = (caller) => caller !== "broker-1";
  const { status, headers } = await signer.sign({});
  assert.deepEqual([status, headers.get("retry-after")], [429, "30"]);
  assert.equal((await signer.sign({}, "approver-broker")).status, 200);
});

Deno.test("POST /v1/revocations/serials by a broker is kept for the instance that has issued what none here knows", async () => {
  const randomBytes = Array.from({ length: 251 }, (_, index) => index + 1);
  const signer = await startSigner({}, { randomBytes, instances: { ...ALONE, isShared: true } });
  const [own, others] = [await issue(signer), await issue(signer, "approver-broker")];
  assert.equal((await revoke(signer, [own, others, 99], "broker-1")).body["revoked"], 1);
  assert.deepEqual([listed(signer, others), listed(signer, 99n)], [false, false], "they may be anybody's");
  assert.deepEqual(
    signer.log.entries.slice(2).map(({ serial, command }) => [serial, command]),
    [
      [own, `revoked serial=${own} reason=INC-7`],
      [undefined, `revoked serial=${others} elsewhere reason=INC-7`],
      [undefined, "revoked serial=99 elsewhere reason=INC-7"],
    ],
  );
  assert.ok(signer.krl.isGivenUp("broker-1", "serial=99") && !signer.krl.isGivenUp("broker-2", "serial=99"));
  signer.krl.mayGiveUp = () => false;
  const another = await issue(signer);
  assert.equal((await revoke(signer, [another, 98], "broker-1")).status, 429);
  assert.equal(listed(signer, another), true, "what is known does not wait for room");
});

Deno.test("POST /v1/revocations/serials says that what is kept for another instance is not stored", async () => {
  const store = memoryStore();
  const signer = await startSigner({}, { store, instances: { ...ALONE, isShared: true } });
  store.putRevocations = (revocations) =>
    revocations.length > 0 ? Promise.reject(new Error("the disk is full")) : Promise.resolve(1);
  const { body } = await revoke(signer, [99], "broker-1");
  assert.deepEqual([body["revoked"], body["persisted"]], [0, false]);
});
