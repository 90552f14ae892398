import assert from "node:assert/strict";
import { takesEffort, takesTemperature } from "./families.ts";

Deno.test.each([
  { name: "o1", effort: true },
  { name: "openai/o3-mini", effort: true },
  { name: "o4-mini-2025-04-16", effort: true },
  { name: "gpt-5", effort: true },
  { name: "gpt-5.1-codex", effort: true },
  { name: "GPT-5-mini", effort: true },
  { name: "claude-sonnet-4.6", effort: true },
  { name: "claude-opus-4-20250514", effort: true },
  { name: "claude-3.7-sonnet", effort: true },
  { name: "claude-3-7-sonnet-20250219", effort: true },
  { name: "anthropic/claude-opus-12", effort: true },
  { name: "gpt-4o", effort: false },
  { name: "gpt-4o-mini", effort: false },
  { name: "gpt-50", effort: false },
  { name: "o2", effort: false },
  { name: "claude-3.5-sonnet", effort: false },
  { name: "claude-3-opus-20240229", effort: false },
  { name: "claude-haiku-4.5", effort: false },
  { name: "claude-sonnet", effort: false },
  { name: "sonnet-4", effort: false },
  { name: "", effort: false },
])("takesEffort() $name: $effort", ({ name, effort }) => {
  assert.equal(takesEffort(name), effort);
});

Deno.test.each([
  { name: "gpt-4o", withEffort: false, temperature: true },
  { name: "o3-mini", withEffort: false, temperature: false },
  { name: "gpt-5-mini", withEffort: false, temperature: false },
  { name: "claude-sonnet-4.6", withEffort: false, temperature: true },
  { name: "claude-sonnet-4.6", withEffort: true, temperature: false },
  { name: "claude-haiku-4.5", withEffort: true, temperature: true },
])("takesTemperature() $name with effort $withEffort: $temperature", ({ name, withEffort, temperature }) => {
  assert.equal(takesTemperature(name, withEffort), temperature);
});
