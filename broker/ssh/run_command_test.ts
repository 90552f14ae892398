import assert from "node:assert/strict";
import { exitCodeOf } from "./run_command.ts";

Deno.test.each([0, 1, 126, 255, 4_294_967_295].map((status) => ({ status })))(
  "exitCodeOf() passes the status $status on",
  ({ status }) => assert.equal(exitCodeOf(status), status),
);

Deno.test.each([
  { name: "HUP", code: 129 },
  { name: "INT", code: 130 },
  { name: "QUIT", code: 131 },
  { name: "ILL", code: 132 },
  { name: "ABRT", code: 134 },
  { name: "FPE", code: 136 },
  { name: "KILL", code: 137 },
  { name: "SEGV", code: 139 },
  { name: "PIPE", code: 141 },
  { name: "ALRM", code: 142 },
  { name: "TERM", code: 143 },
  { name: "USR1", code: 128 },
  { name: "sig@example.com", code: 128 },
  { name: "toString", code: 128 },
  { name: "", code: 128 },
])("exitCodeOf() gives $code for the signal $name", ({ name, code }) => {
  assert.equal(exitCodeOf(null, `SIG${name}`), code);
});
