import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import {
  createLineWriter,
  EXIT_CODES,
  exitCodeOf,
  HintedError,
  RemoteError,
  writeError,
  writeResult,
} from "./output.ts";

function capture() {
  const written = { out: "", err: "" };
  const terminal = {
    out: (text: string) => void (written.out += text),
    err: (text: string) => void (written.err += text),
  };
  return { written, terminal };
}

Deno.test("writeResult() writes lines with control characters made visible", () => {
  const { written, terminal } = capture();
  writeResult(terminal, { json: false }, { json: {}, lines: ["a\x1b[2Jb", "c\nd"] });
  assert.deepEqual(written, { out: "a\\x1b[2Jb\nc\\x0ad\n", err: "" });
});

Deno.test("writeResult() writes one JSON object with exact numbers", () => {
  const { written, terminal } = capture();
  writeResult(terminal, { json: true }, { json: { serial: 18446744073709551615n }, lines: ["x"] });
  assert.deepEqual(written, { out: '{"serial":18446744073709551615}\n', err: "" });
});

Deno.test("writeResult() and writeError() write JSON that steers no terminal, of the same value", () => {
  const value = { text: "a\x1b[2J\x7f\x9b\u202e\u{e0001}\u2028b" };
  const { written, terminal } = capture();
  writeResult(terminal, { json: true }, { json: value, lines: [] });
  writeError(terminal, { json: true }, new AppError("conflict", value.text));
  assert.match(written.out + written.err, /^(?:\P{C}|\n)*$/u);
  assert.deepEqual(JSON.parse(written.out), value);
  assert.equal(JSON.parse(written.err).message, value.text);
});

Deno.test("createLineWriter() makes control characters visible, as JSON in JSON", () => {
  for (
    const { json, line } of [
      { json: false, line: '{\\x09"a":"\\x9b"}\n' },
      { json: true, line: '{ "a":"\\u009b"}\n' },
    ]
  ) {
    const { written, terminal } = capture();
    const writer = createLineWriter(terminal, { json });
    writer.line('{\t"a":"\x9b"}');
    writer.note("\x1b");
    assert.deepEqual([writer.json, written], [json, { out: line, err: "\\x1b\n" }]);
  }
});

Deno.test.each<{ name: string; error: unknown; text: string; json: object }>([
  {
    name: "an error",
    error: new AppError("invalid_config", "Cannot load\n  two things \x1b[1m"),
    text: "error: Cannot load\n  two things \\x1b[1m\n",
    json: { code: "invalid_config", message: "Cannot load\n  two things \x1b[1m", hint: "" },
  },
  {
    name: "an error with a hint",
    error: new HintedError(new AppError("conflict", "it exists"), "--force"),
    text: "error: it exists\nhint: --force\n",
    json: { code: "conflict", message: "it exists", hint: "--force" },
  },
  {
    name: "a file that the system refuses",
    error: new Deno.errors.PermissionDenied("no entry"),
    text: "error: no entry\n",
    json: { code: "internal", message: "no entry", hint: "" },
  },
  {
    name: "a full disk",
    error: new Error("No space left on device (os error 28)"),
    text: "error: No space left on device (os error 28)\n",
    json: { code: "internal", message: "No space left on device (os error 28)", hint: "" },
  },
  {
    name: "a full disk, by Node's API",
    error: Object.assign(new Error("ENOSPC: no space left on device, write"), { syscall: "write" }),
    text: "error: ENOSPC: no space left on device, write\n",
    json: { code: "internal", message: "ENOSPC: no space left on device, write", hint: "" },
  },
  {
    name: "a defect",
    error: new TypeError("oops"),
    text: "error: TypeError: oops\nhint: this is a defect of broker-ctl\n",
    json: { code: "internal", message: "TypeError: oops", hint: "this is a defect of broker-ctl" },
  },
])("writeError() shows $name as text and as one JSON object", ({ error, text, json }) => {
  const plain = capture();
  writeError(plain.terminal, { json: false }, error);
  assert.deepEqual(plain.written, { out: "", err: text });
  const object = capture();
  writeError(object.terminal, { json: true }, error);
  assert.equal(object.written.out, "");
  assert.deepEqual(JSON.parse(object.written.err), json);
});

Deno.test("exitCodeOf() tells a wrong call from a failure", () => {
  assert.equal(exitCodeOf(new AppError("invalid_request", "x")), EXIT_CODES.usage);
  assert.equal(exitCodeOf(new HintedError(new AppError("invalid_request", "x"), "y")), EXIT_CODES.usage);
  assert.equal(exitCodeOf(new RemoteError(new AppError("invalid_request", "x"), "y")), EXIT_CODES.failed);
  assert.equal(exitCodeOf(new AppError("conflict", "x")), EXIT_CODES.failed);
  assert.equal(exitCodeOf(new Error("x")), EXIT_CODES.failed);
});
