import assert from "node:assert/strict";
import { parseIdentityMap } from "./guard.ts";

const USER = /^U[A-Z0-9]+$/;

Deno.test("parseIdentityMap() reads ids with their identities, comments too", () => {
  const map = parseIdentityMap(
    '{ "_comment": "who", "U1": "ann@example.com", /* x */ "U2": "Bob" }',
    "m.json",
    USER,
  );
  assert.deepEqual([...map], [["U1", "ann@example.com"], ["U2", "Bob"]]);
});

Deno.test.each<{ name: string; text: string; problem: RegExp }>([
  { name: "no entry", text: "{}", problem: /it is empty; nobody could approve/ },
  { name: "half a text", text: '{"U1": "ann', problem: /Cannot load identity map "m\.json"/ },
  { name: "a list", text: '["U1"]', problem: /Cannot load identity map/ },
  { name: "an id twice", text: '{"U1": "ann", "U1": "bob"}', problem: /Cannot load identity map/ },
  { name: "a name for an id", text: '{"ann": "ann"}', problem: /"ann" is no id of a user of this chat/ },
  { name: "no identity", text: '{"U1": " "}', problem: /"U1" has no identity that can be compared/ },
  {
    name: "an identity that does not show",
    text: '{"U1": "ann\\u200b"}',
    problem: /no identity that can be/,
  },
  { name: "an identity that is no text", text: '{"U1": 1}', problem: /Cannot load identity map/ },
])("parseIdentityMap() refuses a map with $name", ({ text, problem }) => {
  assert.throws(() => parseIdentityMap(text, "m.json", USER), problem);
});
