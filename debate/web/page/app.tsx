import { type JSX, render } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { Problem } from "@gateway/shared/ui";
import { errorText } from "@gateway/shared/errors";
import { Compare } from "./compare.tsx";
import { Pick } from "./controls.tsx";
import { Help } from "./help.tsx";
import { LANGUAGE, speak, t } from "./language.ts";
import { Main, useNotices } from "./notices.tsx";
import { RunPage } from "./run.tsx";
import { Runs } from "./runs.tsx";
import { Start } from "./start.tsx";
import { readChoice, storeChoice } from "./stored.ts";
import { Templates } from "./templates.tsx";

const NAVIGATION = [["#/", t("New run")], ["#/runs", t("Runs")], ["#/templates", t("Templates")]] as const;
const LANGUAGES = [["en", "English"], ["es", "Español"]] as const;
const THEMES = [["", t("System theme")], ["light", t("Light theme")], ["dark", t("Dark theme")]] as const;

function App(): JSX.Element {
  const [hash, setHash] = useState(location.hash || "#/");
  useEffect(() => addEventListener("hashchange", () => setHash(location.hash || "#/")), []);
  return (
    <>
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
          <a class="brand row" href="#/">
            <img src="/static/icon.svg" alt="" />
            {t("Diagnosis debate")}
          </a>
          <nav aria-label={t("Pages")}>
            {NAVIGATION.map(([target, name]) => (
              <a
                key={target}
                href={target}
                aria-current={target === hash ? "page" : hash.startsWith(`${target}/`) || undefined}
              >
                {name}
              </a>
            ))}
          </nav>
          <div class="choices row">
            <Pick
              label={t("Theme")}
              icon="theme"
              options={THEMES}
              picked={readChoice("theme")}
              onPick={paint}
            />
            <Pick
              label={t("Language")}
              icon="language"
              options={LANGUAGES}
              picked={LANGUAGE}
              onPick={speak}
            />
            <Help />
          </div>
        </div>
      </header>
      <Main>
        <View key={hash} hash={hash} />
      </Main>
    </>
  );
}

function paint(theme: string): void {
  storeChoice("theme", theme);
  document.documentElement.dataset["theme"] = theme;
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
    return <Problem>{t("Cannot show this page: {why}", { why: errorText(error) })}</Problem>;
  }
  const [, runId] = RUN.exec(hash) ?? [];
  if (runId !== undefined) return <RunPage runId={runId} />;
  const [, one, other] = COMPARE.exec(hash) ?? [];
  if (one !== undefined && other !== undefined) return <Compare one={one} other={other} />;
  if (hash === "#/runs") return <Runs />;
  if (hash === "#/templates") return <Templates />;
  return <Start isLogin={hash === "#/login"} />;
}

document.documentElement.lang = LANGUAGE;
render(<App />, document.body);
