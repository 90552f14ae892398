import assert from "node:assert/strict";
import { loadSettings } from "../settings/config.ts";
import { missingSettings } from "./settings_handlers.ts";

const NONE = {
  ...loadSettings({ env: { HOME: "/home/op" }, workingFolder: "/" }),
  DIAGNOSTIC_MODEL: "replay/a",
  SKEPTIC_MODEL: "replay/a",
  MODERATOR_MODEL: "replay/a",
};
const URLS = { HUB_BASE_URL: "https://hub.example", ASSIST_BASE_URL: "https://assist.example" };

Deno.test.each([
  { name: "nothing for scripted models", settings: {}, missing: [] },
  {
    name: "address and token of the provider of any role",
    settings: { SKEPTIC_MODEL: "assist/a" },
    missing: ["ASSIST_BASE_URL", "ASSIST_TOKEN"],
  },
  {
    name: "those of the model that summarises",
    settings: { SUMMARY_MODEL: "hub/a" },
    missing: ["HUB_BASE_URL", "HUB_TOKEN"],
  },
  { name: "the token alone", settings: { DIAGNOSTIC_MODEL: "hub/a", ...URLS }, missing: ["HUB_TOKEN"] },
  {
    name: "the address alone where there is a token",
    settings: { DIAGNOSTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a" },
    hasTokens: true,
    missing: ["HUB_BASE_URL", "ASSIST_BASE_URL"],
  },
  {
    name: "nothing where all is set",
    settings: { DIAGNOSTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a", ...URLS },
    hasTokens: true,
    missing: [],
  },
])("missingSettings() names $name", ({ settings, hasTokens = false, missing }) => {
  const given = { ...NONE, ...settings, ...(hasTokens && { HUB_TOKEN: "t" }) };
  assert.deepEqual(missingSettings(given, hasTokens), missing);
});
