import { type Html, markup, showText } from "./html.ts";
import { renderPage } from "./page.ts";

/** The page that creates a passkey. The control plane neither sees nor stores it: the operator adds its text to the signer. */
export function renderPasskeyPage(
  { approver, hasSessions, now }: {
    readonly approver: string;
    readonly hasSessions?: boolean | undefined;
    readonly now: number;
  },
): string {
  return renderPage({
    ...{ title: "Passkey – Approvals", approver, hasSessions, now },
    main: renderMain(approver),
  });
}

function renderMain(approver: string): Html {
  return markup`<div class="head"><h1 tabindex="-1">Passkey</h1></div>
<p class="lead">A passkey signs your approvals. The signer verifies each signature, so nobody else can approve in your name.</p>
<section class="panel" aria-labelledby="create"><h2 id="create">New passkey</h2>
<form id="passkey" data-approver="${approver.toWellFormed()}" data-passkey>
<div class="choices"><div><button type="submit" id="create-passkey" value="create" class="approve">Create passkey</button></div></div>
</form>
<noscript><p class="problem">Passkeys need scripts. Approve with <code>broker-ctl approval allow ID --sign-key FILE</code>
instead.</p></noscript>
<div id="created" hidden>
<p>Send this text to the operator of the signer, who runs <code>broker-ctl approver add ${
    showText(approver)
  } --passkey</code> with it:</p>
<p><code id="passkey-text"></code></p>
<p>Compare the fingerprint by telephone or in person: <code id="passkey-fingerprint"></code></p>
</div>
</section>
<section class="panel" aria-labelledby="limits"><h2 id="limits">Limits</h2>
<p>A passkey protects against everyone who approves in your name. An attacker who has compromised this control plane can
show you a false request, and your passkey then signs another one. While you create a passkey, it can show you its own key
and fingerprint. If you approve with <code>broker-ctl approval allow ID
--sign-key FILE</code>, the signed digest is computed on your computer over exactly the request that you see.</p>
</section>`;
}
