import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { ask } from "./api.ts";
import { Pick } from "./controls.tsx";
import { t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { useAction, useNotices } from "./notices.tsx";
import type { ModelView, SettingsView } from "./views.ts";

/** The roles that need a model. */
const ROLES = [
  ["diagnostic", t("Diagnostic agent")],
  ["skeptic", t("Skeptic")],
  ["moderator", t("Moderator")],
] as const;

const EFFORTS = [["none", t("none_effort")], ["low", t("low")], ["medium", t("medium")], [
  "high",
  t("high"),
]] as const;
const OTHER = "other";

interface Catalogue {
  readonly models: readonly ModelView[];
  readonly problems: readonly { readonly provider: string; readonly message: string }[];
}

/** The model and the reasoning effort of each role. The list can be late, because providers can be slow. */
export function Models({ settings, onChange }: {
  readonly settings: SettingsView;
  readonly onChange: (models: readonly string[]) => void;
}): JSX.Element {
  const { announce } = useNotices();
  const [isBusy, attempt] = useAction();
  const [loaded] = useLoaded<Catalogue>("/api/models");
  const [fresh, setFresh] = useState<Catalogue>();
  const { models, problems } = fresh ?? loaded ?? { models: [], problems: [] };
  const [chosen, setChosen] = useState<Readonly<Record<string, string>>>({});
  const choose = (role: string, id: string) => {
    const all = { ...chosen, [role]: id };
    setChosen(all);
    onChange([...new Set(Object.values(all))]);
  };
  const refresh = () =>
    attempt(async () => {
      const found = await ask<Catalogue>("/api/models/refresh", { method: "POST" });
      setFresh(found);
      announce(t("{count} models found", { count: found.models.length }));
    });
  return (
    <section class="stack models" aria-labelledby="models-title">
      <div class="head">
        <h2 id="models-title">{t("Models")}</h2>
        <button type="button" class="quiet" disabled={isBusy} onClick={refresh}>
          <Icon name="refresh" />
          {t("Refresh")}
        </button>
      </div>
      {problems.map(({ provider, message }) => (
        <p key={provider} class="warning" role="status">
          <VisibleText text={`${provider}: ${message}`} lines limit={600} />
        </p>
      ))}
      {ROLES.map(([role, title]) => (
        <Role
          key={role}
          role={role}
          title={title}
          settings={settings}
          models={models}
          id={chosen[role] ?? ""}
          onChoose={(id) => choose(role, id)}
        />
      ))}
    </section>
  );
}

function Role({ role, title, settings, models, id, onChoose }: {
  readonly role: string;
  readonly title: string;
  readonly settings: SettingsView;
  readonly models: readonly ModelView[];
  readonly id: string;
  readonly onChoose: (id: string) => void;
}): JSX.Element {
  const [isOther, setOther] = useState(false);
  const isListed = id === "" || models.some((each) => each.id === id);
  const isTyped = isOther || !isListed;
  const providers = [...new Set(models.map(({ provider }) => provider))];
  return (
    <div class="fields">
      <div>
        <label>
          {title}
          <select
            value={isTyped ? OTHER : id}
            onChange={({ currentTarget: { value } }) => {
              setOther(value === OTHER);
              onChoose(value === OTHER ? "" : value);
            }}
          >
            <option value="">{t("Default: {model}", { model: settings[`${role}_model`] })}</option>
            {providers.map((provider) => (
              <optgroup
                key={provider}
                label={provider === "replay" ? t("Scripted, without network") : provider}
              >
                {models.filter((each) => each.provider === provider).map((each) => (
                  <option key={each.id} value={each.id}>{`${each.name}${priceOf(each)}`}</option>
                ))}
              </optgroup>
            ))}
            <option value={OTHER}>{t("Other …")}</option>
          </select>
        </label>
        <input
          name={`${role}_model`}
          value={id}
          hidden={!isTyped}
          autocomplete="off"
          placeholder={t("provider/model")}
          aria-label={t("{role}: model ID", { role: title })}
          onInput={({ currentTarget: { value } }) => {
            setOther(true);
            onChoose(value);
          }}
        />
      </div>
      <Pick
        label={t("{role}: reasoning", { role: title })}
        name={`${role}_reasoning_effort`}
        options={EFFORTS}
        picked={String(settings[`${role}_reasoning_effort`])}
      />
    </div>
  );
}

function priceOf({ price }: ModelView): string {
  return price === null || price === undefined ? "" : t(" · ${input} in, ${output} out per million tokens", {
    input: formatPrice(price.input),
    output: formatPrice(price.output),
  });
}

/** Formats a price with at least two decimals. Fractions of a cent are kept. */
function formatPrice(price: number): string {
  return price.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}
