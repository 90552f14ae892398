/**
 * A process that opens a state database and prints the result. Arguments: the path, and `stay` to keep it open until
 * stdin ends.
 */
import { errorText } from "@gateway/shared/errors";
import { openSqliteStore } from "../../signer/live/state/store.ts";

async function main(path: string, stay: boolean): Promise<void> {
  const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  try {
    const store = openSqliteStore({ path, warn: () => {}, lockWaitMs: 100 });
    say("opened");
    if (stay) { for await (const _ of Deno.stdin.readable); }
    await store.close();
  } catch (error) {
    say(errorText(error));
  }
}

if (import.meta.main) await main(Deno.args[0] ?? "", Deno.args[1] === "stay");
