/**
 * The documentation site: `deno task docs`. The navigation comes from the tables of `docs/index.md`. Pages outside of
 * `docs` are below `source/` on the site. Links are written for the repository, and are resolved here.
 */
import { cpSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const read = (path) => readFileSync(join(ROOT, "docs", path), "utf8");
const ICON = `data:image/svg+xml,${encodeURIComponent(read("images/icon.svg"))}`;
/** Allows no request to another server. */
const SECURITY_POLICY = "default-src 'self' 'unsafe-inline'; img-src 'self' data:";

/** The page of a file: "guides/policy.md" for "docs/guides/policy.md", "source/SECURITY.md" for "SECURITY.md". */
function pageOf(file) {
  const page = file.startsWith("docs/") ? file.slice("docs/".length) : `source/${file}`;
  return page.replace(/README\.md$/, "index.md");
}

/** The groups of the navigation: the sections of the index, each with the links of its table. */
const SIDEBAR = read("index.md").split(/^## /m).slice(1).map((section) => ({
  text: section.slice(0, section.indexOf("\n")),
  items: [...section.matchAll(/^\| \[([^\]]+)\]\(([^)]+)\)/gm)].map(([, text, target]) => ({
    text,
    link: `/${pageOf(join("docs", target)).replace(/(?:index)?\.md$/, "")}`,
  })),
}));

/** Makes the links of a file those of the site. A link to a file that is not on the site becomes plain text. */
function resolveLinks(tokens, file) {
  let tag = "a";
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    if (token.type === "link_open") {
      const [path, ...anchor] = token.attrGet("href").split(/(?=#)/);
      const isOwn = /^[^:]+\.(?:md|json)$/.test(path);
      tag = isOwn || /^#|:/.test(path) ? "a" : "span";
      if (isOwn) token.attrSet("href", `/${pageOf(relative(ROOT, join(dirname(file), path)))}${anchor}`);
      if (tag === "span") token.attrs = null;
    }
    if (token.type.startsWith("link_")) token.tag = tag;
  }
}

/** Code in a line breaks at spaces, and in long words only: never within an option such as `--over`. */
function renderCode(md, text) {
  const words = md.utils.escapeHtml(text).split(" ");
  return `<code v-pre>${
    words.map((word) => word.length > 24 ? word : `<span>${word}</span>`).join(" ")
  }</code>`;
}

/** The anchor of a heading, as code hosts compute it. */
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");

/** The text that the search finds: pages for operators only. */
const renderFound = (text, env, md) => env.path.startsWith(`${ROOT}docs/`) ? md.render(text, env) : "";

/** Pages find Vue although they are outside of the directory of its package. */
const findVue = (id, _, { ssr }) => ssr && /^vue(?:\/|$)/.test(id) ? { id, external: true } : undefined;

export default {
  title: "Gateway",
  description: "Run commands on your servers from an AI agent. The agent never holds a credential.",
  srcDir: "..",
  srcExclude: ["README.md", "{tests,dist,coverage}/**", "**/fixtures/**", "**/node_modules/**"],
  rewrites: pageOf,
  outDir: "../dist/docs",
  // The search index lists pages in the order in which they finish: one by one, releases are reproducible.
  buildConcurrency: 1,
  vite: { plugins: [{ name: "find-vue", enforce: "pre", resolveId: findVue }] },
  themeConfig: {
    logo: { src: ICON, alt: "" },
    nav: SIDEBAR.slice(0, -1).map(({ text, items }) => ({ text, link: items[0].link })),
    sidebar: SIDEBAR,
    outline: [2, 3],
    search: { provider: "local", options: { _render: renderFound } },
  },
  transformPageData: ({ relativePath: page, frontmatter }) => {
    // Wide tables need the place of the outline.
    frontmatter.aside = !/^index|^comparison|^reference\/configuration-/.test(page);
  },
  // The files of OpenAPI.
  buildEnd: ({ outDir }) => cpSync(join(ROOT, "docs/reference"), `${outDir}/reference`, { recursive: true }),
  head: [
    ["meta", { "http-equiv": "Content-Security-Policy", content: SECURITY_POLICY }],
    ["link", { rel: "icon", href: ICON }],
    ["style", {}, read(".vitepress/style.css")],
  ],
  markdown: {
    anchor: { slugify },
    attrs: { disable: true },
    config: (md) => {
      md.core.ruler.push("links", ({ tokens, env }) => resolveLinks(tokens, env.realPath ?? env.path));
      md.renderer.rules.code_inline = (tokens, index) => renderCode(md, tokens[index].content);
    },
  },
};
