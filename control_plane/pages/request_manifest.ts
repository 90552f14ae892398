import { parseJson, parseStandardJson, stringifyJson } from "@gateway/shared/json";
import { describeDiff } from "@gateway/shared/policy";
import type { ApprovalRecord, K8sDiff, K8sFieldChange } from "@gateway/shared/wire";
import { type Html, markup } from "./html.ts";
import { showText } from "./shown_text.ts";
import { formatCount } from "./text_format.ts";

/** What an apply would change, field by field, and all of its manifest below. */
export function renderManifest(
  { k8s_manifest, k8s_manifest_sha256, k8s_diff, k8s_force_fields }: ApprovalRecord,
): Html | undefined {
  if (k8s_manifest === undefined) return undefined;
  return markup`<section class="panel brief" aria-labelledby="change"><h2 id="change">What it would change</h2>
${k8s_diff === undefined ? markup`<p class="warning">The signer has not said.</p>` : renderDiff(k8s_diff)}
${
    k8s_force_fields !== undefined &&
    markup`<p class="warning">It takes these fields over from other managers: ${
      k8s_force_fields.map((field, index) => markup`${index > 0 && ", "}<code>${showText(field)}</code>`)
    }</p>`
  }
<details${
    k8s_diff?.kind === "changed" || k8s_diff?.kind === "unchanged" ? "" : " open"
  }><summary>The manifest</summary>
<code class="command head" tabindex="0" role="region" aria-label="Manifest">${
    layOut(k8s_manifest).split("\n").map((line, index) => [index > 0 && "\n", showLine(line)])
  }</code>
<p class="note">Exactly this is sent, with values of Secrets; another manifest needs another approval. SHA-256 <code>${k8s_manifest_sha256}</code></p>
</details>
</section>`;
}

function renderDiff(diff: K8sDiff): Html {
  const { changes = [], omitted = 0 } = diff;
  return markup`<p${
    diff.kind === "unknown" && markup` class="warning"`
  }>As the signer found it when it was asked, it ${
    diff.kind === "unknown" ? markup`is not known: ${showText(describeDiff(diff))}` : describeDiff(diff)
  }.</p>${
    changes.length > 0 &&
    markup`<div class="changes" tabindex="0" role="region" aria-label="Changed fields"><dl class="facts">
${changes.map((change) => markup`${renderChange(change)}\n`)}</dl></div>`
  }${omitted > 0 && markup`<p class="warning">${formatCount(omitted)} more are not shown.</p>`}`;
}

function renderChange({ path, before, after }: K8sFieldChange): Html {
  return markup`<div><dt><code>${showText(path)}</code></dt><dd>${
    before !== undefined && markup`<del><code>${showText(before)}</code></del>`
  }${before !== undefined && after !== undefined && " → "}${
    after !== undefined && markup`<ins><code>${showText(after)}</code></ins>`
  }${after === undefined && " goes"}</dd></div>`;
}

/** In lines, where that shows the same values: an integer may be longer than a number. */
function layOut(text: string): string {
  try {
    const value = parseStandardJson(text);
    return JSON.stringify(value) === stringifyJson(parseJson(text)) ? JSON.stringify(value, null, 2) : text;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return text;
    throw error;
  }
}

/** A line, which begins with blanks without surprise. */
function showLine(line: string): Html {
  const [indent = ""] = /^[ \t]{0,80}/.exec(line) ?? [];
  return markup`${indent}${showText(line.slice(indent.length))}`;
}
