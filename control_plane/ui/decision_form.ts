import type { ApprovalRecord } from "@gateway/shared/wire/approval";
import { type Html, markup } from "./html.ts";
import { LIST_PATH } from "./page.ts";
import type { Entered } from "./parse_decision.ts";
import { showText } from "./shown_text.ts";

/** Seconds, as in the form. */
const CHOICES = [
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["other", "another time"],
] as const;
const UNITS = [["60", "minutes"], ["3600", "hours"], ["86400", "days"]] as const;

const DEFAULT: Entered = { ttl: "3600", amount: "2", unit: "3600", comment: "" };

/** What a form depends on beside the request's record. */
export interface FormOptions {
  /** What the reader had entered. */
  readonly entered?: Entered | undefined;
  /** Why the signer could learn nothing from an approval; absent: it could. */
  readonly nothingToLearn?: string | undefined;
}

/**
 * The form of a request that the reader may decide; it works without scripts. Enter in a field decides nothing:
 * it would press the first button, which is disabled. (From a radio button or a checkbox Chromium would move to the
 * next one, and approve; so there are none.)
 */
export function renderDecisionForm(
  approval: ApprovalRecord,
  { entered = DEFAULT, nothingToLearn }: FormOptions,
): Html {
  const id = encodeURIComponent(approval.id.toWellFormed());
  return markup`<form method="post" action="${LIST_PATH}/${id}" data-api="/v1/approvals/${id}" novalidate autocomplete="off">
<button type="submit" disabled hidden></button>
<div class="actions">
<button type="submit" id="approve" name="decision" value="approve" class="approve">Approve this once</button>
<button type="submit" id="deny" name="decision" value="deny" class="deny">Deny</button>
</div>
${
    nothingToLearn === undefined
      ? renderLearning(approval, entered)
      : markup`<p class="note">To be approved once only: there is nothing to learn, for ${nothingToLearn}.</p>`
  }
</form>`;
}

function renderLearning(approval: ApprovalRecord, entered: Entered): Html {
  return markup`<fieldset aria-describedby="learn-help">
<legend>Or approve it for a while</legend>
<p class="note" id="learn-help">${renderScope(approval)}</p>
<div class="times">
<label>For<select name="ttl" id="ttl">${renderOptions(CHOICES, entered.ttl)}</select></label>
<label class="other">Number<input type="number" name="amount" id="amount" value="${entered.amount}" min="1" step="1" inputmode="numeric"></label>
<label class="other">Unit<select name="unit" id="unit">${renderOptions(UNITS, entered.unit)}</select></label>
</div>
<div class="actions">
<button type="submit" id="learn" name="decision" value="learn" class="learn">Approve and learn</button>
</div>
</fieldset>`;
}

function renderScope({ caller, end_user, host }: ApprovalRecord): Html {
  return markup`Until the time is up nobody is asked again when ${showText(caller)}${
    end_user !== undefined && markup`, for ${showText(end_user)},`
  } wants to run exactly this command on ${showText(host)} as the same user.`;
}

function renderOptions(options: readonly (readonly [value: string, label: string])[], chosen: string): Html {
  return markup`${
    options.map(([value, label]) =>
      markup`<option value="${value}"${value === chosen && markup` selected`}>${label}</option>`
    )
  }`;
}
