/** @import { Content, RunView } from "./types.js" */

import { ask, formatDuration, get, make } from "./api.js";
import { evidenceItems } from "./evidence.js";
import { percent } from "./drawing.js";
import { runAll } from "./run_all.js";
import {
  beginSummary,
  causeOf,
  dollarsOf,
  leadOf,
  modelsOf,
  ranked,
  tell,
  titleOf,
  verdictOf,
} from "./summary.js";
import { visible } from "./visible.js";
import { LANGUAGE, t } from "./language.js";

/** @typedef {ReturnType<typeof sideOf>} Side */

/**
 * Shows two runs side by side.
 *
 * @param {string} one
 * @param {string} other
 */
export async function showComparison(one, other) {
  get("compare-sides").replaceChildren();
  const sides = (await Promise.all([one, other].map((id) => ask(`/api/runs/${id}`)))).map(sideOf);
  const row = (/** @type {string} */ name, /** @type {(side: Side) => Content | Content[]} */ show) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      ...sides.map((side) => make("td", {}, ...[show(side)].flat())),
    );
  get("compare-sides").replaceChildren(
    make(
      "table",
      { className: "compare" },
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td"),
          ...sides.map(({ record, title }) =>
            make("th", { scope: "col" }, make("a", { href: `#/runs/${record.run_id}` }, ...visible(title)))
          ),
        ),
      ),
      make(
        "tbody",
        {},
        row(t("Outcome"), ({ summary, record }) => t(verdictOf(summary, record.status ?? undefined).title)),
        row(t("Cause"), ({ summary }) => visible(causeOf(summary))),
        row(
          t("Confidence"),
          ({ summary: { decision, imported } }) =>
            decision === undefined
              ? ""
              : `${percent(decision.confidence)}${imported ? t(" stated elsewhere ").trimEnd() : ""}`,
        ),
        row(t("Why"), ({ summary: { decision } }) => decision?.grounding?.reason ?? ""),
        row(t("Evidence"), ({ summary }) => {
          const lead = leadOf(summary);
          return lead === undefined
            ? ""
            : make("ul", { className: "lines" }, ...evidenceItems(lead, summary.calls, false));
        }),
        row(t("Hypotheses"), ({ summary }) =>
          make(
            "ul",
            {},
            ...ranked(summary).map(({ id, state, probability, text }) =>
              make(
                "li",
                {},
                `${id}, ${t(state)}${typeof probability === "number" ? `, ${percent(probability)}` : ""}: `,
                ...visible(text),
              )
            ),
          )),
        row(t("Fix"), ({ summary: { decision } }) => visible(decision?.recommended_fix ?? "")),
        row(t("Tool calls"), ({ summary: { calls } }) => {
          const failed = [...calls.values()].filter(({ error }) => error).length;
          return `${calls.size}${failed === 0 ? "" : `, ${t("{count} failed", { count: failed })}`}`;
        }),
        row(t("Models"), ({ record: { models } }) => modelsOf(models)),
        row(
          t("Duration"),
          ({ record: { duration_seconds: seconds } }) =>
            typeof seconds === "number" ? formatDuration(seconds) : "",
        ),
        row(
          t("Tokens"),
          ({ record }) => record.token_totals?.total?.total_tokens?.toLocaleString(LANGUAGE) ?? "",
        ),
        row(t("Price"), ({ record }) => {
          const usd = record.cost_estimate?.total_usd;
          return typeof usd === "number" ? dollarsOf(usd) : t("unknown");
        }),
      ),
    ),
  );
}

/** @param {RunView} record */
function sideOf(record) {
  const summary = beginSummary(record.imported === true);
  for (const event of record.events ?? []) runAll(() => tell(summary, event));
  return { record, summary, title: record.title || titleOf(record.topic) || record.run_id };
}
