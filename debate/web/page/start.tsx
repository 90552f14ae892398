import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Card, Icon } from "@gateway/shared/ui";
import { ask, sendForm } from "./api.ts";
import { Login, Setup, Tools } from "./access.tsx";
import { FileList, useFiles } from "./files.tsx";
import { t } from "./language.ts";
import { OpenAlerts, RecentRuns } from "./lists.tsx";
import { useLoaded } from "./loaded.ts";
import { useAction } from "./notices.tsx";
import { Options } from "./options.tsx";
import type { AccessView, SettingsView } from "./views.ts";

/** The text of an incident that is not sent yet. It survives a visit to another view. */
let draft = "";

/** The start page: the incident first, everything else below or folded. */
export function Start({ isLogin }: { readonly isLogin: boolean }): JSX.Element {
  const [settings] = useLoaded<SettingsView>("/api/settings");
  const [access, reload] = useLoaded<AccessView>("/api/auth/status");
  const isReady = access === undefined || access.missing_settings.length === 0;
  const login = settings?.providers?.find((each) => each.login)?.name ?? "assist";
  const begin = async (sending: Promise<{ readonly run_id: string }>) => {
    const { run_id } = await sending;
    draft = "";
    location.hash = `#/runs/${run_id}`;
  };
  const tryIt = () =>
    begin(ask("/api/runs", { method: "POST", body: new URLSearchParams(builtinFields(settings)) }));
  return (
    <>
      <h1 tabIndex={-1}>{t("What is wrong?")}</h1>
      {isLogin && (
        <Card id="login-title" title={t("Access to models")}>
          <Login provider={login} isFirst onDone={reload} />
        </Card>
      )}
      {access !== undefined && !isReady && (
        <Setup access={access} settings={settings} tryIt={tryIt} onDone={reload} />
      )}
      <Incident
        settings={settings}
        access={access}
        isFirst={!isLogin}
        isReady={isReady}
        begin={begin}
        onLogin={reload}
      />
      <OpenAlerts />
      <RecentRuns />
    </>
  );
}

function builtinFields(settings: SettingsView | undefined): Record<string, string> {
  const { topic, model } = settings?.builtin_incident ?? { topic: "", model: "" };
  return { topic, diagnostic_model: model, skeptic_model: model, moderator_model: model };
}

function Incident({ settings, access, isFirst, isReady, begin, onLogin }: {
  readonly settings: SettingsView | undefined;
  readonly access: AccessView | undefined;
  readonly isFirst: boolean;
  readonly isReady: boolean;
  readonly begin: (sending: Promise<{ readonly run_id: string }>) => Promise<void>;
  readonly onLogin: () => void;
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const files = useFiles();
  const [isOver, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (field.current !== null) field.current.value = draft;
  }, []);
  const start = (form: HTMLFormElement) =>
    attempt(() => {
      const large = files.all.find(({ file }) => file.size > (settings?.max_upload_bytes ?? Infinity));
      if (large === undefined) return begin(sendForm("/api/runs", form));
      const values = { name: large.file.name, bytes: settings?.max_upload_bytes };
      throw new Error(t("“{name}” is larger than {bytes} bytes", values));
    });
  return (
    <form
      class={`composer ${isOver ? "over" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        start(event.currentTarget);
      }}
      onInvalidCapture={({ target, currentTarget }) => {
        // A closed part would hide the field with the problem.
        const part = currentTarget.querySelector("details");
        if (part !== null && target !== field.current) part.open = true;
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
        files.drop(dropped);
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
          onInput={(event) => draft = event.currentTarget.value}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
      </label>
      <FileList files={files} />
      <div class="send">
        <label class="button quiet">
          <Icon name="file" />
          {t("Attach")}
          <input
            class="unseen"
            type="file"
            name="incident_file"
            ref={files.incident}
            onChange={files.update}
          />
        </label>
        <span class="note keys">{t("Enter starts, Shift + Enter adds a line")}</span>
        <button type="submit" class={isReady ? "primary" : ""} disabled={isBusy}>
          {t("Start the debate")}
        </button>
      </div>
      {settings !== undefined &&
        <Options settings={settings} access={access} files={files} onLogin={onLogin} />}
      {settings !== undefined && <Tools settings={settings} />}
    </form>
  );
}
