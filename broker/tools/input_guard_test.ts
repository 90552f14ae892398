import assert from "node:assert/strict";
import { guardInput, MAX_FIELD_BYTES } from "./tool.ts";

Deno.test.each([
  { name: "an empty text", value: "" },
  { name: "exactly the limit", value: "x".repeat(MAX_FIELD_BYTES) },
  { name: "exactly the limit in two-byte characters", value: "é".repeat(MAX_FIELD_BYTES / 2) },
  { name: "no text at all", value: undefined },
])("guardInput() accepts $name", ({ value }) => {
  guardInput("command", value);
});

Deno.test.each([
  { name: "one byte too many", value: "x".repeat(MAX_FIELD_BYTES + 1) },
  { name: "too many bytes in few characters", value: "é".repeat(MAX_FIELD_BYTES / 2) + "x" },
])("guardInput() refuses $name", ({ value }) => {
  assert.throws(() => guardInput("command", value), {
    code: "invalid_request",
    message: 'field "command" exceeds the limit of 65536 bytes',
  });
});

Deno.test.each([
  { name: "at the start", value: "\0uptime" },
  { name: "in the middle", value: "up\0time" },
  { name: "at the end", value: "uptime\0" },
])("guardInput() refuses a NUL $name", ({ value }) => {
  assert.throws(() => guardInput("sudo_user", value), {
    code: "invalid_request",
    message: 'field "sudo_user" contains null bytes',
  });
});
