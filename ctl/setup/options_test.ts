import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { type InitHost, parseHost, parseHosts, parseListener } from "./layout.ts";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";
const isUsage = (error: unknown) => error instanceof AppError && error.code === "invalid_request";

Deno.test.each<{ name: string; text: string; expected: Partial<InitHost> }>([
  {
    name: "every part",
    text: `web01=10.0.0.5:2222,user=deploy,key=${KEY}`,
    expected: { name: "web01", addr: "10.0.0.5:2222", user: "deploy", hostKey: KEY },
  },
  {
    name: "an address without port",
    text: `w=web.example,user=d,key=${KEY}`,
    expected: { addr: "web.example:22" },
  },
  { name: "an IPv6 address", text: `w=[fd00::5],user=d,key=${KEY}`, expected: { addr: "[fd00::5]:22" } },
  {
    name: "a key with a comment",
    text: `w=a:1,user=d,key=${KEY} root@web, the old one`,
    expected: { hostKey: KEY },
  },
])("parseHost() reads $name", ({ text, expected }) => {
  const host = parseHost(text);
  assert.deepEqual({ ...host, ...expected }, host);
});

Deno.test.each([
  { name: "no key", text: "web01=10.0.0.5,user=deploy" },
  { name: "no user", text: `web01=10.0.0.5,key=${KEY}` },
  { name: "no name", text: `10.0.0.5,user=deploy,key=${KEY}` },
  { name: "a broken key", text: "w=a:1,user=d,key=ssh-ed25519 AAAA" },
  { name: "two keys", text: `w=a:1,user=d,key=${KEY}\n${KEY}` },
  { name: "a name for a shell", text: `w$(id)=a:1,user=d,key=${KEY}` },
  { name: "a name that is a prototype", text: `__proto__=a:1,user=d,key=${KEY}` },
  { name: "a user for a shell", text: `w=a:1,user=d;id,key=${KEY}` },
  { name: "a user that is a path", text: `w=a:1,user=../root,key=${KEY}` },
  { name: "an address that is an option", text: `w=-oProxyCommand=id:22,user=d,key=${KEY}` },
])("parseHost() refuses $name", ({ text }) => {
  assert.throws(() => parseHost(text), isUsage);
});

Deno.test("parseHosts() refuses a name that is there twice", () => {
  const text = `web01=10.0.0.5,user=deploy,key=${KEY}`;
  assert.throws(() => parseHosts([text, text]), isUsage);
  assert.equal(parseHosts([text]).length, 1);
});

Deno.test("parseListener() takes addresses of this machine alone", () => {
  for (const text of ["127.0.0.1:1", "[::1]:65535", "localhost:9443", "127.8.8.8:1"]) {
    assert.equal(parseListener(text), text);
  }
  for (
    const text of [
      ":9443",
      "0.0.0.0:1",
      "10.0.0.1:1",
      "[::]:1",
      "127.0.0.1:0",
      "127.0.0.1",
      "127.0.0.1.example:1",
    ]
  ) {
    assert.throws(() => parseListener(text), isUsage, text);
  }
});
