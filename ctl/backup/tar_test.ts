import assert from "node:assert/strict";
import { readTar, writeTar } from "./tar.ts";

const FILES = [
  {
    path: "/etc/gateway/pki/ssh_ca",
    mode: 0o600,
    uid: 0,
    gid: 107,
    content: new TextEncoder().encode("secret\n"),
  },
  {
    path: `/${"a".repeat(90)}/${"b".repeat(90)}/é`,
    mode: 0o644,
    uid: 1000,
    gid: 1000,
    content: new Uint8Array(1024).fill(7),
  },
  { path: "/empty", mode: 0o400, uid: 0, gid: 0, content: new Uint8Array() },
];

Deno.test("readTar() returns the files that writeTar() received", () => {
  const archive = writeTar(FILES);
  assert.equal(archive.length % 512, 0);
  assert.deepEqual(readTar(archive), FILES);
  assert.deepEqual(readTar(writeTar([])), []);
});

Deno.test("writeTar() rejects a path that is too long", () => {
  assert.throws(
    () => writeTar([{ path: `/${"a".repeat(101)}`, mode: 0, uid: 0, gid: 0, content: new Uint8Array() }]),
    RangeError,
  );
});

Deno.test("readTar() rejects a truncated archive and any changed byte of a header", () => {
  const archive = writeTar(FILES);
  for (const length of [0, 511, 512, 1024, archive.length - 1024]) {
    assert.throws(() => readTar(archive.slice(0, length)), RangeError, String(length));
  }
  // Except the space after the checksum, which no program reads.
  for (let index = 0; index < 512; index++) {
    if (index === 155) continue;
    const changed = archive.slice();
    changed[index] = (changed[index] ?? 0) ^ 1;
    assert.throws(() => readTar(changed), Error, String(index));
  }
});

Deno.test("readTar() rejects a path that is not normalized", () => {
  assert.throws(
    () => readTar(writeTar([{ path: "/a/../b", mode: 0, uid: 0, gid: 0, content: new Uint8Array() }])),
    /a path of the archive is not normalized/,
  );
});
