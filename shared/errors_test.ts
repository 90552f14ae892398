import assert from "node:assert/strict";
import { AppError, describeFault, errorName, errorText } from "./errors.ts";

Deno.test.each<
  { readonly name: string; readonly error: unknown; readonly text: string; readonly kind: string }
>([
  { name: "an error of ours", error: new AppError("denied", "no"), text: "no", kind: "AppError" },
  {
    // What node:net gives when every address of a name refuses the connection.
    name: "an error without a message",
    error: new AggregateError([new Error("refused")]),
    text: "AggregateError",
    kind: "AggregateError",
  },
  { name: "a text", error: "gone", text: "gone", kind: "string" },
  { name: "nothing", error: undefined, text: "undefined", kind: "undefined" },
])("errorText() and errorName() of $name", ({ error, text, kind }) => {
  assert.deepEqual([errorText(error), errorName(error), describeFault(error)], [text, kind, text]);
});

Deno.test("describeFault() has every cause, and an end where an error is its own cause", () => {
  const root = new Error("ECONNREFUSED");
  const error = new AppError("upstream_failure", "no answer", { cause: new Error("", { cause: root }) });
  assert.equal(describeFault(error), "no answer: Error: ECONNREFUSED");
  root.cause = root;
  assert.match(describeFault(error), /^no answer: Error: (?:ECONNREFUSED(?:: )?){7}$/);
});
