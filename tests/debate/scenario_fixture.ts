/**
 * The environment of a built-in scenario: a Git repository, files and a service for its tools.
 *
 * Topic or context of a run are the lines of {@linkcode ScenarioWorld.incident}, with real paths and URLs. The tools
 * need the settings of {@linkcode ScenarioWorld.settings}.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { join } from "node:path";

/** The names of the built-in scenarios. */
export const SHIPPED_SCENARIOS = ["certificate_expired", "memory_leak", "slow_query"] as const;

export type ShippedScenario = (typeof SHIPPED_SCENARIOS)[number];

export interface ScenarioWorld extends AsyncDisposable {
  /** The incident in Markdown, as an operator would describe it. Paths and URLs are real. */
  readonly incident: string;
  /** The settings with which the tools reach the environment. */
  readonly settings: Readonly<Record<string, string>>;
  readonly variables: Readonly<Record<"repository" | "files" | "service", string>>;
}

const FIXTURES = new URL("../../debate/models/scenarios/fixtures/", import.meta.url);

const commitsSchema = z.array(z.strictObject({
  date: z.iso.datetime(),
  author: z.string(),
  subject: z.string(),
  /** The content of the files after the commit; `null` removes a file. */
  files: z.record(z.string(), z.string().nullable()),
}));

type Commit = z.infer<typeof commitsSchema>[number];

/**
 * Starts the environment of a scenario.
 *
 * @param directory an existing directory for the repository and a copy of the files
 */
export async function startScenario(scenario: ShippedScenario, directory: string): Promise<ScenarioWorld> {
  const fixture = new URL(`${scenario}/`, FIXTURES);
  // Tools read only real paths.
  const root = await Deno.realPath(directory);
  const [repository, files] = [join(root, "repository"), join(root, "files")];
  await makeRepository(repository, commitsSchema.parse(await readJson(new URL("commits.json", fixture))));
  await Deno.mkdir(files);
  for await (const { name } of Deno.readDir(new URL("files/", fixture))) {
    await Deno.copyFile(new URL(`files/${name}`, fixture), join(files, name));
  }
  const server = serve(await readPages(fixture));
  const variables = { repository, files, service: `http://127.0.0.1:${server.addr.port}` };
  const template = await Deno.readTextFile(new URL("incident.md", fixture));
  return {
    incident: Object.entries(variables).reduce(
      (text, [name, value]) => text.replaceAll(`{{${name}}}`, value),
      template,
    ),
    settings: { ALLOWED_PROJECT_ROOTS: root, HTTP_ALLOWED_HOSTS: "127.0.0.1" },
    variables,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** The responses of the service by path. `debug_memory.json` is `/debug/memory`. */
async function readPages(fixture: URL): Promise<ReadonlyMap<string, string>> {
  const pages = new Map<string, string>();
  try {
    for await (const { name } of Deno.readDir(new URL("http/", fixture))) {
      const path = `/${name.replace(/\.json$/, "").replaceAll("_", "/")}`;
      pages.set(path, await Deno.readTextFile(new URL(`http/${name}`, fixture)));
    }
  } catch (error) {
    // A scenario may have no service.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return pages;
}

function serve(pages: ReadonlyMap<string, string>) {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const page = pages.get(new URL(request.url).pathname);
    if (page === undefined) return new Response("not found\n", { status: 404 });
    return new Response(page, { headers: { "content-type": "application/json" } });
  });
}

/** Creates commits with the same IDs each time. */
async function makeRepository(path: string, commits: readonly Commit[]): Promise<void> {
  await Deno.mkdir(path);
  await git(path, ["init", "--quiet", "--initial-branch=main", "--template="]);
  for (const { date, author, subject, files } of commits) {
    for (const [name, content] of Object.entries(files)) {
      const file = join(path, name);
      if (content === null) {
        await Deno.remove(file);
        continue;
      }
      await Deno.mkdir(join(file, ".."), { recursive: true });
      await Deno.writeTextFile(file, content);
    }
    await git(path, ["add", "--all"]);
    const email = `${author.toLowerCase().replaceAll(" ", ".")}@shop.example`;
    await git(path, ["commit", "--quiet", "--no-gpg-sign", "--message", subject], {
      GIT_AUTHOR_NAME: author,
      GIT_AUTHOR_EMAIL: email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: author,
      GIT_COMMITTER_EMAIL: email,
      GIT_COMMITTER_DATE: date,
    });
  }
}

async function git(path: string, args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  const command = new Deno.Command("git", {
    args: ["-C", path, ...args],
    // Ignore the user's Git settings: signing, hooks, and the repository of a hook that runs this test.
    clearEnv: true,
    env: {
      ...env,
      PATH: Deno.env.get("PATH") ?? "",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
    },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  });
  const { success, stderr } = await command.output();
  if (success) return;
  throw new AppError("internal", `git ${args[0]} failed: ${new TextDecoder().decode(stderr).trim()}`);
}

async function readJson(url: URL): Promise<unknown> {
  return JSON.parse(await Deno.readTextFile(url));
}
