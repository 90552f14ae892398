/**
 * A process that changes a state database until it is killed. It prints each acknowledged change. Arguments:
 * the database, and a word that all IDs of this run contain.
 */
import { openSqliteStore, type StateStore } from "../../signer/live/state/store.ts";
import { freezeOf, grantOf } from "./state_fixture.ts";

const FOREVER_MS = Date.UTC(2100, 0, 1);

async function main(path: string, run: string): Promise<never> {
  const store = openSqliteStore({ path, warn: () => {} });
  const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  for (let n = 0;; n++) await change(store, `${run}-${n}`, say);
}

/** One round: a grant, a freeze of its caller, and sometimes the removal of a freeze or grant. */
async function change(store: StateStore, name: string, say: (text: string) => void): Promise<void> {
  // Some records span several pages, so that a commit is not one step for the kernel.
  const allow = [`^${"c".repeat(name.length * 500)}$`];
  await store.insertGrant(grantOf({ id: `kept-${name}`, allow, expiresAt: FOREVER_MS }));
  say(`granted kept-${name}`);
  await store.insertGrant(grantOf({ id: `scoped-${name}`, allow, caller: name, expiresAt: FOREVER_MS }));
  await store.putFreeze(freezeOf({ value: name }));
  say(`frozen ${name}`);
  await store.checkpoint();
  await store.insertGrant(grantOf({ id: `gone-${name}`, expiresAt: FOREVER_MS }));
  await store.deleteGrant(`gone-${name}`);
  say(`revoked gone-${name}`);
  await store.putFreeze(freezeOf({ kind: "end_user", value: name }));
  await store.deleteFreeze({ kind: "end_user", value: name });
  say(`lifted ${name}`);
}

if (import.meta.main) {
  const [path = "", run = ""] = Deno.args;
  await main(path, run);
}
