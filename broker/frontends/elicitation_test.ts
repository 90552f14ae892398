import assert from "node:assert/strict";
import { canElicit, readElicitation, readInput } from "./elicitation.ts";

Deno.test.each<{ name: string; capabilities: unknown; can: boolean }>([
  { name: "nothing", capabilities: undefined, can: false },
  { name: "other capabilities", capabilities: { sampling: {} }, can: false },
  { name: "a bare elicitation", capabilities: { elicitation: {} }, can: true },
  { name: "forms", capabilities: { elicitation: { form: {} } }, can: true },
  { name: "forms and URLs", capabilities: { elicitation: { form: {}, url: {} } }, can: true },
  { name: "URLs alone", capabilities: { elicitation: { url: {} } }, can: false },
  { name: "something else", capabilities: { elicitation: true }, can: false },
  { name: "null", capabilities: { elicitation: null }, can: false },
])("canElicit() of a client that declares $name is $can", ({ capabilities, can }) => {
  assert.equal(canElicit(capabilities), can);
});

Deno.test.each<{ name: string; result: unknown; why: string }>([
  { name: "decline", result: { action: "decline" }, why: "declined: decline" },
  { name: "cancel", result: { action: "cancel" }, why: "declined: cancel" },
  {
    name: "decline with approve",
    result: { action: "decline", content: { approve: true } },
    why: "declined: decline",
  },
  {
    name: "accept of a false",
    result: { action: "accept", content: { approve: false } },
    why: "declined: approve is not true",
  },
  { name: "accept of nothing", result: { action: "accept" }, why: "declined: approve is not true" },
  {
    name: "accept of an empty form",
    result: { action: "accept", content: {} },
    why: "declined: approve is not true",
  },
  ...["true", 1, null, [true], { approve: true }].map((approve) => ({
    name: `accept of ${JSON.stringify(approve)}`,
    result: { action: "accept", content: { approve } },
    why: "declined: approve is not true",
  })),
  {
    name: "another action",
    result: { action: "Accept", content: { approve: true } },
    why: "declined: no answer that can be read",
  },
  { name: "no object", result: "accept", why: "declined: no answer that can be read" },
  { name: "nothing", result: undefined, why: "declined: no answer that can be read" },
])("readElicitation() takes $name for a no (A14)", ({ result, why }) => {
  assert.deepEqual(readElicitation(result), { kind: "declined", why });
});

Deno.test("readElicitation() takes accept with approve for a yes", () => {
  assert.deepEqual(readElicitation({ action: "accept", content: { approve: true, more: 1 } }), {
    kind: "approved",
  });
});

Deno.test("readInput() takes the answer of its own name alone", () => {
  const yes = { action: "accept", content: { approve: true } };
  assert.equal(readInput({ approval: yes }).kind, "approved");
  for (const responses of [undefined, {}, { other: yes }, Object.create({ approval: yes })]) {
    assert.equal(readInput(responses).kind, "declined");
  }
});
