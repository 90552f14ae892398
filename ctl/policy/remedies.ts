import type { CompiledHost } from "@gateway/shared/policy";

/** The names of a host's policies with a rule; for `allowlist:no-match`, of its allowlists. */
export function findPlaces(
  { commands: { members } }: CompiledHost,
  policies: readonly { readonly name: string }[],
  rule: string,
): readonly string[] {
  return policies.flatMap(({ name }, index) => {
    const { mode = "off", allow = [], deny = [], requireApproval = [] } = members[index] ?? {};
    const rules = [
      ...mode === "allowlist" ? ["allowlist:no-match", ...allow.map(({ source }) => `allow:${source}`)] : [],
      ...mode === "off" ? [] : deny.map(({ source }) => `deny:${source}`),
      ...requireApproval.map(({ source }) => `require_approval:${source}`),
    ];
    return rules.includes(rule) ? [name] : [];
  });
}

/** The changes with which a denied request is allowed; absent: it was not denied. */
export function formatChanges(changes: readonly string[] | undefined): readonly string[] {
  const lines = changes?.length === 0 ? ["no change of the config is enough"] : changes ?? [];
  return lines.map((line, index) => (index === 0 ? "To allow:" : "").padEnd(11) + line);
}
