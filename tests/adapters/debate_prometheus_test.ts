import assert from "node:assert/strict";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";

const ignore = isMissing("prometheus", ["/usr/bin/prometheus", "/usr/local/bin/prometheus"]);

Deno.test({
  name: "query_prometheus asks a real Prometheus",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    const port = freePort();
    await Deno.writeTextFile(
      `${folder.path}/prometheus.yml`,
      `global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: ["127.0.0.1:${port}"]}]}]\n`,
    );
    const server = new Deno.Command("prometheus", {
      args: [
        `--config.file=${folder.path}/prometheus.yml`,
        `--storage.tsdb.path=${folder.path}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      cwd: folder.path,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      const call = await realTools({ settings: { PROMETHEUS_URL: `http://127.0.0.1:${port}` } });
      const ask = (query: string) => call("query_prometheus", { query });
      await poll(async () => (await ask("up")).text.includes("} => 1"), {
        what: "a first scrape",
        intervalMs: 100,
      });
      const up = await ask('up{job="self"}');
      assert.equal(up.ok, true);
      assert.match(
        up.text,
        /^PromQL up\{job="self"\}: vector, 1 line \[\d+ ms\]\nup\{instance="127\.0\.0\.1:\d+", job="self"\} => 1$/,
      );
      assert.match((await ask("1 + 1")).text, /scalar, 1 line \[\d+ ms\]\n2$/);
      assert.match((await ask("up[10s]")).text, /matrix.*\nup\{.*\} => 1 @/);
      assert.match((await ask("nothing_like_this")).text, /\(no series\)/);
      assert.match((await ask('{__name__=~".+"}')).text, /\(\d+ more, not shown\)$/);
      const wrong = await ask("up{");
      assert.equal(wrong.ok, false);
      assert.match(wrong.text, /answered 400: .*parse error/);
    } finally {
      server.kill("SIGKILL");
      await server.status;
    }
  },
});
