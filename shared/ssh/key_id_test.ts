import assert from "node:assert/strict";
import { formatKeyId, type KeyIdParts } from "./certificate.ts";

const parts: KeyIdParts = { caller: "broker-1", host: "web01", role: "target", issuedAt: 1_700_000_000 };

Deno.test.each([
  { name: "the required values", more: {}, tail: "" },
  { name: "empty optional values", more: { endUser: "", elevationPrefix: "", pty: false }, tail: "" },
  { name: "an end user", more: { endUser: "alice@example" }, tail: " user=alice@example" },
  { name: "an elevation", more: { elevationPrefix: "sudo -n" }, tail: " elev=sudo -n" },
  { name: "a terminal", more: { pty: true }, tail: " pty=1" },
  {
    name: "all of them in order",
    more: { pty: true, elevationPrefix: "sudo -n -u deploy", endUser: "alice" },
    tail: " user=alice elev=sudo -n -u deploy pty=1",
  },
])("formatKeyId() writes $name", ({ more, tail }) => {
  assert.equal(
    formatKeyId({ ...parts, ...more }),
    `agent=broker-1 host=web01 role=target t=1700000000${tail}`,
  );
});

Deno.test.each([
  { name: "an empty caller", more: { caller: "" } },
  { name: "an empty host", more: { host: "" } },
  { name: "an empty role", more: { role: "" } },
  { name: "a caller with a blank", more: { caller: "a user=root" } },
  { name: "a host with a tab", more: { host: "a\tb" } },
  { name: "a role with a line end (L14)", more: { role: "target\n" } },
  { name: "an end user with a blank", more: { endUser: "alice pty=1" } },
  { name: "an end user with a no-break space", more: { endUser: "alice\u00a0pty=1" } },
  { name: "an end user with a C1 control (L14)", more: { endUser: "a\u009b2J" } },
  { name: "an end user with a line separator", more: { endUser: "a\u2028b" } },
  { name: "an end user with DEL", more: { endUser: "a\x7f" } },
  { name: "an elevation with a line end", more: { elevationPrefix: "sudo -n\nx" } },
])("formatKeyId() refuses $name", ({ more }) => {
  assert.throws(() => formatKeyId({ ...parts, ...more }), TypeError);
});

Deno.test.each([
  ["milliseconds", 1.5],
  ["a negative time", -1],
  ["no number", NaN],
])("formatKeyId() refuses %s", (_name, issuedAt) => {
  assert.throws(() => formatKeyId({ ...parts, issuedAt }), RangeError);
});
