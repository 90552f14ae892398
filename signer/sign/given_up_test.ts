/** Requests whose answers nobody has: `POST /v1/revocations/requests`. */
import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { inRequest } from "@gateway/shared/service";
import { actionFields } from "../testing/cluster_scene.ts";
import { FakeSecrets, startLeaseSigner } from "../testing/lease_scene.ts";
import { post, startSigner } from "../testing/memory_signer.ts";

type Signer = Awaited<ReturnType<typeof startSigner>>;

const BEHALF = { "x-on-behalf-of": "broker-1" };
/** Random bytes of which each certificate gets a serial of its own. */
const start = (changes = {}) =>
  startSigner(changes, { randomBytes: Array.from({ length: 251 }, (_, index) => index + 1) });
const sign = (signer: Signer, id: string, fields: Record<string, unknown> = {}, cn = "broker-1") =>
  inRequest({ name: "POST", id }, () => signer.sign(fields, cn));
const giveUp = (signer: Signer, ids: readonly string[], cn: string, headers = {}) =>
  signer.send(post("/v1/revocations/requests", { request_ids: ids, reason: "answer-lost" }, headers), cn);
const listed = ({ krl }: Signer, serial: bigint | undefined) => krl.listed.has({ serial: serial ?? 0n });

Deno.test("what was signed for a request whose answer nobody has is revoked, and recorded", async () => {
  const signer = await start();
  const [lost, other] = [await sign(signer, "r-1"), await sign(signer, "r-2")];
  const { status, body } = await giveUp(signer, ["r-1", "r-9"], "broker-1");
  assert.deepEqual([status, body], [200, {
    status: "ok",
    revoked: 1,
    krl_version: signer.krl.current.version,
  }]);
  assert.deepEqual([listed(signer, lost.body.serial), listed(signer, other.body.serial)], [true, false]);
  assert.deepEqual(
    signer.log.entries.slice(-3).map(({ caller, command, outcome }) => [caller, command, outcome]),
    ["request=r-1", "request=r-9", `serial=${lost.body.serial}`]
      .map((what) => ["broker-1", `revoked ${what} reason=answer-lost`, "revoked"]),
  );
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).body["revoked"], 0, "again");
});

Deno.test("nobody names the requests of others", async () => {
  const signer = await start();
  const { serial } = (await sign(signer, "r-1", { on_behalf_of: "broker-1" }, "control-plane")).body;
  for (const cn of ["approver-broker", "operator", "control-plane"]) {
    assert.equal((await giveUp(signer, ["r-1"], cn)).body["revoked"], 0, cn);
  }
  assert.equal((await giveUp(signer, ["r-1"], "approver-broker", BEHALF)).status, 403);
  assert.equal(listed(signer, serial), false);
  assert.equal((await giveUp(signer, ["r-1"], "control-plane", BEHALF)).body["revoked"], 1);
  assert.equal(listed(signer, serial), true);
});

Deno.test("nothing comes any more of a request that is given up before it is signed, or while it is", async () => {
  const signer = await start();
  await giveUp(signer, ["r-1"], "broker-1");
  const early = await sign(signer, "r-1");
  assert.deepEqual([early.status, early.body.certificate], [403, undefined]);
  const append = signer.log.append.bind(signer.log);
  signer.log.append = async (entry) => {
    await append(entry);
    if (entry.outcome === "issued") await giveUp(signer, ["r-2"], "broker-1");
  };
  const late = await sign(signer, "r-2");
  assert.deepEqual([late.status, late.body.certificate], [403, undefined]);
  const issued = signer.log.entries.filter(({ outcome }) => outcome === "issued");
  assert.deepEqual(issued.map(({ serial }) => listed(signer, serial)), [true, true]);
  assert.deepEqual(signer.log.entries.flatMap(({ err }) => err ?? []), [
    "nobody waits for it any more",
    "revoked before it left",
  ]);
  assert.equal((await sign(signer, "r-3")).status, 200);
  assert.equal(
    (await sign(signer, "r-1", {}, "approver-broker")).status,
    200,
    "another caller's of the same id",
  );
});

Deno.test("a token of a request that is given up is taken back", async () => {
  const secrets = new FakeSecrets();
  const signer = await startLeaseSigner({ secrets });
  const fields = { ...actionFields("get pods web/web-1"), end_user: "alice" };
  assert.equal((await sign(signer, "r-1", fields)).status, 200);
  assert.equal(secrets.uids.size, 1);
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).status, 200);
  await signer.leases.close();
  assert.equal(secrets.uids.size, 0);
});

Deno.test("giving up is limited for each broker, and nothing is revoked that could not be recorded", async () => {
  const signer = await start({ sign_rate_limit_per_min: 1 });
  const { serial } = (await sign(signer, "r-1")).body;
  signer.log.failing = true;
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).body.code, "audit_unavailable");
  signer.log.failing = false;
  assert.equal(listed(signer, serial), false);
  const { status, headers } = await giveUp(signer, ["r-1"], "broker-1");
  assert.deepEqual([status, headers.get("retry-after") !== null], [429, true]);
  // An agent that hangs up again and again has its broker do this.
  const ofSession = post("/v1/revocations/serials", stringifyJson({ serials: [serial], reason: "" }));
  assert.equal((await signer.send(ofSession, "broker-1")).body["revoked"], 1);
});

Deno.test("who has given up too many requests is told so, and none of it is recorded as revoked", async () => {
  const signer = await start();
  signer.krl.mayGiveUp = (caller, count) => caller !== "broker-1" && count === 1;
  const { status, headers } = await giveUp(signer, ["r-1"], "broker-1");
  assert.deepEqual([status, headers.get("retry-after")], [429, "60"]);
  assert.deepEqual(signer.log.entries.filter(({ outcome }) => outcome === "revoked"), []);
  assert.equal((await giveUp(signer, ["r-1"], "approver-broker")).status, 200);
});
