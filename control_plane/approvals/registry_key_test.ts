import assert from "node:assert/strict";
import { PUBLIC_KEY } from "../testing/sample_approval.ts";
import { isSameKey } from "./registry.ts";

const OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

Deno.test.each([
  { name: "the same line", line: PUBLIC_KEY, same: true },
  { name: "another comment and a line end", line: `${PUBLIC_KEY} broker@example\n`, same: true },
  { name: "another key", line: OTHER, same: false },
  { name: "nothing", line: "", same: false },
  { name: "options before the key", line: `command="id" ${PUBLIC_KEY}`, same: false },
  { name: "two keys", line: `${PUBLIC_KEY}\n${OTHER}`, same: false },
  { name: "a key cut short", line: PUBLIC_KEY.slice(0, -4), same: false },
])("isSameKey() of $name is $same", ({ line, same }) => {
  assert.equal(isSameKey(line, PUBLIC_KEY), same);
  assert.equal(isSameKey(PUBLIC_KEY, line), same);
});

Deno.test("isSameKey() takes no two absent keys for the same", () => {
  assert.equal(isSameKey("", ""), false);
});
