/** Checks a token under the permissions of this process; prints the result. */
import { endUserOidcConfig } from "@gateway/shared/oidc/model";
import { systemClock } from "@gateway/shared/clock";
import { loadEndUserVerifier } from "@gateway/shared/oidc";

const [issuer = "", token = ""] = Deno.args;
let result: string;
try {
  const config = endUserOidcConfig.parse({ issuer, audience: "https://mcp.example" });
  const verifier = await loadEndUserVerifier(config, { fetch, clock: systemClock });
  result = JSON.stringify(await verifier.verify(token));
} catch (error) {
  result = String(error);
}
await Deno.stdout.write(new TextEncoder().encode(result));
