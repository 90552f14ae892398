import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const NGINX = "/usr/sbin/nginx";
const hasNginx = await Deno.stat(NGINX).then(() => true, () => false);

/** Starts nginx with the server block of the compose file, which then listens and connects on loopback. */
async function startNginx(home: string, target: string) {
  const port = freePort();
  const block = (await Deno.readTextFile(`${ROOT}deploy/debate/nginx.conf`))
    .replace("listen 8000", `listen 127.0.0.1:${port}`).replace("http://debate:8000", target);
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) =>
    `${name}_temp_path ${home}/${name};`
  );
  const config = `user root; daemon off; pid ${home}/pid; error_log stderr;
events {}
http { access_log off; ${paths.join(" ")}
${block}}`;
  await Deno.writeTextFile(`${home}/nginx.conf`, config);
  const args = ["-p", home, "-c", `${home}/nginx.conf`, "-e", "stderr"];
  const child = new Deno.Command(NGINX, { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
  const url = `http://127.0.0.1:${port}`;
  const answers = () =>
    fetch(`${url}/healthz`).then((response) => response.body?.cancel().then(() => response.ok), () => false);
  return {
    url,
    ready: () => poll(async () => await answers() === true, { what: "nginx" }),
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
    },
  };
}

Deno.test({
  name: `nginx passes events of a run in progress and large uploads${hasNginx ? "" : ": needs nginx"}`,
  ignore: !hasNginx,
  fn: () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home));
      await using nginx = await startNginx(home, server.url);
      await nginx.ready();
      const body = new FormData();
      const fields = { topic: "slow", require_approval: "true", pause_between_rounds: "true" };
      for (const [name, value] of Object.entries(fields)) body.append(name, value);
      // The default limit of nginx is 1 MB.
      body.append("incident_file", new File(["x\n".repeat(1_000_000)], "incident.md"));
      const headers = { origin: nginx.url };
      const started = await fetch(`${nginx.url}/api/runs`, { method: "POST", body, headers });
      assert.equal(started.status, 200);
      const { run_id } = await started.json();
      // The run waits for an approval, so a proxy that collects the stream would pass nothing.
      const { body: stream } = await fetch(`${nginx.url}/api/runs/${run_id}/events`);
      let seen = "";
      for await (const text of (stream ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
        seen += text;
        if (seen.includes('"tool_approval_request"')) break;
      }
      assert.match(seen, /"run_started"/);
      assert.doesNotMatch(seen, /"run_finished"/);
    }),
});
