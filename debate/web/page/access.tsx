import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Badge, Card, Icon, VisibleText } from "@gateway/shared/ui";
import { ask } from "./api.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import type { Answer, SettingsView } from "./views.ts";

/** The card of a server whose models cannot be reached yet. */
export function Setup({ providers, tryIt, isLogin, onLogin }: {
  readonly providers: SettingsView["providers"];
  readonly tryIt: () => Promise<void>;
  readonly isLogin: boolean;
  readonly onLogin: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  return (
    <Card id="setup-title" title={t("Connect a model provider")} tone="accent">
      <p>
        {t(
          "The chosen models cannot be reached yet. Set the missing variables in the server's environment or in its .env file, and restart it.",
        )}
      </p>
      <Providers providers={providers} isLogin={isLogin} onLogin={onLogin} />
      <div class="actions">
        <button type="button" class="primary" disabled={isBusy} onClick={() => attempt(tryIt)}>
          <Icon name="play" />
          {t("Try the built-in incident")}
        </button>
      </div>
      <p class="note">
        {t(
          "The built-in incident needs no network and no key. Its models follow a script, and its tools really run.",
        )} {t("The guide has examples for each provider: ")}
        <code>docs/guides/providers.md</code>
      </p>
    </Card>
  );
}

export function Providers({ providers, isLogin = false, onLogin }: {
  readonly providers: SettingsView["providers"];
  /** Each has a login, and the focus is on it. The server reports settings that a login lacks. */
  readonly isLogin?: boolean;
  readonly onLogin: () => void;
}): JSX.Element {
  return (
    <ul class="stack tight">
      {providers.map(({ name, protocol, configured, missing, login }) => (
        <li key={name} class="row">
          <Badge tone={configured ? "good" : "idle"}>{configured ? t("Ready") : t("Not set up")}</Badge>
          <b>{name}</b>
          <span class="note">{protocol}</span>
          {missing.length > 0 && (
            <span class="note">
              {t("missing")}
              {missing.map((each) => [" ", <code key={each}>{each}</code>])}
            </span>
          )}
          {(login || isLogin) && <Login provider={name} isFirst={isLogin} onDone={onLogin} />}
        </li>
      ))}
    </ul>
  );
}

function askLogin(fields: Record<string, string>): Promise<Answer<"login">> {
  return ask("/api/auth/copilot", { method: "POST", body: new URLSearchParams(fields) });
}

/** A button that logs in, and the code that the user enters at the provider. */
function Login({ provider, isFirst, onDone }: {
  readonly provider: string;
  readonly isFirst: boolean;
  readonly onDone: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const [state, setState] = useState<Answer<"login">>();
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isFirst) button.current?.focus();
  }, []);
  const login = async () => {
    let now = await askLogin({ action: "start" });
    while (now.status === "pending" && button.current !== null) {
      setState(now);
      const { device_code = "", interval = 5 } = now;
      await new Promise((resolve) => setTimeout(resolve, interval * 1000));
      now = { ...now, ...await askLogin({ action: "check", device_code }) };
    }
    // The user left the page.
    if (button.current === null) return;
    setState(now);
    if (now.status !== "authorized") throw new Error(now.error ?? now.status);
    onDone();
  };
  const { verification_uri: uri = "" } = state ?? {};
  const name = <VisibleText text={uri} limit={200} />;
  return (
    <>
      <button type="button" ref={button} disabled={isBusy} onClick={() => attempt(login)}>
        <Icon name="key" />
        {t("Log in to {provider}", { provider })}
      </button>
      <span role="status">
        {state?.status === "authorized" && t("Logged in")}
        {state?.status === "pending" && (
          <>
            {t("Open ")}
            {/* The provider chooses the address, so other schemes are no links. */}
            {/^https?:\/\//.test(uri) ? <a href={uri} target="_blank" rel="noreferrer">{name}</a> : name}
            {t(" and enter the code ")}
            <code>{state.user_code}</code>
          </>
        )}
      </span>
    </>
  );
}

/** The folded list of tools: those that are on, and those that are off with the reason. */
export function Tools({ settings }: { readonly settings: SettingsView }): JSX.Element {
  const { tools, sandbox_problem: problem } = settings;
  const on = tools.filter(({ available }) => available).length;
  return (
    <details class="more">
      <summary>
        <span>{t("Tools")}</span>
        <span class="note">
          {t("{on} on, {off} off", { on, off: tools.length - on })}
          {problem !== null && ` · ${t("no sandbox")}`}
        </span>
      </summary>
      <div class="stack">
        {problem !== null && (
          <p class="warning">
            {t("Programs of tools run without a sandbox: ")}
            <VisibleText text={problem} lines limit={600} />
          </p>
        )}
        <ul class="tools stack tight">
          {tools.toSorted((a, b) => Number(b.available) - Number(a.available)).map((tool) => (
            <li key={tool.name}>
              <Badge tone={tool.available ? "good" : "idle"}>{tool.available ? t("On") : t("Off")}</Badge>
              <div class="stack tight">
                <code>{tool.name}</code>
                {tool.needs_approval && <span class="note">{` · ${t("needs approval")}`}</span>}
                <p class="note">
                  <VisibleText text={tool.available ? tool.description : tool.why ?? ""} lines limit={300} />
                </p>
              </div>
            </li>
          ))}
        </ul>
      </div>
    </details>
  );
}
