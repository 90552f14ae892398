import assert from "node:assert/strict";
import fc from "fast-check";
import { AppError } from "../errors.ts";
import { formatLogLine, getServiceLogger, type LogFields } from "./log.ts";

const format = (message: string, fields: LogFields = {}) =>
  formatLogLine({ timestamp: 0, level: "info", service: "signer", message, fields });

Deno.test("formatLogLine() writes one line of JSON without control characters, whatever is logged", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.dictionary(fc.string(), fc.anything()),
      (message, fields) => {
        const line = format(message, fields);
        // deno-lint-ignore no-control-regex -- that none is left is what must hold
        assert.match(line, /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*\n$/);
        assert.equal(JSON.parse(line).message, message);
      },
    ),
  );
});

Deno.test("formatLogLine() does not let a field replace time, level, service or message", () => {
  const line = JSON.parse(
    format("denied", { level: "debug", message: "issued", time: "never", service: "x", a: 1 }),
  );
  assert.deepEqual(line, {
    time: "1970-01-01T00:00:00.000Z",
    level: "info",
    service: "signer",
    message: "denied",
    a: 1,
  });
});

Deno.test("formatLogLine() spells out errors with their causes, and stacks only of defects", () => {
  const error = new AppError("upstream_failure", "Failed contacting the signer", {
    cause: new TypeError("reset"),
  });
  const { error: written } = JSON.parse(format("request failed", { error }));
  assert.equal(written.code, "upstream_failure");
  assert.equal(written.stack, undefined);
  assert.equal(written.cause.message, "reset");
  assert.match(written.cause.stack, /^TypeError: reset/);
});

Deno.test("formatLogLine() gets to the address behind a failure that was told in other words five times", () => {
  let error = new Error("connect ECONNREFUSED 10.0.0.5:9443");
  for (let step = 0; step < 6; step++) {
    error = new AppError("upstream_failure", `step ${step}`, { cause: error });
  }
  assert.match(format("Tool call failed", { error }), /10\.0\.0\.5:9443/);
});

Deno.test("formatLogLine() survives causes in a circle, circles and throwing members", () => {
  const error = new Error("a");
  error.cause = error;
  assert.ok(JSON.parse(format("x", { error })));
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const hostile = {
    toJSON() {
      throw new Error("no");
    },
  };
  for (const value of [circle, hostile]) {
    assert.equal(JSON.parse(format("x", { value })).fields, "not representable as JSON");
  }
});

Deno.test("getServiceLogger() is silent and harmless before logging is configured", () => {
  const logger = getServiceLogger("signer");
  logger.info("{not} a template");
  logger.warn("a", { a: 1n });
  logger.error("a", { error: new Error("x") });
});
