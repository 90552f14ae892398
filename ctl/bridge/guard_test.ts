import assert from "node:assert/strict";
import { findObjection, type IdentityMap, parseIdentityMap } from "./guard.ts";
import type { Member } from "./chat.ts";
import type { Verb } from "./card.ts";

const MAP: IdentityMap = new Map([["U1", "ann@example.com"], ["U2", "broker-1"], ["U4", "cy"]]);

interface Row {
  readonly name: string;
  readonly user?: string;
  readonly verb?: Verb;
  readonly endUser?: string | undefined;
  readonly member?: Member;
  readonly identities?: IdentityMap;
  readonly objection?: RegExp;
}

const LEARN = { kind: "learn", ttlSeconds: 60 } as const;
const DENY = { kind: "deny" } as const;

Deno.test.each<Row>([
  { name: "approve what somebody else asks for" },
  { name: "learn from what somebody else asks for", verb: LEARN },
  { name: "approve what he asks for", endUser: "ann@example.com", objection: /whoever asks/ },
  { name: "learn from what he asks for", endUser: "ann@example.com", verb: LEARN, objection: /whoever asks/ },
  { name: "approve what he asks for in capitals", endUser: "ANN@EXAMPLE.COM", objection: /whoever asks/ },
  { name: "approve what he asks for with a dot", endUser: "ann@example.com.", objection: /whoever asks/ },
  {
    name: "approve what he asks for in wide letters",
    endUser: "\uff41nn@example.com",
    objection: /whoever asks/,
  },
  { name: "approve for who is perhaps himself without a domain", endUser: "Ann", objection: /same name/ },
  {
    name: "approve for who is perhaps himself elsewhere",
    endUser: "ann@corp.example",
    objection: /same name/,
  },
  {
    name: "approve for who is perhaps himself with a domain",
    user: "U4",
    endUser: "CORP\\cy",
    objection: /same name/,
  },
  {
    name: "approve for who is perhaps himself in a realm",
    user: "U4",
    endUser: "corp/cy",
    objection: /same name/,
  },
  { name: "approve for who has the same domain", endUser: "anna@example.com" },
  { name: "deny what he perhaps asks for", endUser: "ann", verb: DENY },
  { name: "approve as the broker that asks", user: "U2", objection: /whoever asks/ },
  { name: "approve when he is not in the map", user: "U3", objection: /identity map does not say/ },
  { name: "approve by the name of a prototype", user: "constructor", objection: /identity map does not say/ },
  { name: "approve for nobody", endUser: undefined, objection: /for whom it is asked is not known/ },
  { name: "approve for the empty name", endUser: "", objection: /for whom it is asked is not known/ },
  { name: "deny when he is not in the map", user: "U3", verb: DENY },
  { name: "deny what he asks for", endUser: "ann@example.com", verb: DENY },
  { name: "approve with the guard off", user: "U3", endUser: "", identities: undefined },
  { name: "deny as a program", member: "program", verb: DENY, objection: /programs/ },
  {
    name: "approve as a program with the guard off",
    member: "program",
    identities: undefined,
    objection: /programs/,
  },
  {
    name: "approve from elsewhere with the guard off",
    member: "outsider",
    identities: undefined,
    objection: /another/,
  },
  { name: "approve by a closed account", member: "gone", objection: /closed/ },
])("findObjection(): whether somebody may $name", (row) => {
  const { user = "U1", verb = { kind: "approve" }, member = "person", objection } = row;
  const endUser = "endUser" in row ? row.endUser : "bob@example.com";
  const identities = "identities" in row ? row.identities : MAP;
  const found = findObjection({
    click: { user, verb },
    record: { caller: "Broker-1", end_user: endUser },
    member,
    identities,
  });
  if (objection === undefined) assert.equal(found, undefined);
  else assert.match(found ?? "", objection);
});

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
