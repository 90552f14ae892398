export const FAULT_KINDS = [
  "resource_leak",
  "configuration",
  "dependency",
  "data",
  "capacity",
  "change",
  "none",
] as const;

type FaultKind = (typeof FAULT_KINDS)[number];

interface Claim {
  readonly component: string;
  readonly fault: FaultKind;
  /** The path from the cause to the symptom; empty if it is not stated. */
  readonly path: readonly string[];
}

type ClaimReading =
  | { readonly kind: "claim"; readonly claim: Claim }
  | { readonly kind: "none"; readonly reason: "absent" | "several" | "denied" | "malformed" };

const MAX_CLAIM = 800;
const MAX_PATH = 12;
const HEAD = new RegExp(String.raw`^[\s\x60*_"'>-]{0,6}\{([^{}]{1,${MAX_CLAIM}})\}([^]*)$`);
/** The start of a claim anywhere in a text. */
const CLAIM = /\{[^{}]{0,800}?compon(?:ent|ente)\s{0,3}[:=]/giu;
const DENIAL = new RegExp(
  [
    String.raw`^[\s\x60*_"',.;:–—-]{0,8}(?:(?:this|that|it|which|esto|eso|esta hip[oó]tesis)\s+)?(?:`,
    String
      .raw`(?:(?:is|was|has been|can be|es|era|fue|ha sido|queda|est[aá])\s+)?(?:false|wrong|untrue|incorrect[oa]?|disproved?n?|ruled out|rejected|refuted|excluded|fals[oa]|descartad[oa]|rechazad[oa]|refutad[oa])`,
    String.raw`|(?:is|was|has|can)\s+(?:not|never)|isn['’]t|wasn['’]t`,
    String.raw`|(?:no|nunca|not|never)\s+(?:es|era|fue|est[aá]|the|true|this|la causa|esto|eso)`,
    String.raw`)(?![\p{L}\p{N}])`,
  ].join(""),
  "iu",
);

const KEYS: Readonly<Record<string, "component" | "fault" | "path">> = {
  component: "component",
  componente: "component",
  fault: "fault",
  fallo: "fault",
  path: "path",
  camino: "path",
};

export function readClaim(text: string): ClaimReading {
  const claims = [...text.slice(0, 20_000).matchAll(CLAIM)].length;
  if (claims === 0) return { kind: "none", reason: "absent" };
  if (claims > 1) return { kind: "none", reason: "several" };
  const [, body, rest = ""] = HEAD.exec(text) ?? [];
  // The words before a claim may deny it or only suppose it.
  if (body === undefined) return { kind: "none", reason: "denied" };
  if (DENIAL.test(rest.slice(0, 100))) return { kind: "none", reason: "denied" };
  const claim = readFields(body);
  return claim === undefined ? { kind: "none", reason: "malformed" } : { kind: "claim", claim };
}

function readFields(body: string): Claim | undefined {
  const fields = new Map<string, string>();
  for (const part of body.split(";")) {
    const [, name = "", value = ""] = /^\s*([\p{L}]{1,12})\s*[:=]([^]*)$/u.exec(part) ?? [];
    const key = KEYS[name.toLowerCase()];
    // A field that is stated twice is ambiguous.
    if (key === undefined || fields.has(key)) return undefined;
    fields.set(key, value.trim());
  }
  const component = fields.get("component") ?? "";
  const fault = readFault(fields.get("fault") ?? "");
  if (component === "" || fault === undefined) return undefined;
  const path = (fields.get("path") ?? "").split(/->|→|>/).map((step) => step.trim())
    .filter((step) => step !== "");
  return path.length > MAX_PATH ? undefined : { component, fault, path };
}

/** A name without accents, case, punctuation and articles, so that spellings of it compare equal. */
export function normalName(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim()
    .replace(/^(?:the|a|an|el|la|los|las|un|una) (?=.)/, "");
}

const FAULT_NAMES: Readonly<Record<FaultKind, readonly string[]>> = {
  resource_leak: ["leak", "memory leak", "connection leak", "fuga", "fuga de recursos", "fuga de memoria"],
  configuration: ["config", "misconfiguration", "configuration error", "configuracion", "mala configuracion"],
  dependency: ["dependency failure", "upstream", "dependencia", "fallo de dependencia"],
  data: ["bad data", "data corruption", "datos", "datos erroneos"],
  capacity: ["overload", "saturation", "exhaustion", "capacidad", "saturacion", "sobrecarga"],
  change: ["regression", "deploy", "code change", "release", "cambio", "despliegue", "regresion"],
  none: ["no fault", "nothing", "ninguno", "ninguna", "nada", "sin fallo"],
};

const FAULTS: ReadonlyMap<string, FaultKind> = new Map(
  FAULT_KINDS.flatMap((kind) =>
    [kind, ...FAULT_NAMES[kind]].map((name) => [normalName(name), kind] as const)
  ),
);

/** The kind of fault with this English or Spanish name; `undefined` for any other text. */
export function readFault(text: string): FaultKind | undefined {
  return FAULTS.get(normalName(text.slice(0, 60)));
}

/** A key that equal claims share; `undefined` if the text contains no comparable claim. */
export function claimKey(text: string): string | undefined {
  const reading = readClaim(text);
  if (reading.kind === "none") return undefined;
  const { component, fault } = reading.claim;
  const name = normalName(component);
  return fault === "none" ? "none" : name === "" ? undefined : `${fault} ${name}`;
}
