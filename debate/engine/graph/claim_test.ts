import assert from "node:assert/strict";
import { assertFast } from "../../testing/linear_time.ts";
import { claimKey, readClaim, readFault } from "./claim.ts";

Deno.test.each([
  { name: "in English", text: "{component: db pool; fault: resource_leak; path: a > b -> c} It leaks." },
  { name: "in Spanish", text: "{componente: db pool; fallo: fuga de recursos; camino: a → b > c} Se agota." },
  { name: "in a code span", text: "`{component: db pool; fault: leak; path: a>b>c}`: the pool leaks" },
  { name: "in another order", text: "{path: a > b > c; fault: leak; component: db pool}" },
])("readClaim() reads a claim $name", ({ text }) => {
  const claim = { component: "db pool", fault: "resource_leak" as const, path: ["a", "b", "c"] };
  assert.deepEqual(readClaim(text), { kind: "claim", claim });
});

Deno.test.each([
  { name: "without one", text: "The pool leaks", reason: "absent" },
  { name: "with two", text: "{component: a; fault: data} or {component: b; fault: data}", reason: "several" },
  { name: "behind a denial", text: "It is not {component: a; fault: data}", reason: "denied" },
  { name: "that is taken back", text: "{component: a; fault: data} is not the cause", reason: "denied" },
  { name: "taken back in Spanish", text: "{component: a; fault: data} no es la causa", reason: "denied" },
  { name: "that is ruled out", text: "{component: a; fault: data}: this was ruled out", reason: "denied" },
  { name: "without a component", text: "{component: ; fault: data}", reason: "malformed" },
  { name: "of two faults", text: "{component: a; fault: data or change}", reason: "malformed" },
  { name: "of every fault", text: "{component: a; fault: data capacity change}", reason: "malformed" },
  {
    name: "that states a fault twice",
    text: "{component: a; fault: data; fault: change}",
    reason: "malformed",
  },
  { name: "with other keys", text: "{component: a; fault: data; score: 1}", reason: "malformed" },
])("readClaim() takes nothing from a text $name", ({ text, reason }) => {
  assert.deepEqual(readClaim(text), { kind: "none", reason });
});

Deno.test("claimKey() is the same however a component is written, and different for what is not the same", () => {
  const key = claimKey("{component: The Orders-DB pool; fault: leak}");
  assert.equal(claimKey("{componente: orders db  POOL; fallo: fuga}"), key);
  assert.notEqual(claimKey("{component: orders-db pool; fault: capacity}"), key);
  assert.notEqual(claimKey("{component: orders-db; fault: leak}"), key);
  assert.equal(claimKey("orders db pool leaks"), undefined);
  assert.equal(claimKey("{component: x; fault: none}"), claimKey("{component: y; fault: no fault}"));
});

Deno.test("readFault() knows names in both languages and no sentences", () => {
  assert.equal(readFault("Configuración"), "configuration");
  assert.equal(readFault("not a leak"), undefined);
  assert.equal(readFault(""), undefined);
});

Deno.test("readClaim() takes linear time", () => {
  assertFast("braces", () => readClaim("{".repeat(500_000)));
  assertFast("components", () => readClaim("{component: ".repeat(100_000)));
  assertFast("spaces", () => readClaim(`{component: a; fault: data}${" ".repeat(500_000)}`));
});
