/** A process that opens a state database and says how that went. Arguments: path, and `stay` to keep it a while. */
import { errorText } from "@gateway/shared/errors";
import { openSqliteStore } from "../../signer/state/sqlite.ts";

async function main(path: string, stay: boolean): Promise<void> {
  const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  try {
    const store = openSqliteStore({ path, warn: () => {}, lockWaitMs: 100 });
    say("opened");
    // Long enough for the others to have tried: they wait a tenth of a second for the lock.
    if (stay) await new Promise((resolve) => setTimeout(resolve, 3000));
    await store.close();
  } catch (error) {
    say(errorText(error));
  }
}

if (import.meta.main) await main(Deno.args[0] ?? "", Deno.args[1] === "stay");
