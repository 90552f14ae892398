/** The classes of bugs about who may do what that are known from products like this one. */
import assert from "node:assert/strict";
import {
  compileSample,
  decideSample,
  sampleConfig,
  sampleHost,
  sampleIntent,
} from "../testing/sample_policy.ts";
import { visibleHosts } from "./host_rules.ts";
import { decideSsh, mayUseHost } from "./ssh.ts";

Deno.test("an empty list of groups is nobody's group, and only null says nothing (I3)", () => {
  const host = { groups: ["web"] };
  assert.equal(decideSample(host, { endUser: "ann", endUserGroups: null }).kind, "allowed");
  assert.equal(decideSample(host, { endUser: "ann", endUserGroups: [] }).kind, "denied");
  assert.equal(decideSample({}, { endUser: "ann", endUserGroups: [] }).kind, "denied");
});

Deno.test("what is listed is what can be signed for, for every caller and host (I4)", () => {
  const policy = compileSample(sampleConfig({}, {
    hosts: {
      web01: sampleHost({ groups: ["web"] }),
      web02: sampleHost({ groups: ["web"], allowed_callers: ["b"] }),
      db01: sampleHost({ groups: ["db", "web"], allowed_callers: ["a", "c"] }),
      bare: sampleHost(),
    },
    callers: { a: { allowed_groups: ["web"] }, b: { allowed_groups: ["web", "db"] }, c: {} },
  }));
  for (const caller of ["a", "b", "c", "stranger", "_default", ""]) {
    const listed = Object.keys(visibleHosts(policy, caller));
    const signed = [...policy.hosts.keys()].filter((host) =>
      mayUseHost(policy, caller, host) === "ok" &&
      decideSsh(policy, sampleIntent({ caller, host })).kind === "allowed"
    );
    assert.deepEqual(listed, signed.sort(), caller);
  }
});

Deno.test("no account and root are the same elevation (I25)", () => {
  const decisions = ["", "root"].map((sudoUser) =>
    decideSample({ allow_sudo: true }, { sudo: true, sudoUser })
  );
  assert.equal(decisions[0]?.kind, "allowed");
  assert.deepEqual(decisions[0], decisions[1]);
});
