import assert from "node:assert/strict";
import { splitModelId } from "../../debate/settings/model_providers.ts";
import { loadSettings } from "../../debate/settings/config.ts";
import { ROOT } from "./extract.ts";

const EXAMPLES = ["providers", "debate"].flatMap((guide) => {
  const text = Deno.readTextFileSync(`${ROOT}docs/guides/${guide}.md`);
  return [...text.matchAll(/```ini\n([^`]*)```/g)].map(([, dotEnv = ""]) => dotEnv)
    .filter((dotEnv) => dotEnv.includes("MODEL_PROVIDERS"));
});

const VENDORS = ["openai", "azure", "claude", "gemini", "ollama", "vllm"];

Deno.test("the settings in the guides are valid, and all named providers have their keys", () => {
  const names = EXAMPLES.flatMap((dotEnv) => {
    const settings = loadSettings({ env: { HOME: "/home/ann" }, dotEnv, workingFolder: "/" });
    const { MODEL_PROVIDERS: providers, MODEL_KEYS: keys } = settings;
    for (const { key_variable: name } of Object.values(providers)) {
      assert.ok(name === undefined || keys[name], dotEnv);
    }
    const ids = [settings.DIAGNOSTIC_MODEL, settings.SKEPTIC_MODEL, settings.MODERATOR_MODEL];
    return ids.map((id) => splitModelId(id, Object.keys(providers))?.provider);
  });
  assert.deepEqual([...new Set(names)].toSorted(), VENDORS.toSorted());
});
