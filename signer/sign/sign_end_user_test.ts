import assert from "node:assert/strict";
import { parseCertificate } from "@gateway/shared/ssh";
import { post, startSigner } from "../testing/memory_signer.ts";

const GATED = { callers: { "broker-1": { allowed_groups: ["web"], require_verified_end_user: true } } };
const OIDC = { issuer: "https://id.example", audience: "https://broker.example" };
const verifier = (groups: readonly string[] | null) => ({
  expireKeys() {},
  verify: (token: string) =>
    Promise.resolve(
      token === "good"
        ? { kind: "verified" as const, endUser: "alice", groups }
        : { kind: "refused" as const, reason: "signature invalid", code: "invalid_token" as const },
    ),
});

Deno.test("POST /v1/sign takes end user and groups of a gated caller from the token alone (I13)", async () => {
  const signer = await startSigner({ ...GATED, end_user_oidc: OIDC }, {
    parts: { endUsers: verifier(["web"]) },
  });
  const claimed = { end_user: "root", end_user_groups: ["db"], bearer_token: "good" };
  const { status, body } = await signer.sign(claimed);
  assert.equal(status, 200);
  assert.match(parseCertificate(String(body.certificate)).keyId, / user=alice$/);
  assert.doesNotMatch(
    JSON.stringify(signer.log.entries.map(({ command, err }) => [command, err])),
    /good|root/,
  );
});

Deno.test.each([
  { name: "without a token", request: {}, parts: { endUsers: verifier(["web"]) } },
  { name: "with a bad token", request: { bearer_token: "bad" }, parts: { endUsers: verifier(["web"]) } },
  { name: "without a verifier", request: { bearer_token: "good" }, parts: {} },
  {
    name: "with groups that no token vouches for",
    request: { bearer_token: "good", end_user_groups: ["web"] },
    parts: { endUsers: verifier(null) },
  },
])("POST /v1/sign refuses a gated caller $name", async ({ request, parts }) => {
  const signer = await startSigner(GATED, { parts });
  const { status, body } = await signer.sign(request);
  assert.deepEqual([status, body.detail], [403, "end-user identity could not be verified"]);
  const records = signer.log.entries.map(({ outcome, command_line }) => [outcome, command_line]);
  assert.deepEqual(records, [["end_user_unverified", "uptime"]]);
  assert.match(await signer.metrics.text(), /outcome="end-user-unverified"\} 1/);
});

Deno.test("POST /v1/sign denies every host to a verified end user in no group (I3)", async () => {
  const signer = await startSigner(GATED, { parts: { endUsers: verifier([]) } });
  assert.equal((await signer.sign({ bearer_token: "good" })).status, 403);
});

Deno.test("POST /v1/sign asks whether the verified end user is frozen, not the claimed one", async () => {
  const signer = await startSigner(GATED, { parts: { endUsers: verifier(["web"]) } });
  const frozen = { kind: "end_user", value: "alice", allow_volatile: true };
  await signer.send(post("/v1/freeze", frozen), "operator");
  assert.equal((await signer.sign({ bearer_token: "good", end_user: "bob" })).body.code, "frozen");
});
