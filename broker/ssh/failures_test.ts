import assert from "node:assert/strict";
import { socketFailure } from "./failures.ts";

const failed = (code: string) =>
  Object.assign(new Error(`connect ${code} 10.0.0.21:22`), { code, address: "10.0.0.21", port: 22 });

Deno.test.each([
  { error: failed("ECONNREFUSED"), text: "connection: connection refused" },
  { error: failed("ECONNRESET"), text: "connection: connection reset by the host" },
  { error: failed("EHOSTUNREACH"), text: "connection: host unreachable" },
  { error: failed("ENETUNREACH"), text: "connection: network unreachable" },
  { error: failed("ENOTFOUND"), text: "connection: host name not found" },
  { error: failed("ETIMEDOUT"), text: "connection: connect timeout" },
  { error: failed("EMFILE"), text: "connection: connect failed" },
  { error: failed("constructor"), text: "connection: connect failed" },
  { error: new Error("10.0.0.21"), text: "connection: connect failed" },
  { error: "10.0.0.21", text: "connection: connect failed" },
  {
    error: new Deno.errors.NotCapable('Requires net access to "10.0.0.21:22"'),
    text: "connection: host address is not among those that this broker may connect to",
  },
])("socketFailure() says '$text' and keeps the address for the log (I19)", ({ error, text }) => {
  const failure = socketFailure(error);
  assert.equal(failure.code, "upstream_failure");
  assert.equal(failure.message, text);
  assert.equal(failure.cause, error);
});
