import assert from "node:assert/strict";
import { failingStore, memoryStore } from "../testing/failing_store.ts";
import { DISTINCT, get, post, startSigner } from "../testing/memory_signer.ts";
import { stringifyJson } from "@gateway/shared/json";
import { ALONE } from "@gateway/shared/instances";

const VOLATILE = { allow_volatile: true };
const BEHALF = { "x-on-behalf-of": "broker-1" };

type Signer = Awaited<ReturnType<typeof startSigner>>;

const freeze = (signer: Signer, body: unknown, cn = "operator") => signer.send(post("/v1/freeze", body), cn);
const unfreeze = (signer: Signer, body: unknown, cn = "operator") =>
  signer.send(post("/v1/unfreeze", body), cn);

Deno.test("POST /v1/freeze warns of an unknown subject, and suggests similar names and the other kind", async () => {
  const signer = await startSigner();
  await signer.sign({ on_behalf_of: "broker-1", end_user: "agent" }, "control-plane");
  await signer.send(get("/v1/hosts"), "approver-broker");
  for (const value of ["broker-1", "BROKER-1", "control-plane", "approver-broker"]) {
    assert.equal((await signer.freeze("caller", value)).body["warning"], undefined, value);
  }
  const { body } = await signer.freeze("caller", "agent");
  const warning = "no request since the signer's start named caller=agent; requests named end_user=agent";
  assert.equal(body["warning"], warning);
  assert.equal((await signer.sign({}, "agent")).body.code, "frozen");
});

Deno.test("POST /v1/freeze blocks a caller immediately, and POST /v1/unfreeze allows it again", async () => {
  const signer = await startSigner();
  const subject = { kind: "caller", value: "broker-1" };
  const frozen = await freeze(signer, { ...subject, reason: "INC-7", ...VOLATILE });
  const warning = "no request since the signer's start named caller=broker-1";
  assert.deepEqual(frozen.body, { status: "ok", newly_frozen: true, grants_revoked: 0, warning });
  const refused = await signer.sign({});
  const { code, detail } = refused.body;
  assert.deepEqual([refused.status, code, detail], [403, "frozen", "subject is frozen"]);
  const hosts = await signer.send(get("/v1/hosts"));
  assert.deepEqual([hosts.status, hosts.body.code], [403, "frozen"]);
  assert.deepEqual((await unfreeze(signer, subject)).body, { status: "ok", was_frozen: true });
  assert.equal((await signer.sign({})).status, 200);
  assert.deepEqual(
    signer.log.entries.map(({ outcome, command, err }) => [outcome, command ?? "", err ?? ""]),
    [
      ["frozen", "frozen kind=caller value=broker-1 grants_revoked=0 reason=INC-7", ""],
      ["frozen_denied", "", "frozen: caller=broker-1"],
      ["frozen_denied", "", "frozen: caller=broker-1"],
      ["unfrozen", "unfrozen kind=caller value=broker-1", ""],
      ["issued", "role=target purpose=oneshot", ""],
    ],
  );
  const asked = signer.log.entries.map(({ command_line }) => command_line);
  assert.deepEqual(asked, [undefined, "uptime", undefined, undefined, "uptime"], "what was refused too");
  assert.match(await signer.metrics.text(), /outcome="frozen-denied"\} 1/);
});

Deno.test.each([
  { name: "the caller", value: "broker-1", cn: "broker-1", headers: {} },
  { name: "the forwarder", value: "control-plane", cn: "control-plane", headers: BEHALF },
  { name: "the broker of a forwarder", value: "broker-1", cn: "control-plane", headers: BEHALF },
])("GET /v1/hosts returns code frozen if $name is frozen (K6)", async ({ value, cn, headers }) => {
  const signer = await startSigner();
  assert.equal((await signer.send(get("/v1/hosts", headers), cn)).status, 200);
  await signer.freeze("caller", value);
  assert.equal((await signer.send(get("/v1/hosts", headers), cn)).body.code, "frozen");
});

Deno.test("POST /v1/sign denies a frozen caller before it checks key or host", async () => {
  const signer = await startSigner();
  await signer.freeze("caller", "broker-1");
  assert.equal((await signer.sign({ public_key: "nonsense", host: "nowhere" })).body.code, "frozen");
});

Deno.test.each([
  ["an unknown kind", { kind: "host", value: "web01", ...VOLATILE }, 400],
  ["an empty value", { kind: "caller", value: "", ...VOLATILE }, 400],
  ["a space in the value", { kind: "caller", value: "a b", ...VOLATILE }, 400],
  ["a line break in the reason", { kind: "caller", value: "a", reason: "x\ny", ...VOLATILE }, 400],
  ["a freeze that a restart forgets, unless that is accepted (K1)", { kind: "caller", value: "a" }, 409],
  ["a body over 16 KiB", { kind: "caller", value: "a", x: "x".repeat(16384) }, 413],
])("POST /v1/freeze rejects %s", async (_name, body, status) => {
  const signer = await startSigner();
  assert.equal((await freeze(signer, body)).status, status);
  assert.equal(signer.live.view.freezes.caller.size, 0);
});

Deno.test("POST /v1/freeze and /v1/unfreeze are restricted to admins", async () => {
  const signer = await startSigner();
  assert.equal((await freeze(signer, { kind: "caller", value: "a", ...VOLATILE }, "broker-1")).status, 403);
  assert.equal((await unfreeze(signer, { kind: "caller", value: "a" }, "broker-1")).status, 403);
  const records = signer.log.entries.map(({ outcome, caller }) => `${caller} ${outcome}`);
  assert.deepEqual(records, Array(2).fill("broker-1 policy-denied"));
});

Deno.test("POST /v1/freeze whose store write fails is in force, returns persisted: false and records the failure", async () => {
  const store = failingStore();
  const signer = await startSigner({}, { store });
  await signer.sign({});
  store.failing.add("putFreeze");
  const subject = { kind: "caller", value: "broker-1", reason: "INC-7" };
  const { status, body } = await freeze(signer, subject);
  assert.equal(status, 200);
  assert.deepEqual(body, { status: "ok", newly_frozen: true, grants_revoked: 0, persisted: false });
  assert.equal((await signer.sign({})).body.code, "frozen");
  const command = "frozen kind=caller value=broker-1 grants_revoked=0 reason=INC-7";
  const err = "in force, but a restart undoes it: The state database could not be used";
  assert.deepEqual(signer.log.entries.slice(1, 3), [
    { caller: "operator", command, outcome: "frozen" },
    { caller: "operator", command, outcome: "policy-failed", err },
  ]);
  store.failing.clear();
  assert.equal((await freeze(signer, subject)).body.persisted, undefined, "all is well then");
});

Deno.test("POST /v1/unfreeze whose store write fails changes nothing and is recorded as failed", async () => {
  const store = failingStore();
  const signer = await startSigner({}, { store });
  const subject = { kind: "caller", value: "broker-1" };
  await freeze(signer, subject);
  store.failing.add("deleteFreeze");
  assert.equal((await unfreeze(signer, subject)).status, 500);
  assert.equal((await signer.sign({})).body.code, "frozen");
  const command = "unfrozen kind=caller value=broker-1";
  const err = "still frozen, nothing has changed: The state database could not be used";
  assert.deepEqual(signer.log.entries.slice(1, 3), [
    { caller: "operator", command, outcome: "unfrozen" },
    { caller: "operator", command, outcome: "policy-failed", err },
  ]);
});

Deno.test("POST /v1/freeze returns 200 with persisted: false if the disk fills during the checkpoint (K3)", async () => {
  const store = failingStore();
  const signer = await startSigner({}, { store });
  store.failing.add("checkpoint");
  const { status, body } = await freeze(signer, { kind: "caller", value: "broker-1", ...VOLATILE });
  assert.deepEqual([status, body.persisted], [200, false]);
  assert.deepEqual(signer.log.entries.map(({ outcome }) => outcome), ["frozen", "policy-failed"]);
  assert.equal((await signer.sign({})).body.code, "frozen");
});

Deno.test("GET /v1/revocations returns reason and admin only to admins (K8)", async () => {
  const signer = await startSigner();
  await freeze(signer, { kind: "serial", value: "7", reason: "INC-7", ...VOLATILE });
  const entry = { kind: "serial", value: "7", frozen_at: "2023-11-14T22:13:20Z" };
  assert.deepEqual((await signer.send(get("/v1/revocations"))).body, [entry]);
  const forAdmin = await signer.send(get("/v1/revocations"), "operator");
  assert.deepEqual(forAdmin.body, [{ ...entry, reason: "INC-7", frozen_by: "operator" }]);
});

Deno.test.each([
  { cn: "operator", values: ["Broker-1", "broker-2", "approver", "alice", "s-1", "7"] },
  { cn: "control-plane", values: ["Broker-1", "broker-2", "approver", "alice", "s-1", "7"] },
  // The broker's poll returns only freezes that can concern its sessions.
  { cn: "broker-1", values: ["Broker-1", "alice", "s-1", "7"] },
  { cn: "approver", values: ["approver"] },
  { cn: "agent", values: [] },
])("GET /v1/revocations returns to $cn the frozen $values", async ({ cn, values }) => {
  const signer = await startSigner();
  for (const value of ["Broker-1", "broker-2", "approver"]) await signer.freeze("caller", value);
  await signer.freeze("end_user", "alice");
  await signer.freeze("session_id", "s-1");
  await signer.freeze("serial", "7");
  const { body } = await signer.send(get("/v1/revocations"), cn);
  const shown = (body as unknown as readonly { readonly value: string }[]).map(({ value }) => value);
  assert.deepEqual(shown.toSorted(), values.toSorted());
});

const revoke = (signer: Signer, serials: readonly unknown[], cn: string, headers = {}) =>
  signer.send(post("/v1/revocations/serials", stringifyJson({ serials, reason: "INC-7" }), headers), cn);
const listed = ({ krl }: Signer, serial: bigint) =>
  krl.current.bytes.toHex().includes(serial.toString(16).padStart(16, "0"));

async function issue(signer: Signer, cn = "broker-1", request = {}): Promise<bigint> {
  const { serial } = (await signer.sign(request, cn)).body;
  assert.ok(serial);
  return BigInt(serial);
}

const start = () => startSigner({}, { randomBytes: DISTINCT });

Deno.test("POST /v1/revocations/serials by a broker revokes only its own certificates", async () => {
  const signer = await start();
  const own = await issue(signer);
  const others = await issue(signer, "approver-broker");
  const { status, body } = await revoke(signer, [own, others, 99], "broker-1");
  assert.equal(status, 200);
  assert.deepEqual(body, { status: "ok", revoked: 1, krl_version: signer.krl.current.version });
  assert.deepEqual([listed(signer, own), listed(signer, others), listed(signer, 99n)], [true, false, false]);
  const command = `revoked serial=${own} reason=INC-7`;
  assert.deepEqual(signer.log.entries.slice(2), [{
    caller: "broker-1",
    serial: own,
    command,
    outcome: "revoked",
  }]);
});

Deno.test("POST /v1/revocations/serials through a trusted forwarder revokes only those of the named broker", async () => {
  const signer = await start();
  const serial = await issue(signer, "control-plane", { on_behalf_of: "broker-1" });
  assert.equal((await revoke(signer, [serial], "control-plane")).body["revoked"], 0);
  assert.equal((await revoke(signer, [serial], "broker-2", BEHALF)).status, 403);
  assert.equal((await revoke(signer, [serial], "control-plane", BEHALF)).body["revoked"], 1);
  assert.equal(listed(signer, serial), true);
});

Deno.test("POST /v1/revocations/serials has a rate limit per broker, separate from signing, and none for admins", async () => {
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

Deno.test("POST /v1/revocations/serials revokes any serial for an admin, but not for a forwarder naming an admin", async () => {
  const signer = await start();
  const serial = await issue(signer);
  await revoke(signer, [serial], "control-plane", { "x-on-behalf-of": "operator" });
  assert.equal(listed(signer, serial), false);
  assert.equal((await revoke(signer, [serial, 2n ** 64n - 1n], "operator")).body["revoked"], 1);
  assert.deepEqual([listed(signer, serial), listed(signer, 2n ** 64n - 1n)], [true, true]);
});

Deno.test("POST /v1/revocations/key-ids is limited to admins and revokes by the key ID alone", async () => {
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

Deno.test.each<[path: string, name: string, values: string]>([
  ["serials", "serial 0", "[0]"],
  ["serials", "a serial of 65 bits", "[18446744073709551616]"],
  ["serials", "a serial in quotes", '["7"]'],
  ["serials", "a fraction", "[7.5]"],
  ["serials", "no serials", "[]"],
  ["serials", "101 serials", JSON.stringify(Array(101).fill(1))],
  ["serials", "a reason of two words", '[7],"reason":"a b"'],
  ["requests", "the id of a request with a blank", '["a b"]'],
  ["requests", "an empty id of a request", '[""]'],
  ["requests", "no requests", "[]"],
  ["requests", "101 requests", JSON.stringify(Array(101).fill("r"))],
  ["key-ids", "an empty key id", '[""]'],
  ["key-ids", "a key id with a line feed", '["a\\nb"]'],
])("POST /v1/revocations/%s rejects %s", async (path, _name, values) => {
  const key = { serials: "serials", requests: "request_ids", "key-ids": "key_ids" }[path];
  const body = `{"${key}":${values}}`;
  const signer = await start();
  const { version } = signer.krl.current;
  assert.equal((await signer.send(post(`/v1/revocations/${path}`, body), "operator")).status, 400);
  assert.equal(signer.krl.current.version, version);
});

Deno.test("a revocation that cannot be recorded is not performed", async () => {
  const signer = await start();
  const serial = await issue(signer);
  signer.log.failing = true;
  assert.equal((await revoke(signer, [serial], "operator")).body.code, "audit_unavailable");
  assert.equal(listed(signer, serial), false);
});

Deno.test("a caller with too many valid certificates gets 429 and no more certificates", async () => {
  const signer = await start();
  signer.krl.issued.hasRoomFor = (caller) => caller !== "broker-1";
  const { status, headers } = await signer.sign({});
  assert.deepEqual([status, headers.get("retry-after")], [429, "30"]);
  assert.equal((await signer.sign({}, "approver-broker")).status, 200);
});

Deno.test("POST /v1/revocations/serials by a broker keeps unknown serials for other instances", async () => {
  const instances = { ...ALONE, isShared: true };
  const signer = await startSigner({}, { randomBytes: DISTINCT, instances });
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

Deno.test("POST /v1/revocations/serials returns persisted: false if serials of other instances are not stored", async () => {
  const store = memoryStore();
  const signer = await startSigner({}, { store, instances: { ...ALONE, isShared: true } });
  store.putRevocations = (revocations) =>
    revocations.length > 0 ? Promise.reject(new Error("the disk is full")) : Promise.resolve(1);
  const { body } = await revoke(signer, [99], "broker-1");
  assert.deepEqual([body["revoked"], body["persisted"]], [0, false]);
});
