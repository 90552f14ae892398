import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { parseModelId } from "./families.ts";

Deno.test("parseModelId() takes provider and name apart", () => {
  assert.deepEqual(parseModelId("hub/openai/gpt-4o"), { provider: "hub", name: "openai/gpt-4o" });
  assert.deepEqual(parseModelId("replay/memory_leak"), { provider: "replay", name: "memory_leak" });
});

Deno.test.each([
  { id: "" },
  { id: "gpt-4o" },
  { id: "hub/" },
  { id: "Hub/x" },
  { id: "other/x" },
  { id: "hub/a b" },
  { id: "hub/a\n" },
  { id: `hub/${"x".repeat(201)}` },
])("parseModelId() refuses $id", ({ id }) => {
  assert.throws(
    () => parseModelId(id),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});
