import { type JSX, render } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { Icon, Problem } from "@gateway/shared/ui";
import { whyOf } from "./api.ts";
import { Compare } from "./compare.tsx";
import { Help } from "./help.tsx";
import { LANGUAGE, speak, t } from "./language.ts";
import { ShownProblem, useNotices, WithNotices } from "./notices.tsx";
import { RunPage } from "./run.tsx";
import { Runs } from "./runs.tsx";
import { Start } from "./start.tsx";
import { readChoice, storeChoice } from "./stored.ts";
import { Templates } from "./templates.tsx";

const NAVIGATION: readonly (readonly [target: string, name: string, isIn: (hash: string) => boolean])[] = [
  ["#/", t("New run"), (hash) => hash === "#/login"],
  ["#/runs", t("Runs"), (hash) => hash.startsWith("#/runs/") || hash.startsWith("#/compare/")],
  ["#/templates", t("Templates"), () => false],
];

function App(): JSX.Element {
  const hash = useHash();
  return (
    <WithNotices>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        {t("Skip to the content")}
      </a>
      <header class="bar">
        <div>
          <a class="brand" href="#/">
            <img src="/static/icon.svg" alt="" />
            {t("Diagnosis debate")}
          </a>
          <nav aria-label={t("Pages")}>
            {NAVIGATION.map(([target, name, isIn]) => (
              <a key={target} href={target} aria-current={target === hash ? "page" : isIn(hash) || undefined}>
                {name}
              </a>
            ))}
          </nav>
          <div class="choices">
            <Theme />
            <label class="choice" title={t("Language")}>
              <span class="unseen">{t("Language")}</span>
              <Icon name="language" />
              <select id="language" value={LANGUAGE} onChange={(event) => choose(event.currentTarget)}>
                <option value="en" lang="en">English</option>
                <option value="es" lang="es">Español</option>
              </select>
            </label>
            <Help />
          </div>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <ShownProblem />
        <View key={hash} hash={hash} />
      </main>
    </WithNotices>
  );
}

/** The user can keep the language because of unsent text. */
function choose(select: HTMLSelectElement): void {
  speak(select.value);
  select.value = LANGUAGE;
}

function useHash(): string {
  const [hash, setHash] = useState(location.hash || "#/");
  useEffect(() => {
    const change = () => setHash(location.hash || "#/");
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return hash;
}

const RUN = /^#\/runs\/([0-9a-f]{32})$/;
const COMPARE = /^#\/compare\/([0-9a-f]{32})\/([0-9a-f]{32})$/;

function View({ hash }: { readonly hash: string }): JSX.Element {
  const { complain } = useNotices();
  // The key of this component is the address, so another view is a new attempt.
  const [error] = useErrorBoundary();
  useEffect(() => {
    complain("");
    document.title = t("Diagnosis debate");
    (document.querySelector<HTMLElement>("main [autofocus]") ?? document.querySelector("h1"))?.focus();
  }, []);
  if (error !== undefined) {
    return <Problem>{t("Cannot show this page: {why}", { why: whyOf(error) })}</Problem>;
  }
  const [, runId] = RUN.exec(hash) ?? [];
  if (runId !== undefined) return <RunPage runId={runId} />;
  const [, one, other] = COMPARE.exec(hash) ?? [];
  if (one !== undefined && other !== undefined) return <Compare one={one} other={other} />;
  if (hash === "#/runs") return <Runs />;
  if (hash === "#/templates") return <Templates />;
  return <Start isLogin={hash === "#/login"} />;
}

function Theme(): JSX.Element {
  const [theme, setTheme] = useState(readChoice("theme"));
  const change = (chosen: string) => {
    setTheme(chosen);
    storeChoice("theme", chosen);
    if (chosen === "") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = chosen;
  };
  return (
    <label class="choice" title={t("Theme")}>
      <span class="unseen">{t("Theme")}</span>
      <Icon name="theme" />
      <select id="theme" value={theme} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">{t("System theme")}</option>
        <option value="light">{t("Light theme")}</option>
        <option value="dark">{t("Dark theme")}</option>
      </select>
    </label>
  );
}

document.documentElement.lang = LANGUAGE;
render(<App />, document.body);
