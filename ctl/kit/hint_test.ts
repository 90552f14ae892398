import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { type Advice, HintedError, withHint } from "./output.ts";

const ADVICE: Advice = { when: ({ code }) => code === "conflict", hint: "stop it first" };

Deno.test("withHint() gives advice on the error that it is about, and keeps its code and cause", async () => {
  const cause = new Error("below");
  const error = new AppError("conflict", "in use", { cause });
  await assert.rejects(withHint(ADVICE, () => Promise.reject(error)), (hinted) => {
    assert.ok(hinted instanceof HintedError);
    const { code, message, hint } = hinted;
    assert.deepEqual({ code, message, hint, cause: hinted.cause }, {
      code: "conflict",
      message: "in use",
      hint: "stop it first",
      cause,
    });
    return true;
  });
});

Deno.test.each([
  { name: "another AppError", error: new AppError("not_found", "no such file") },
  { name: "a defect", error: new TypeError("x") },
])("withHint() leaves $name as it is", async ({ error }) => {
  await assert.rejects(withHint(ADVICE, () => Promise.reject(error)), (thrown) => thrown === error);
});

Deno.test("withHint() gives the result", async () => {
  assert.equal(await withHint(ADVICE, () => Promise.resolve(7)), 7);
});
