import assert from "node:assert/strict";
import { judge, type ServiceStatus, silentStatus } from "./monitor.ts";

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;
const one = (name: string, more: Partial<ServiceStatus> = {}): ServiceStatus => ({
  ...{ ...silentStatus(`${name}:9160`, ""), service: "signer", instance: name, version: "1", isReady: true },
  ...{ members: ["a", "b"], krlVersion: 5, ...more },
});

Deno.test.each([
  { name: "two that are well", services: [one("a"), one("b")], problems: [], notes: [] },
  {
    name: "one that does not answer",
    services: [one("a"), silentStatus("b:9160", "it does not answer: refused")],
    problems: ["b:9160: it does not answer: refused"],
    notes: ['signer: "b" lives too, and was not asked'],
  },
  {
    name: "one that is not ready",
    services: [one("a"), one("b", { isReady: false, problem: "not ready: x", members: [] })],
    problems: ["b: not ready: x"],
    notes: [],
  },
  {
    name: "two databases",
    services: [one("a", { members: ["a"] }), one("b", { members: ["b"] })],
    problems: [/^a: does not see "b"; they use different databases/, /^b: does not see "a"/],
    notes: [],
  },
  {
    name: "another that lives",
    services: [one("a")],
    problems: [],
    notes: ['signer: "b" lives too, and was not asked'],
  },
  {
    name: "an upgrade under way",
    services: [one("a"), one("b", { version: "2" })],
    problems: [],
    notes: ["signer: versions 1 and 2 run"],
  },
  {
    name: "lists that differ",
    services: [one("a"), one("b", { krlVersion: 6 })],
    problems: [],
    notes: ["signer: the revocation lists are not the same; ask again"],
  },
  {
    name: "a certificate that ends soon, and one that has ended",
    services: [
      one("a", { certificate: { name: "server_cert", endsAt: NOW + 2.5 * DAY } }),
      one("b", { certificate: { name: "client_ca", endsAt: NOW } }),
    ],
    problems: ["a: server_cert ends in 3 days", "b: client_ca has ended"],
    notes: [],
  },
  {
    name: "a clock that is off",
    services: [one("a", { clockOffsetSeconds: -2.5 }), one("b", { clockOffsetSeconds: 2 })],
    problems: ["a: its clock is -2.5 s off; run a time service"],
    notes: [],
  },
  {
    name: "services of other kinds",
    services: [
      one("a"),
      one("b"),
      one("c", { service: "control-plane", members: [], instance: undefined }),
    ],
    problems: [],
    notes: [],
  },
])("judge() of $name", ({ services, problems, notes }) => {
  const verdict = judge(services, NOW);
  assert.equal(verdict.problems.length, problems.length, verdict.problems.join("\n"));
  for (const [index, expected] of problems.entries()) {
    const text = verdict.problems[index] ?? "";
    if (typeof expected === "string") assert.equal(text, expected);
    else assert.match(text, expected);
  }
  assert.deepEqual(verdict.notes, notes);
});
