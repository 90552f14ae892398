import assert from "node:assert/strict";
import { SAMPLE_NOW, sampleGrant, sampleGrants } from "../testing/sample_grant.ts";
import {
  addGrant,
  compileGrant,
  findGrantedPatterns,
  type Grant,
  listActive,
  NO_GRANTS,
  removeGrants,
  toGrantInfo,
} from "./grants.ts";

const WISH = { host: "web01", caller: "broker-1", endUser: "alice" };

Deno.test.each<[name: string, grant: Partial<Grant>, applies: boolean]>([
  ["for anyone", {}, true],
  ["for the caller", { caller: "broker-1" }, true],
  ["for the end user", { endUser: "alice" }, true],
  ["for both", { caller: "broker-1", endUser: "alice" }, true],
  ["for another caller", { caller: "broker-2" }, false],
  ["for a caller in capitals", { caller: "Broker-1" }, false],
  ["for another end user", { endUser: "bob" }, false],
  ["for the caller and another end user", { caller: "broker-1", endUser: "bob" }, false],
  ["for another host", { host: "web02" }, false],
  ["of the host's name in another case", { host: "WEB01" }, false],
  ["in its last millisecond", { expiresAt: SAMPLE_NOW + 1 }, true],
  ["at its end", { expiresAt: SAMPLE_NOW }, false],
  ["that is a waiver", { waiveApproval: ["^id$"] }, false],
])("findGrantedPatterns() knows a grant %s", (_name, grant, applies) => {
  assert.equal(findGrantedPatterns(sampleGrants(grant), WISH).length, applies ? 1 : 0);
});

Deno.test("findGrantedPatterns(): a grant for one end user is not for a request without", () => {
  assert.deepEqual(findGrantedPatterns(sampleGrants({ endUser: "alice" }), { ...WISH, endUser: "" }), []);
});

Deno.test("compileGrant() compiles all patterns or none", () => {
  const compiled = compileGrant(sampleGrant({ allow: ["^id$", "("] }));
  assert.equal(compiled.kind, "invalid");
  assert.match(compiled.kind === "invalid" ? compiled.problem : "", /"\("/);
  assert.equal(compileGrant(sampleGrant({ allow: ["(?=x)"] })).kind, "invalid");
  assert.equal(compileGrant(sampleGrant({ waiveApproval: ["("] })).kind, "invalid");
});

Deno.test("addGrant() and removeGrants() leave the set they are given as it was", () => {
  const { grants: before, now } = sampleGrants({}, { host: "web02" });
  const compiled = compileGrant(sampleGrant({ id: "new" }));
  assert(compiled.kind === "ok");
  const more = addGrant(before, compiled.grant);
  const less = removeGrants(more, new Set(["grant-0", "grant-1", "none"]));
  const ids = (grants: typeof before) => listActive({ grants, now }).map(({ id }) => id);
  assert.deepEqual([ids(before), ids(more), ids(less)], [["grant-0", "grant-1"], [
    "grant-0",
    "grant-1",
    "new",
  ], ["new"]]);
  assert.deepEqual([...less.byHost.keys()], ["web01"]);
});

Deno.test("addGrant() replaces the grant of the same id, also on another host", () => {
  const { grants } = sampleGrants({ id: "a" }, { id: "a", host: "web02" });
  assert.deepEqual([[...grants.byId.keys()], [...grants.byHost.keys()]], [["a"], ["web02"]]);
});

Deno.test("listActive() leaves the expired out and begins with the oldest", () => {
  const live = sampleGrants(
    { id: "b" },
    { id: "a" },
    { id: "old", grantedAt: SAMPLE_NOW - 1 },
    { id: "expired", expiresAt: SAMPLE_NOW },
  );
  assert.deepEqual(listActive(live).map(({ id }) => id), ["old", "a", "b"]);
  assert.deepEqual(listActive({ grants: NO_GRANTS, now: 0 }), []);
});

Deno.test("toGrantInfo() omits what is empty, and writes times in whole seconds", () => {
  const times = { granted_at: "2026-01-02T03:04:05Z", expires_at: "2026-01-02T03:05:05Z" };
  assert.deepEqual(toGrantInfo(sampleGrant({ expiresAt: SAMPLE_NOW + 60_999 })), {
    id: "0123456789abcdef01234567",
    host: "web01",
    allow: ["^id$"],
    approver: "operator",
    ...times,
  });
  const waiver = sampleGrant({
    waiveApproval: ["^id$"],
    caller: "broker-1",
    endUser: "alice",
    sudo: true,
    sudoUser: "root",
    approvalId: "a1",
  });
  assert.deepEqual(toGrantInfo(waiver), {
    id: "0123456789abcdef01234567",
    host: "web01",
    waive_approval: ["^id$"],
    caller: "broker-1",
    end_user: "alice",
    sudo: true,
    sudo_user: "root",
    approver: "operator",
    approval_id: "a1",
    ...times,
  });
});
