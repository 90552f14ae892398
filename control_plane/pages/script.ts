import { MAX_DOCUMENT_SECONDS } from "@gateway/shared/proofs";
import { formatDuration } from "./html.ts";

/**
 * Updates times and changed contents, and sends decisions as JSON. It replaces contents only after a change, so that
 * focus, selection and input survive. It shows only text, or pages that the server has escaped.
 */
export const SCRIPT: string = `"use strict";(() => {
${formatDuration}
const main = document.getElementById("main");
const sync = document.getElementById("sync");
const news = document.getElementById("news");
const skew = Number(document.body.dataset.now) - Date.now();
let busy = false;

function tick() {
  const now = Date.now() + skew;
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = formatDuration(now - each.dataset.since);
  }
  for (const each of document.querySelectorAll("[data-until]")) {
    each.textContent = formatDuration(each.dataset.until - now);
  }
}

async function refresh() {
  const response = await fetch(location.pathname, {
    headers: { accept: "text/html" },
    redirect: "error",
    signal: AbortSignal.timeout(10000),
  });
  // The sign-in has ended, so show the page that explains it.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Error("status " + response.status);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = fresh.getElementById("main");
  if (next === null || next.dataset.state === undefined) throw new Error("not the page");
  sync.textContent = fresh.getElementById("sync").textContent;
  sync.className = "";
  if (next.dataset.state === main.dataset.state) return;
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  main.replaceChildren(...next.childNodes);
  Object.assign(main.dataset, next.dataset);
  document.title = fresh.title;
  news.textContent = main.dataset.news;
  if (focused !== null && focused !== main) {
    const again = focused.id === "" ? null : document.getElementById(focused.id);
    (again ?? main).focus({ preventScroll: true });
  }
  tick();
}

async function refreshOrSay() {
  try {
    await refresh();
  } catch (error) {
    sync.textContent = "Out of date: the control plane did not answer (" + error.message + "). Retrying.";
    sync.className = "stale";
  }
}

async function keepFresh() {
  while (Number(main.dataset.refresh) > 0) {
    await new Promise((resolve) => setTimeout(resolve, main.dataset.refresh * 1000));
    if (!busy) await refreshOrSay();
  }
}

function complain(text) {
  document.getElementById("problem")?.remove();
  const problem = document.createElement("p");
  Object.assign(problem, { id: "problem", className: "problem", tabIndex: -1, textContent: text });
  problem.setAttribute("role", "alert");
  main.prepend(problem);
  problem.focus();
}

function bodyOf(form, decision) {
  const fields = new FormData(form);
  const ttl = fields.get("ttl") === "other" ? fields.get("amount") * fields.get("unit") : Number(fields.get("ttl"));
  const comment = fields.get("comment").trim();
  const said = { shown_ids: fields.getAll("shown"), ...(comment === "" ? {} : { comment }) };
  if (decision === "learn") return { approve: true, learn: true, ttl_seconds: ttl, ...said };
  return { approve: decision === "approve", ...said };
}

const encoder = new TextEncoder();
const digest = (bytes) => crypto.subtle.digest("SHA-256", bytes);
const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/=+$/, "");
const base64url = (buffer) => base64(buffer).replaceAll("+", "-").replaceAll("/", "_");

async function signed(form, body) {
  const { installation, request, approver, expires } = form.dataset;
  if (!body.approve || request === undefined) return body;
  const text = JSON.stringify({
    approver, decision: "approve", expires_at: Math.min(Number(expires), Math.floor(Date.now() / 1000) + ${
  MAX_DOCUMENT_SECONDS - 60
}), installation,
    learn_ttl_seconds: body.learn ? body.ttl_seconds : 0,
    nonce: Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join(""),
    request, uses: 1, v: 1,
  });
  const { id, response } = await navigator.credentials.get({
    publicKey: { challenge: await digest(encoder.encode(text)), rpId: location.hostname, userVerification: "required" },
  });
  const proof = {
    kind: "passkey", document: text, credential_id: id,
    authenticator_data: base64url(response.authenticatorData),
    client_data: base64url(response.clientDataJSON),
    signature: base64url(response.signature),
  };
  return { ...body, proof };
}

async function createPasskey(form) {
  const { approver } = form.dataset;
  const { id, response } = await navigator.credentials.create({
    publicKey: {
      rp: { id: location.hostname, name: "Control plane" },
      user: { id: await digest(encoder.encode(approver)), name: approver, displayName: approver },
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    },
  });
  const key = response.getPublicKey();
  document.getElementById("passkey-text").textContent = JSON.stringify({ id, public_key: base64url(key) });
  document.getElementById("passkey-fingerprint").textContent = "SHA256:" + base64(await digest(key));
  document.getElementById("created").hidden = false;
  news.textContent = "Passkey created.";
}

async function send(form, decision) {
  let response, body;
  try {
    body = await signed(form, bodyOf(form, decision));
  } catch (error) {
    return "Nothing was signed: " + error.message + ". The request is still pending.";
  }
  try {
    response = await fetch(form.dataset.api, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      redirect: "error",
      signal: AbortSignal.timeout(20000),
    });
    if (response.ok) return;
  } catch {
    return "No answer. The decision may have been recorded: check the status before you decide again.";
  }
  const problem = await response.json().catch(() => ({}));
  return "Decision failed: " + (problem.detail ?? "the control plane answered " + response.status) + ".";
}

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (form.dataset.passkey !== undefined) {
    event.preventDefault();
    return await createPasskey(form).catch((error) => complain("No passkey was created: " + error.message + "."));
  }
  if (form.dataset.api === undefined || submitter === null || !["approve", "learn", "deny"].includes(submitter.value)) return;
  event.preventDefault();
  if (busy) return;
  busy = true;
  for (const button of form.querySelectorAll("button[value]")) button.disabled = true;
  news.textContent = "Sending decision…";
  const problem = await send(form, submitter.value);
  news.textContent = problem === undefined ? "Decision recorded." : "";
  await refreshOrSay();
  for (const button of form.querySelectorAll("button[value]")) button.disabled = false;
  busy = false;
  if (problem === undefined) {
    document.getElementById("problem")?.remove();
    main.querySelector("h1").focus();
  } else {
    complain(problem);
  }
});

setInterval(tick, 1000);
keepFresh();
})();`;
