/** Contacts a server whose CA is a public root for this process; prints both clients' results. */
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";

const [baseUrl = "", identity = "{}"] = Deno.args;
const fetched = await fetch(baseUrl).then(({ status }) => status, String);
using client = new JsonClient({ baseUrl, ...JSON.parse(identity), clock: systemClock });
const asked = await client.request({ method: "GET", path: "/" }).then(({ status }) => status, String);
await Deno.stdout.write(new TextEncoder().encode(JSON.stringify([fetched, asked])));
