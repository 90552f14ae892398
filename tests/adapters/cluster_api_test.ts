import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { readNamedText } from "@gateway/shared/files";
import { connectClusters } from "@gateway/shared/kubernetes";
import { HANGS_MS, startUpstream } from "./json_client_fixture.ts";
import { ca } from "./mtls_fixture.ts";

/** What the API server is shown by requests with the credential of a file. */
async function withTokenFile(
  test: (
    scene: {
      readonly tokenFile: string;
      readonly ask: () => Promise<string>;
      readonly reads: readonly string[];
    },
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await using upstream = await startUpstream((request, response) => {
      response.end(request.headers.authorization?.replace("Bearer ", "shown "));
    });
    const tokenFile = `${folder}/token`;
    const reads: string[] = [];
    const readText = (...named: Parameters<typeof readNamedText>) => {
      reads.push(named[1]);
      return readNamedText(...named);
    };
    const api = connectClusters({ clock: systemClock, readText });
    const at = { cluster: { name: "prod", apiServer: upstream.url, tokenFile }, ca };
    const ask = async () => {
      const limits = { timeoutMs: HANGS_MS, maxBytes: 1000 };
      const answer = await api.request(at, { method: "GET", path: "/", ...limits });
      return answer.kind === "answered" ? answer.text : answer.kind;
    };
    await test({ tokenFile, ask, reads });
    api.close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("connectClusters() reads the credential anew for each request", () =>
  withTokenFile(async ({ tokenFile, ask }) => {
    await Deno.writeTextFile(tokenFile, "one\n");
    assert.equal(await ask(), "shown one");
    await Deno.writeTextFile(tokenFile, "two\n");
    assert.equal(await ask(), "shown two");
    await Deno.remove(tokenFile);
    assert.equal(await ask(), "no_credential");
    await Deno.writeTextFile(tokenFile, "three\n");
    assert.equal(await ask(), "shown three");
  }));

Deno.test("connectClusters() reads the credential once for the requests that come meanwhile", () =>
  withTokenFile(async ({ tokenFile, ask, reads }) => {
    await Deno.writeTextFile(tokenFile, "one\n");
    assert.deepEqual(await Promise.all([ask(), ask(), ask()]), Array(3).fill("shown one"));
    assert.deepEqual(reads, [tokenFile]);
  }));
