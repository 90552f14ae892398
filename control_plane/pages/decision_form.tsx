import { AppError } from "@gateway/shared/errors";
import { digestSubject, MAX_DOCUMENT_SECONDS } from "@gateway/shared/proofs";
import { accessKind, describeSpan } from "@gateway/shared/policy";
import {
  type ApprovalDecision,
  type ApprovalRecord,
  LONGEST_LEARN_TTL_SECONDS,
  MAX_REASON_CHARACTERS,
} from "@gateway/shared/wire";
import { VisibleText } from "@gateway/shared/ui";
import type { JSX } from "preact";
import { LIST_PATH, PASSKEY_PATH } from "./page.tsx";

/** Seconds. */
const CHOICES = [
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["other", "custom"],
] as const;
const UNITS = [["60", "minutes"], ["3600", "hours"], ["86400", "days"]] as const;

const DEFAULT: Entered = { ttl: "3600", amount: "2", unit: "3600", comment: "" };

export interface FormOptions {
  /** The name of the reader, in whose name a passkey signs. */
  readonly approver: string;
  readonly entered?: Entered | undefined;
  /** The reason why the signer cannot learn a waiver from this approval. */
  readonly nothingToLearn?: string | undefined;
  /** True if decisions of the script would be rejected, because the page is not at the configured address. */
  readonly isElsewhere?: boolean | undefined;
}

/**
 * The form works without scripts. Enter in a field presses the first button, which is disabled. From a radio button or
 * checkbox Chromium would press the next button and approve, so there are none.
 */
export function DecisionForm(
  { approval, approver, entered = DEFAULT, nothingToLearn, isElsewhere = false }:
    & FormOptions
    & { readonly approval: ApprovalRecord },
): JSX.Element {
  const path = `${LIST_PATH}/${encodeURIComponent(approval.id.toWellFormed())}`;
  const isSigned = approval.signed_approval !== undefined;
  return (
    <form
      method="post"
      action={path}
      {...!isElsewhere && { "data-api": path, ...signingData(approval, approver) }}
      noValidate
      autocomplete="off"
    >
      <button type="submit" disabled hidden />
      {shownIds(approval).map((each) => <input key={each} type="hidden" name="shown" value={each} />)}
      <div class="choices row">
        <div class="stack tight">
          <button
            type="submit"
            id="approve"
            name="decision"
            value="approve"
            class="approve large"
            aria-describedby="approve-help"
          >
            {isSeveral(approval) ? `Approve all ${shownIds(approval).length} once` : "Approve once"}
          </button>
          <p class="note" id="approve-help">
            {describeApproval(approval)}
            {isSigned && (
              <>
                {" Your passkey signs the approval. "}
                <a href={PASSKEY_PATH}>Create a passkey</a>
              </>
            )}
          </p>
        </div>
        <div class="stack tight">
          <button
            type="submit"
            id="deny"
            name="decision"
            value="deny"
            class="danger large"
            aria-describedby="deny-help"
          >
            Deny
          </button>
          <p class="note" id="deny-help">
            {`${
              isSeveral(approval) ? "The requests are rejected" : "The request is rejected"
            }. Nothing is signed.`}
          </p>
        </div>
      </div>
      {nothingToLearn === undefined
        ? <Learning approval={approval} entered={entered} />
        : <p class="note">{`This request can only be approved once: ${nothingToLearn}.`}</p>}
      {isElsewhere && (
        // The page's script would send an origin that the server does not know. The form sends none.
        <p class="note">
          The address of this page differs from approval.approval_url_template in the control plane’s config.
          The decision is therefore sent without the script, and the page reloads.
        </p>
      )}
      <label class="comment inline note">
        Comment
        <input
          type="text"
          name="comment"
          id="comment"
          value={entered.comment}
          maxLength={MAX_REASON_CHARACTERS}
          placeholder="optional, for the audit log"
        />
      </label>
    </form>
  );
}

/** The values that the script signs. The signer computes the digest of the request itself. */
function signingData(
  { signed_approval: signed, expires_at = "", created_at }: ApprovalRecord,
  approver: string,
): Readonly<Record<string, string | number>> {
  if (signed === undefined) return {};
  return {
    "data-installation": signed.installation,
    "data-request": digestSubject(signed.subject),
    "data-approver": approver.toWellFormed(),
    // The broker can collect an approval for as long as approvers could decide.
    "data-expires": Math.ceil((2 * Date.parse(expires_at) - Date.parse(created_at)) / 1000) + 60,
    "data-longest": MAX_DOCUMENT_SECONDS - 60,
  };
}

function describeApproval(approval: ApprovalRecord): string {
  const life = approval.life_seconds === undefined
    ? ""
    : `, valid for ${describeSpan(approval.life_seconds)}`;
  const each = isSeveral(approval) ? " Each request gets its own." : "";
  if (approval.dry_run === true) {
    return "Nothing is signed. The broker continues with its open connection.";
  }
  const kind = accessKind(approval);
  switch (kind) {
    case "shell":
    case "session":
      return `The broker gets a certificate for any command${life}. A session that it opens can last longer.${each}`;
    case "passage":
      return `The broker gets a certificate to connect through this host${life}.${each}`;
    case "action":
      return `The broker gets a token${life}. It permits everything that the cluster's RBAC grants the ServiceAccount.${each}`;
    case "question":
    case "transfer":
    case "command":
      return `The broker gets a certificate for exactly this command${life}.${each}`;
    default:
      return kind satisfies never;
  }
}

/** A decision does not cover requests that join while the approver reads. */
function shownIds({ id, joined = [] }: ApprovalRecord): readonly string[] {
  return [id, ...joined];
}

function isSeveral({ joined = [] }: ApprovalRecord): boolean {
  return joined.length > 0;
}

function Learning(
  { approval, entered }: { readonly approval: ApprovalRecord; readonly entered: Entered },
): JSX.Element {
  const { caller, end_user, host, content_sha256 } = approval;
  return (
    <fieldset class="stack" aria-describedby="learn-help">
      <legend>Approval for a time</legend>
      <p class="note" id="learn-help">
        {`During this time, identical requests are approved automatically: exactly this command${
          content_sha256 === undefined ? "" : " with exactly this content"
        } by `}
        <VisibleText text={caller} />
        {end_user !== undefined && (
          <>
            {" for "}
            <VisibleText text={end_user} />
          </>
        )}
        {" on "}
        <VisibleText text={host} />
        {" as the same user."}
      </p>
      <div class="times row">
        <label>
          For
          <select name="ttl" id="ttl">
            <Options options={CHOICES} chosen={entered.ttl} />
          </select>
        </label>
        <label class="other">
          Number
          <input
            type="number"
            name="amount"
            id="amount"
            value={entered.amount}
            min="1"
            step="1"
            inputMode="numeric"
          />
        </label>
        <label class="other">
          Unit
          <select name="unit" id="unit">
            <Options options={UNITS} chosen={entered.unit} />
          </select>
        </label>
        <button type="submit" id="learn" name="decision" value="learn" class="large">
          Approve and learn
        </button>
      </div>
    </fieldset>
  );
}

function Options({ options, chosen }: {
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly chosen: string;
}): JSX.Element {
  return (
    <>
      {options.map(([value, label]) => (
        <option key={value} value={value} selected={value === chosen}>{label}</option>
      ))}
    </>
  );
}

/** The values that were entered in a form, to show them again next to a problem. */
interface Entered {
  /** The chosen time in seconds, or `other`. */
  readonly ttl: string;
  readonly amount: string;
  /** The unit of the amount, in seconds. */
  readonly unit: string;
  readonly comment: string;
}

const FIELDS = ["decision", "ttl", "amount", "unit", "comment"] as const;

/**
 * Reads `application/x-www-form-urlencoded`: `decision` is approve, deny or learn; with learn, `ttl` is a number
 * of seconds, or `other` and then `amount` times `unit` seconds.
 *
 * @throws {AppError} `invalid_request` for a field that is sent twice or has no meaning
 */
export function parseDecisionForm(body: string): ApprovalDecision {
  const fields = new URLSearchParams(body);
  const twice = FIELDS.find((name) => fields.getAll(name).length > 1);
  if (twice !== undefined) throw problem(`The form has ${twice} more than once`);
  const decision = fields.get("decision") ?? "";
  if (!["approve", "deny", "learn"].includes(decision)) throw problem("Choose to approve or to deny");
  const learn = decision === "learn";
  return {
    approve: decision !== "deny",
    learn,
    ttl_seconds: learn ? parseTtl(fields) : 0,
    comment: fields.get("comment")?.trim() ?? "",
    shown_ids: fields.getAll("shown"),
  };
}

function parseTtl(fields: URLSearchParams): number {
  const isOther = fields.get("ttl") === "other";
  const count = parseWhole(fields.get(isOther ? "amount" : "ttl"));
  const seconds = isOther ? count * parseWhole(fields.get("unit")) : count;
  if (Number.isNaN(seconds)) {
    throw problem("Enter how long to learn: a whole number of minutes, hours or days");
  }
  if (seconds > LONGEST_LEARN_TTL_SECONDS) throw problem("Enter at most 100 years");
  return seconds;
}

function parseWhole(text: string | null): number {
  return text !== null && /^0*[1-9][0-9]{0,6}$|^0*[1-9][0-9]{7,9}$/.test(text) ? Number(text) : NaN;
}

function problem(detail: string): AppError {
  return new AppError("invalid_request", detail);
}

/** The fields of a form, as far as they can be shown again. */
export function readFields(body: string): Entered {
  const fields = new URLSearchParams(body);
  return {
    ttl: fields.get("ttl") ?? "",
    amount: (fields.get("amount") ?? "").slice(0, 20),
    unit: fields.get("unit") ?? "",
    comment: fields.get("comment") ?? "",
  };
}
