import assert from "node:assert/strict";
import type { FreezeSubject } from "@gateway/shared/wire";
import { KnownSubjects } from "./freezes.ts";

function known() {
  const subjects = new KnownSubjects();
  for (const name of ["broker-1", "broker-22", "far-away"]) subjects.add("caller", name);
  for (const name of ["agent", "Alice"]) subjects.add("end_user", name);
  return subjects;
}

Deno.test.each<{ name: string; subject: FreezeSubject; warning: RegExp | undefined }>([
  { name: "a known caller", subject: { kind: "caller", value: "broker-1" }, warning: undefined },
  { name: "one in capitals", subject: { kind: "end_user", value: "ALICE." }, warning: undefined },
  {
    name: "one that is known as an end user",
    subject: { kind: "caller", value: "agent" },
    warning: /^no request since the signer's start named caller=agent; requests named end_user=agent$/,
  },
  {
    name: "a misspelt one",
    subject: { kind: "caller", value: "brokr-1" },
    warning: /named caller=brokr-1; requests named caller=broker-1$/,
  },
  { name: "somebody else", subject: { kind: "end_user", value: "zed-9" }, warning: /named end_user=zed-9$/ },
  { name: "a session", subject: { kind: "session_id", value: "x" }, warning: undefined },
])("warningFor() $name", ({ subject, warning }) => {
  const text = known().warningFor(subject);
  if (warning === undefined) assert.equal(text, undefined);
  else assert.match(text ?? "", warning);
});

Deno.test("add() keeps the last names, in bounded memory", () => {
  const subjects = known();
  for (let index = 0; index < 4096; index++) subjects.add("caller", `made-up-${index}`);
  assert.match(subjects.warningFor({ kind: "caller", value: "broker-1" }) ?? "", /no request/);
  assert.equal(subjects.warningFor({ kind: "caller", value: "made-up-0" }), undefined);
  assert.equal(subjects.warningFor({ kind: "end_user", value: "agent" }), undefined, "the kinds are apart");
});
