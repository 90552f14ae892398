import type { Page } from "playwright-core";
import { ca, issue } from "../adapters/mtls_fixture.ts";
import type { ConfigEdit } from "../stage/stage.ts";
import { OpenIdServer } from "./open_id_server.ts";

const SECRET = "secret-of-the-pages";

/** Where the provider sends the browser after a sign-in. */
export const callbackOf = (origin: string): string => `${origin}/ui/callback`;

/**
 * Starts a real OpenID provider for the pages of an origin.
 *
 * @param folder for the secret of the client and the CA of the provider
 * @returns the provider, and the changes of the control plane's config
 */
export async function startProvider(origin: string, folder: string) {
  const pages = { id: "gateway", secret: SECRET, redirectUri: callbackOf(origin) };
  const tls = await issue({ subject: "CN=id", usage: "server", subjectAltNames: ["127.0.0.1"] });
  const provider = await OpenIdServer.start({ agents: [], groups: ["approvers"], pages, tls });
  const [client_secret_file, issuer_ca] = [`${folder}/secret`, `${folder}/ca.crt`];
  await Deno.writeTextFile(client_secret_file, `${SECRET}\n`, { mode: 0o600 });
  await Deno.writeTextFile(issuer_ca, ca);
  const ui = {
    ...{ url: origin, issuer: provider.issuer, issuer_ca, client_id: "gateway", client_secret_file },
    groups: ["approvers"],
  };
  const config: readonly ConfigEdit[] = [
    { path: ["ui_listen"], value: `127.0.0.1:${new URL(origin).port}` },
    { path: ["ui"], value: ui },
  ];
  return { provider, config };
}

/** Signs in on a page that requires it. */
export async function signIn(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: "Sign in with the company" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("x");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}
