import assert from "node:assert/strict";
import { WebFixture } from "../testing/web_fixture.ts";
import { ALL_GUESSES, CALLER_GUESSES } from "./guard.ts";

const LOGIN = { WEB_USERNAME: "ann", WEB_PASSWORD: "right" };

const basic = (password: string) => `Basic ${new TextEncoder().encode(`ann:${password}`).toBase64()}`;

/** Requests of somebody with a password, at an address, perhaps with a cookie. */
async function openServer() {
  const web = await WebFixture.open({ env: LOGIN });
  const ask = async (password: string, address: string, cookie?: string) => {
    web.address = address;
    const response = await web.get("/api/prompts", {
      authorization: basic(password),
      ...(cookie !== undefined && { cookie }),
    });
    await response.body?.cancel();
    return response;
  };
  const exhaust = async (address: string, cookie?: string) => {
    const statuses = [];
    for (let count = 0; count < CALLER_GUESSES; count++) {
      statuses.push((await ask("wrong", address, cookie)).status);
    }
    assert.deepEqual(new Set(statuses), new Set([401]));
  };
  return { web, ask, exhaust };
}

const cookieOf = (response: Response) => response.headers.get("set-cookie")?.split(";")[0] ?? "";

Deno.test("wrong passwords of an address are bounded: then not even the right one is told", async () => {
  const { web, ask, exhaust } = await openServer();
  await exhaust("203.0.113.7");
  for (const password of ["wrong", "right"]) {
    const refused = await ask(password, "203.0.113.7");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "6");
  }
  await web.clock.advance(6000);
  assert.equal((await ask("right", "203.0.113.7")).status, 200);
});

Deno.test("wrong passwords of one address lock out no other", async () => {
  const { ask, exhaust } = await openServer();
  await exhaust("203.0.113.7");
  assert.equal((await ask("wrong", "203.0.113.7")).status, 429);
  assert.equal((await ask("right", "203.0.113.8")).status, 200);
  assert.equal((await ask("wrong", "203.0.113.8")).status, 401);
});

Deno.test("a browser that was right once is not locked out by others at its address", async () => {
  const { ask, exhaust } = await openServer();
  const first = await ask("right", "127.0.0.1");
  assert.match(
    first.headers.get("set-cookie") ?? "",
    /^debate_browser=[\w-]{12}\.[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/,
  );
  await exhaust("127.0.0.1");
  assert.equal((await ask("right", "127.0.0.1")).status, 429);
  const known = await ask("right", "127.0.0.1", `a=b; ${cookieOf(first)}`);
  assert.deepEqual([known.status, known.headers.get("set-cookie")], [200, null]);
});

Deno.test("the cookie is not a credential: its guesses are bounded too, and without a password it is useless", async () => {
  const { web, ask, exhaust } = await openServer();
  const cookie = cookieOf(await ask("right", "127.0.0.1"));
  assert.equal((await web.get("/api/prompts", { cookie })).status, 401);
  await exhaust("127.0.0.1", cookie);
  assert.equal((await ask("right", "127.0.0.1", cookie)).status, 429);
});

Deno.test.each([
  { name: "without its signature", forge: (cookie: string) => cookie.split(".")[0] ?? "" },
  {
    name: "with another id",
    forge: (cookie: string) => cookie.replace(/=./, (two) => two === "=A" ? "=B" : "=A"),
  },
  { name: "with another signature", forge: (cookie: string) => cookie.replace(/\..*/, `.${"A".repeat(43)}`) },
  { name: "of another server", forge: () => `debate_browser=${"A".repeat(12)}.${"A".repeat(43)}` },
])("a cookie $name gives no guesses of its own", async ({ forge }) => {
  const { ask, exhaust } = await openServer();
  const cookie = forge(cookieOf(await ask("right", "127.0.0.1")));
  await exhaust("127.0.0.1");
  assert.equal((await ask("right", "127.0.0.1", cookie)).status, 429);
});

Deno.test("many addresses do not help: all guesses together are bounded", async () => {
  const { web, ask } = await openServer();
  const known = cookieOf(await ask("right", "198.51.100.1"));
  for (let count = 0; count < ALL_GUESSES; count++) {
    assert.equal((await ask("wrong", `203.0.113.${count}`)).status, 401);
  }
  assert.equal((await ask("wrong", "203.0.113.200")).status, 429);
  assert.equal((await ask("right", "198.51.100.1", known)).status, 200);
  await web.clock.advance(600);
  assert.equal((await ask("right", "198.51.100.1")).status, 200);
});

Deno.test("the addresses of one IPv6 network are one", async () => {
  const { ask } = await openServer();
  for (let count = 0; count < CALLER_GUESSES; count++) await ask("wrong", `2001:db8::${count.toString(16)}`);
  assert.equal((await ask("wrong", "2001:db8::ffff")).status, 429);
  assert.equal((await ask("wrong", "2001:db8:0:1::1")).status, 401);
});

Deno.test("an IPv4 address is the same within an IPv6 one, and not one network with all the others", async () => {
  const { ask, exhaust } = await openServer();
  await exhaust("::ffff:203.0.113.7");
  assert.equal((await ask("right", "203.0.113.7")).status, 429);
  assert.equal((await ask("right", "::ffff:203.0.113.8")).status, 200);
});

Deno.test("right passwords and requests without any do not count as guesses", async () => {
  const { web, ask } = await openServer();
  for (let count = 0; count < 2 * ALL_GUESSES; count++) {
    assert.equal((await ask("right", "203.0.113.7")).status, 200);
    assert.equal((await web.get("/api/prompts")).status, 401);
  }
});
