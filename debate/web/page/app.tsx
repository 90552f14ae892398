import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Compare } from "./compare.tsx";
import { Help } from "./help.tsx";
import { LANGUAGE, speak, t } from "./language.ts";
import { ShownProblem, useNotices, WithNotices } from "./notices.tsx";
import { RunPage } from "./run.tsx";
import { Runs } from "./runs.tsx";
import { Start } from "./start.tsx";
import { readChoice, storeChoice } from "./stored.ts";
import { Templates } from "./templates.tsx";

const NAVIGATION = [["#/", "New run"], ["#/runs", "Runs"], ["#/templates", "Templates"]] as const;

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
          <p class="brand">{t("Diagnosis debate")}</p>
          <nav aria-label={t("Pages")}>
            {NAVIGATION.map(([target, name]) => (
              <a key={target} href={target} aria-current={target === hash ? "page" : undefined}>{t(name)}</a>
            ))}
          </nav>
          <div class="choices">
            <Theme />
            <label class="inline">
              <span class="unseen">{t("Language")}</span>
              <select id="language" value={LANGUAGE} onChange={(event) => speak(event.currentTarget.value)}>
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
  useEffect(() => {
    complain("");
    document.title = t("Diagnosis debate");
    document.querySelector("h1")?.focus();
  }, []);
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
    <label class="inline">
      <span class="unseen">{t("Theme")}</span>
      <select id="theme" value={theme} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">{t("system")}</option>
        <option value="light">{t("light")}</option>
        <option value="dark">{t("dark")}</option>
      </select>
    </label>
  );
}

document.documentElement.lang = LANGUAGE;
render(<App />, document.body);
