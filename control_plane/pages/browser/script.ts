/**
 * Updates times and changed contents, and sends decisions as JSON. It replaces contents only after a change, so that
 * focus, selection and input survive. It shows only text, or pages that the server has escaped.
 */
import { errorText } from "@gateway/shared/errors";
import { formatSpan } from "@gateway/shared/text";

const main = byId("main");
const sync = byId("sync");
const news = byId("news");
const skew = Number(document.body.dataset["now"]) - Date.now();
let isBusy = false;

function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no ${id}`);
  return element;
}

function tick(): void {
  const now = Date.now() + skew;
  for (const each of document.querySelectorAll<HTMLElement>("[data-since]")) {
    each.textContent = formatSpan(now - Number(each.dataset["since"]));
  }
  for (const each of document.querySelectorAll<HTMLElement>("[data-until]")) {
    each.textContent = formatSpan(Number(each.dataset["until"]) - now);
  }
}

async function refresh(): Promise<void> {
  const response = await fetch(location.pathname, {
    headers: { accept: "text/html" },
    redirect: "error",
    signal: AbortSignal.timeout(10_000),
  });
  // The sign-in has ended, so show the page that explains it.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Error(`status ${response.status}`);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = fresh.getElementById("main");
  if (next?.dataset["state"] === undefined) throw new Error("not the page");
  sync.textContent = fresh.getElementById("sync")?.textContent ?? "";
  sync.className = "";
  if (next.dataset["state"] === main.dataset["state"]) return;
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  main.replaceChildren(...next.childNodes);
  Object.assign(main.dataset, next.dataset);
  document.title = fresh.title;
  news.textContent = main.dataset["news"] ?? "";
  if (focused !== null && focused !== main) {
    const again = focused.id === "" ? null : document.getElementById(focused.id);
    (again ?? main).focus({ preventScroll: true });
  }
  tick();
}

async function refreshOrSay(): Promise<void> {
  try {
    await refresh();
  } catch (error) {
    sync.textContent = `Out of date: the control plane did not answer (${errorText(error)}). Retrying.`;
    sync.className = "stale";
  }
}

async function keepFresh(): Promise<void> {
  while (Number(main.dataset["refresh"]) > 0) {
    await new Promise((resolve) => setTimeout(resolve, Number(main.dataset["refresh"]) * 1000));
    if (!isBusy) await refreshOrSay();
  }
}

function complain(text: string): void {
  document.getElementById("problem")?.remove();
  const problem = document.createElement("p");
  Object.assign(problem, { id: "problem", className: "problem", tabIndex: -1, textContent: text });
  problem.setAttribute("role", "alert");
  main.prepend(problem);
  problem.focus();
}

function bodyOf(form: HTMLFormElement, decision: string) {
  const fields = new FormData(form);
  const text = (name: string) => String(fields.get(name) ?? "");
  const ttl = text("ttl") === "other" ? Number(text("amount")) * Number(text("unit")) : Number(text("ttl"));
  const comment = text("comment").trim();
  const said = { shown_ids: fields.getAll("shown"), ...comment !== "" && { comment } };
  const learning = decision === "learn" && { learn: true, ttl_seconds: ttl };
  return { approve: decision !== "deny", ...learning, ...said };
}

const encoder = new TextEncoder();
const digest = (bytes: BufferSource) => crypto.subtle.digest("SHA-256", bytes);
const base64 = (buffer: ArrayBuffer) => new Uint8Array(buffer).toBase64({ omitPadding: true });
const base64url = (buffer: ArrayBuffer) =>
  new Uint8Array(buffer).toBase64({ alphabet: "base64url", omitPadding: true });

/** Adds the signature of the approver's passkey, if the signer needs one. */
async function sign(form: HTMLFormElement, body: ReturnType<typeof bodyOf>): Promise<object> {
  const { installation, request, approver, expires, longest } = form.dataset;
  if (!body.approve || request === undefined) return body;
  const text = JSON.stringify({
    approver,
    decision: "approve",
    expires_at: Math.min(Number(expires), Math.floor(Date.now() / 1000) + Number(longest)),
    installation,
    learn_ttl_seconds: body.ttl_seconds ?? 0,
    nonce: crypto.getRandomValues(new Uint8Array(16)).toHex(),
    request,
    uses: 1,
    v: 1,
  });
  const credential = await navigator.credentials.get({
    publicKey: {
      challenge: await digest(encoder.encode(text)),
      rpId: location.hostname,
      userVerification: "required",
    },
  });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("the browser returned no passkey");
  const response = credential.response as AuthenticatorAssertionResponse;
  const proof = {
    kind: "passkey",
    document: text,
    credential_id: credential.id,
    authenticator_data: base64url(response.authenticatorData),
    client_data: base64url(response.clientDataJSON),
    signature: base64url(response.signature),
  };
  return { ...body, proof };
}

async function createPasskey(approver: string): Promise<void> {
  const credential = await navigator.credentials.create({
    publicKey: {
      rp: { id: location.hostname, name: "Control plane" },
      user: {
        id: await digest(encoder.encode(approver)),
        name: approver,
        displayName: approver,
      },
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    },
  });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("the browser returned no passkey");
  const key = (credential.response as AuthenticatorAttestationResponse).getPublicKey();
  if (key === null) throw new Error("the browser cannot read its key");
  byId("passkey-text").textContent = JSON.stringify({ id: credential.id, public_key: base64url(key) });
  byId("passkey-fingerprint").textContent = `SHA256:${base64(await digest(key))}`;
  byId("created").hidden = false;
  news.textContent = "Passkey created.";
}

/** Returns a problem, or `undefined` if the decision is recorded. */
async function decide(form: HTMLFormElement, path: string, decision: string): Promise<string | undefined> {
  let body: object;
  try {
    body = await sign(form, bodyOf(form, decision));
  } catch (error) {
    return `Nothing was signed: ${errorText(error)}. The request is still pending.`;
  }
  let response: Response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      redirect: "error",
      signal: AbortSignal.timeout(20_000),
    });
  } catch {
    return "No answer. The decision may have been recorded: check the status before you decide again.";
  }
  if (response.ok) return undefined;
  const problem = await response.json().catch(() => ({}));
  return `Decision failed: ${problem.detail ?? `the control plane answered ${response.status}`}.`;
}

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (!(form instanceof HTMLFormElement) || !(submitter instanceof HTMLButtonElement)) return;
  const { api, passkey, approver = "" } = form.dataset;
  if (passkey !== undefined) {
    event.preventDefault();
    return await createPasskey(approver)
      .catch((error) => complain(`No passkey was created: ${errorText(error)}.`));
  }
  if (api === undefined || !["approve", "learn", "deny"].includes(submitter.value)) return;
  event.preventDefault();
  if (isBusy) return;
  isBusy = true;
  const buttons = form.querySelectorAll<HTMLButtonElement>("button[value]");
  for (const button of buttons) button.disabled = true;
  news.textContent = "Sending decision…";
  const problem = await decide(form, api, submitter.value);
  news.textContent = problem === undefined ? "Decision recorded." : "";
  await refreshOrSay();
  for (const button of buttons) button.disabled = false;
  isBusy = false;
  if (problem !== undefined) return complain(problem);
  document.getElementById("problem")?.remove();
  main.querySelector("h1")?.focus();
});

setInterval(tick, 1000);
keepFresh();
