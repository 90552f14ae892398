import { Card, VisibleText } from "@gateway/shared/ui";
import { renderPage } from "./page.tsx";

/** The page that creates a passkey. The control plane neither sees nor stores it: the operator adds its text to the signer. */
export function renderPasskeyPage(
  { approver, hasSessions, now }: {
    readonly approver: string;
    readonly hasSessions?: boolean | undefined;
    readonly now: number;
  },
): string {
  const main = (
    <>
      <h1 tabIndex={-1}>Passkey</h1>
      <p class="lead">
        A passkey signs your approvals. The signer verifies each signature, so nobody else can approve in your
        name.
      </p>
      <Card id="create" title="New passkey">
        <form id="passkey" data-approver={approver.toWellFormed()} data-passkey="">
          <div class="actions">
            <button type="submit" id="create-passkey" value="create" class="primary large">
              Create passkey
            </button>
          </div>
        </form>
        <noscript>
          <p class="problem">
            Passkeys need scripts. Approve with <code>broker-ctl approval allow ID --sign-key FILE</code>{" "}
            instead.
          </p>
        </noscript>
        <div id="created" class="stack" hidden>
          <p>
            Send this text to the operator of the signer, who runs{" "}
            <code>
              broker-ctl approver add <VisibleText text={approver} /> --passkey
            </code>{" "}
            with it:
          </p>
          <p>
            <code id="passkey-text" />
          </p>
          <p>
            Compare the fingerprint by telephone or in person: <code id="passkey-fingerprint" />
          </p>
        </div>
      </Card>
      <Card id="limits" title="Limits">
        <p>
          A passkey protects against everyone who approves in your name. An attacker who has compromised this
          control plane can show you a false request, and your passkey then signs another one. While you
          create a passkey, it can show you its own key and fingerprint. If you approve with{" "}
          <code>broker-ctl approval allow ID --sign-key FILE</code>, the signed digest is computed on your
          computer over exactly the request that you see.
        </p>
      </Card>
    </>
  );
  return renderPage({ title: "Passkey – Approvals", approver, hasSessions, now, main });
}
