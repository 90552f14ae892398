import assert from "node:assert/strict";
import { checkMode, checkPath, findKernelFolder, getCommand, putCommand } from "./transfer.ts";

Deno.test.each([
  ["a file", "/tmp/a", "", "cat > '/tmp/a'"],
  ["a file and its mode", "/tmp/a", "0600", "cat > '/tmp/a' && chmod 0600 '/tmp/a'"],
  ["a name with a quote", "/tmp/it's", "", String.raw`cat > '/tmp/it'\''s'`],
  ["a name with shell in it", "/tmp/$(id);x", "", "cat > '/tmp/$(id);x'"],
  ["a name with a dash", "-x", "", "cat > '-x'"],
])("putCommand() writes %s", (_name, path, mode, command) => {
  assert.equal(putCommand(path, mode), command);
});

Deno.test("getCommand() reads one byte more than the limit", () => {
  assert.equal(getCommand("/var/log/it's", 512), String.raw`head -c 513 < '/var/log/it'\''s'`);
});

Deno.test.each([
  { name: "an absolute path", path: "/etc/hosts" },
  { name: "a relative path", path: "notes.txt" },
  { name: "other scripts", path: "/tmp/größe-日本" },
  { name: "quotes and wildcards", path: "/tmp/'\"*?[x]" },
  { name: "a folder that is called like the kernel's", path: "/srv/dev/tcp/a" },
  { name: "such a folder beside the working one", path: "dev/notes" },
  { name: "a name that begins like it", path: "/devices/a" },
])("checkPath() accepts $name", ({ path }) => checkPath(path));

Deno.test.each([
  { name: "none", path: "", message: "path is required" },
  ...[
    "/dev/tcp/10.0.0.1/80",
    "//dev//tcp/127.0.0.1/22",
    "/./dev/tcp/a/1",
    "/tmp/../dev/tcp/a/1",
    "/dev/tcp",
    "a/../../../../dev/tcp/a/1",
  ].map((path) => ({
    name: path,
    path,
    message: "path is in /dev/tcp, which is a network connection to some shells",
  })),
  {
    name: "a datagram",
    path: "/dev/udp/10.0.0.1/53",
    message: "path is in /dev/udp, which is a network connection to some shells",
  },
  { name: "a NUL", path: "/a\0", message: "path contains null bytes" },
  { name: "a line feed", path: "/a\n", message: "path contains newline characters" },
  { name: "a carriage return", path: "/a\r", message: "path contains newline characters" },
  { name: "a blank", path: "/a b", message: "path contains whitespace or control characters" },
  { name: "a tab", path: "/a\tb", message: "path contains whitespace or control characters" },
  { name: "an escape", path: "/a\x1b", message: "path contains whitespace or control characters" },
  { name: "a no-break space", path: "/a\u00a0b", message: "path contains whitespace or control characters" },
  { name: "a bidi override", path: "/a\u202e", message: "path contains whitespace or control characters" },
  { name: "a delete", path: "/a\x7f", message: "path contains whitespace or control characters" },
  { name: "half a character", path: "/a\ud800", message: "path is not well-formed Unicode" },
])("checkPath() refuses $name", ({ path, message }) => {
  assert.throws(() => checkPath(path), { code: "invalid_request", message: `bad request: ${message}` });
});

Deno.test.each([
  { path: "/dev/sda", folder: "/dev" },
  { path: "/dev", folder: "/dev" },
  { path: "//tmp/.././dev//null", folder: "/dev" },
  { path: "../../../dev/mem", folder: "/dev" },
  { path: "/proc/self/environ", folder: "/proc" },
  { path: "/sys/power/state", folder: "/sys" },
  { path: "/system/a", folder: undefined },
  { path: "/srv/dev/a", folder: undefined },
  { path: "/dev/../srv/a", folder: undefined },
  { path: "proc/a", folder: undefined },
])("findKernelFolder() finds $folder for $path", ({ path, folder }) => {
  assert.equal(findKernelFolder(path), folder);
});

Deno.test.each(["", "644", "0644", "4755", "777"])("checkMode() accepts %j", (mode) => checkMode(mode, "/a"));

Deno.test.each(["64", "06444", "8", "888", "u+x", "644 ", " 644", "-644", "0o644", "644\n"])(
  "checkMode() refuses %j",
  (mode) => {
    const message = `bad request: invalid mode ${JSON.stringify(mode)} (expect 3-4 octal digits)`;
    assert.throws(() => checkMode(mode, "/a"), { code: "invalid_request", message });
  },
);

Deno.test("checkMode() refuses a path that chmod would take for an option, with a mode only", () => {
  checkMode("", "-R");
  assert.throws(() => checkMode("644", "-R"), {
    code: "invalid_request",
    message: 'bad request: path begins with "-": with a mode, write it as "./-…"',
  });
});
