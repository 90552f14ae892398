import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { ask, sendForm } from "./api.ts";
import { Setup, Tools } from "./access.tsx";
import { FilePick } from "./controls.tsx";
import { t } from "./language.ts";
import { OpenAlerts, RecentRuns } from "./lists.tsx";
import { useLoaded } from "./loaded.ts";
import { useAction } from "./notices.tsx";
import { Options } from "./options.tsx";
import type { AccessView, Answer, SettingsView } from "./views.ts";

/** The text of an incident that is not sent yet. It survives a visit to another view. */
let draft = "";

async function begin(sending: Promise<Answer<"started">>): Promise<void> {
  const { run_id } = await sending;
  draft = "";
  location.hash = `#/runs/${run_id}`;
}

/** The start page: open alerts and the incident first, everything else below or folded. */
export function Start({ isLogin }: { readonly isLogin: boolean }): JSX.Element {
  const [settings] = useLoaded<SettingsView>("/api/settings");
  const [access, reload] = useLoaded<AccessView>("/api/auth/status");
  const isMissing = (name: string) => access?.missing_settings.includes(name);
  // Only this provider has logins.
  const needed =
    settings?.providers.filter(({ name, missing }) =>
      isLogin ? name === "assist" : missing.some(isMissing)
    ) ?? [];
  const tryIt = () => {
    const { topic = "", model = "" } = settings?.builtin_incident ?? {};
    const models = { diagnostic_model: model, skeptic_model: model, moderator_model: model };
    return begin(ask("/api/runs", { method: "POST", body: new URLSearchParams({ topic, ...models }) }));
  };
  return (
    <>
      <h1 tabIndex={-1}>{t("What is wrong?")}</h1>
      <OpenAlerts />
      {needed.length > 0 && <Setup providers={needed} tryIt={tryIt} isLogin={isLogin} onLogin={reload} />}
      <Incident
        settings={settings}
        access={access}
        isFirst={!isLogin}
        isReady={needed.length === 0}
        onLogin={reload}
      />
      <RecentRuns />
    </>
  );
}

interface Attached {
  readonly field: "incident_file" | "base_context";
  readonly file: File;
}

function Incident({ settings, access, isFirst, isReady, onLogin }: {
  readonly settings: SettingsView | undefined;
  readonly access: AccessView | undefined;
  readonly isFirst: boolean;
  readonly isReady: boolean;
  readonly onLogin: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const [files, setFiles] = useState<readonly Attached[]>([]);
  const [isOver, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  /** Unless they are context, the first file describes the incident. */
  const add = (added: readonly File[], isContext = files.some(({ field }) => field === "incident_file")) =>
    setFiles([
      ...files,
      ...added.map((file, index) =>
        ({ field: isContext || index > 0 ? "base_context" : "incident_file", file }) as const
      ),
    ]);
  const start = (form: HTMLFormElement) =>
    attempt(() => {
      const max = settings?.max_upload_bytes ?? Infinity;
      const large = files.find(({ file }) => file.size > max)?.file;
      if (large === undefined) return begin(sendForm("/api/runs", form, files));
      throw new Error(t("“{name}” is larger than {bytes} bytes", { name: large.name, bytes: max }));
    });
  return (
    <form
      class={`composer ${isOver ? "over" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        start(event.currentTarget);
      }}
      onDragOver={(event) => {
        if (event.dataTransfer?.types.includes("Files") !== true) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        const dropped = [...event.dataTransfer?.files ?? []];
        if (dropped.length === 0) return;
        event.preventDefault();
        add(dropped);
      }}
    >
      <label>
        <span class="unseen">{t("Incident")}</span>
        <textarea
          ref={field}
          name="topic"
          rows={5}
          required
          maxLength={20000}
          autofocus={isFirst}
          placeholder={t("Paste the alert or describe what is wrong")}
          value={draft}
          onInput={(event) => draft = event.currentTarget.value}
          onKeyDown={(event) => {
            // The keyboard of a phone has no other key for a line.
            const isPhone = matchMedia("(pointer: coarse)").matches && !event.ctrlKey;
            if (event.key !== "Enter" || event.shiftKey || event.isComposing || isPhone) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
      </label>
      {files.length > 0 && (
        <ul class="files row" aria-label={t("Attached files")}>
          {files.map((each) => (
            <li key={`${each.field} ${each.file.name}`}>
              <VisibleText text={each.file.name} limit={80} />
              <span class="note">{each.field === "incident_file" ? t("incident") : t("context")}</span>
              <button
                type="button"
                class="quiet small"
                aria-label={t("Remove {name}", { name: each.file.name })}
                onClick={() => {
                  setFiles(files.filter((other) => other !== each));
                  field.current?.focus();
                }}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="send row">
        <FilePick label={t("Attach")} icon="file" onPick={(added) => add(added)} />
        <span class="note keys">{t("Enter starts, Shift + Enter adds a line")}</span>
        <button type="submit" class={isReady ? "primary" : ""} disabled={isBusy}>
          {t("Start the debate")}
        </button>
      </div>
      {settings !== undefined && (
        <>
          <Options
            settings={settings}
            problem={access?.copilot_configured === true ? access.last_error : null}
            onLogin={onLogin}
            onContext={(added) => add(added, true)}
          />
          <Tools settings={settings} />
        </>
      )}
    </form>
  );
}
