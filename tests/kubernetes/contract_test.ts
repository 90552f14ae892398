import assert from "node:assert/strict";
import { play, setContractScene } from "./contract.ts";
import { ACCESS, TOKENS } from "./contract_access.ts";
import { APPLIES, CUSTOM, ENDINGS, LISTS, LOGS } from "./contract_objects.ts";
import { availableKinds, startCluster } from "./start.ts";

const PARTS = {
  access: ACCESS,
  tokens: TOKENS,
  applies: APPLIES,
  lists: LISTS,
  logs: LOGS,
  "custom resources": CUSTOM,
  endings: ENDINGS,
};

Deno.test.each(Object.entries(PARTS).map(([name, steps]) => ({ name, steps })))(
  "API servers agree about $name",
  async ({ steps }) => {
    const answers = [];
    for (const kind of availableKinds()) {
      await using cluster = await startCluster(kind);
      answers.push(await play(await setContractScene(cluster, steps), steps));
    }
    const [first, ...others] = answers;
    for (const other of others) {
      for (const [index, answer] of other.entries()) assert.deepEqual(answer, first?.[index]);
    }
  },
);
