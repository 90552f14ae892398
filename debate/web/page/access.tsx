import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Badge, Card, Icon, VisibleText } from "@gateway/shared/ui";
import { ask } from "./api.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import type { AccessView, LoginView, SettingsView } from "./views.ts";

/** The card of a server whose models cannot be reached yet. */
export function Setup({ access, settings, tryIt, onDone }: {
  readonly access: AccessView;
  readonly settings: SettingsView | undefined;
  readonly tryIt: () => Promise<void>;
  readonly onDone: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const { missing_settings: missing } = access;
  const needed = (settings?.providers ?? []).filter((each) =>
    each.missing.some((name) => missing.includes(name))
  );
  const rest = missing.filter((name) => !needed.some((each) => each.missing.includes(name)));
  const login = needed.find((each) => each.login);
  return (
    <Card id="setup-title" title={t("Connect a model provider")} tone="accent">
      <p>
        {t(
          "The chosen models cannot be reached yet. Set these variables in the server's environment or in its .env file, and restart it.",
        )}
      </p>
      <dl class="facts" id="setup-names">
        {needed.map(({ name, missing: names }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Names names={names} />
            </dd>
          </div>
        ))}
        {rest.length > 0 && (
          <div>
            <dt>{t("Missing")}</dt>
            <dd>
              <Names names={rest} />
            </dd>
          </div>
        )}
      </dl>
      <p class="note">
        {t("The guide has examples for each provider: ")}
        <code>docs/guides/providers.md</code>
      </p>
      <div class="actions">
        <button
          type="button"
          class="primary"
          disabled={isBusy || settings === undefined}
          onClick={() => attempt(tryIt)}
        >
          <Icon name="play" />
          {t("Try the built-in incident")}
        </button>
        {login !== undefined && <Login provider={login.name} onDone={onDone} />}
      </div>
      <p class="note">
        {t(
          "The built-in incident needs no network and no key. Its models follow a script, and its tools really run.",
        )}
      </p>
    </Card>
  );
}

function Names({ names }: { readonly names: readonly string[] }): JSX.Element {
  return <>{names.map((name, index) => [index === 0 ? "" : ", ", <code key={name}>{name}</code>])}</>;
}

/** The providers with their states. */
export function Providers({ settings, access, onLogin }: {
  readonly settings: SettingsView;
  readonly access: AccessView;
  readonly onLogin: () => void;
}): JSX.Element | null {
  const providers = settings.providers ?? [];
  if (providers.length === 0) return null;
  return (
    <section class="stack" aria-labelledby="providers-title">
      <h2 id="providers-title">{t("Providers")}</h2>
      <ul class="plain">
        {providers.map(({ name, protocol, configured, missing }) => (
          <li key={name} class="row">
            <Badge tone={configured ? "good" : "idle"}>{configured ? t("Ready") : t("Not set up")}</Badge>
            <b>{name}</b>
            <span class="note">{protocol}</span>
            {missing.length > 0 && (
              <span class="note">
                {t("missing")} <Names names={missing} />
              </span>
            )}
          </li>
        ))}
      </ul>
      {access.copilot_configured && access.last_error && (
        <p class="warning">
          <VisibleText text={access.last_error} lines limit={600} />
        </p>
      )}
      {providers.filter(({ login }) => login).map(({ name }) => (
        <Login key={name} provider={name} onDone={onLogin} />
      ))}
    </section>
  );
}

function askLogin(fields: Record<string, string>): Promise<LoginView> {
  return ask("/api/auth/copilot", { method: "POST", body: new URLSearchParams(fields) });
}

/** A button that logs in, and the code that the user enters at the provider. */
export function Login({ provider, isFirst = false, onDone }: {
  readonly provider: string;
  readonly isFirst?: boolean;
  readonly onDone: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const [state, setState] = useState<LoginView>();
  const isShown = useRef(true);
  useEffect(() => () => void (isShown.current = false), []);
  const login = async () => {
    let now = await askLogin({ action: "start" });
    if (now.status !== "pending") throw new Error(now.error);
    while (now.status === "pending" && isShown.current) {
      setState(now);
      await new Promise((resolve) => setTimeout(resolve, now.interval * 1000));
      now = { ...now, ...await askLogin({ action: "check", device_code: now.device_code }) };
    }
    if (!isShown.current) return;
    setState(now);
    onDone();
  };
  return (
    <div class="row">
      <button type="button" autofocus={isFirst} disabled={isBusy} onClick={() => attempt(login)}>
        <Icon name="key" />
        {t("Log in to {provider}", { provider })}
      </button>
      <span role="status">{state !== undefined && <LoginState state={state} />}</span>
    </div>
  );
}

function LoginState({ state }: { readonly state: LoginView }): JSX.Element {
  if (state.status === "authorized") return <>{t("Logged in")}</>;
  if (state.status !== "pending") return <VisibleText text={state.error ?? state.status} lines limit={600} />;
  const { verification_uri: uri, user_code: code } = state;
  const name = <VisibleText text={uri} limit={200} />;
  return (
    <>
      {t("Open ")}
      {isWebUrl(uri) ? <a href={uri} target="_blank" rel="noreferrer">{name}</a> : name}
      {t(" and enter the code ")}
      <code>{code}</code>
    </>
  );
}

/** The provider chooses the address, so other schemes are no links. */
function isWebUrl(text: string): boolean {
  return text.startsWith("https://") || text.startsWith("http://");
}

/** The folded list of tools: those that are on, and those that are off with the reason. */
export function Tools({ settings }: { readonly settings: SettingsView }): JSX.Element | null {
  const { tools = [], sandbox_problem: problem } = settings;
  if (tools.length === 0 && problem === null) return null;
  const on = tools.filter(({ available }) => available).length;
  const counts = [
    tools.length > 0 ? t("{on} on, {off} off", { on, off: tools.length - on }) : "",
    problem === null ? "" : t("no sandbox"),
  ];
  return (
    <details>
      <summary>
        <span>{t("Tools")}</span>
        <span class="note">{counts.filter((each) => each !== "").join(" · ")}</span>
      </summary>
      <div class="stack">
        {problem !== null && (
          <p class="warning">
            {t("Programs of tools run without a sandbox: ")}
            <VisibleText text={problem} lines limit={600} />
          </p>
        )}
        <ul class="plain tools">
          {tools.toSorted((a, b) => Number(b.available) - Number(a.available)).map((tool) => (
            <li key={tool.name}>
              <Badge tone={tool.available ? "good" : "idle"}>{tool.available ? t("On") : t("Off")}</Badge>
              <div>
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
