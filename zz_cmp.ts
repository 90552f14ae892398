import MarkdownIt from "markdown-it";
import { chromium } from "playwright-core";
const md = new MarkdownIt({ html: true, linkify: true });
const CSS =
  `body{font:16px/1.5 -apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;color:#1f2328;background:#fff;margin:0}main{max-width:1012px;margin:0 auto;padding:32px}
h1,h2{border-bottom:1px solid #d1d9e0;padding-bottom:.3em}pre{background:#f6f8fa;padding:16px;border-radius:6px;overflow:auto}code{font:85% ui-monospace,Menlo,monospace;background:#f6f8fa;border-radius:6px;padding:.2em .4em}pre code{padding:0}table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:6px 13px}img{max-width:100%}a{color:#0969da}blockquote{border-left:.25em solid #d1d9e0;padding:0 1em;color:#59636e;margin:0}`;
const pages: [string, string][] = [
  ["gateway", "/work/integ/README.md"],
  ["step-ca", "/work/out/cmp/smallstep+certificates/README.md"],
  ["pomerium", "/work/out/cmp/pomerium+pomerium/README.md"],
  ["holmesgpt", "/work/out/cmp/robusta-dev+holmesgpt/README.md"],
  ["gateway-quickstart", "/work/integ/docs/quickstart.md"],
  ["holmesgpt-install", "/work/out/cmp/robusta-dev+holmesgpt/docs/installation/cli-installation.md"],
];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
for (const width of [1440, 390]) {
  for (const [name, path] of pages) {
    let text: string;
    try {
      text = await Deno.readTextFile(path);
    } catch {
      console.log("no", path);
      continue;
    }
    const file = path.replace(/[^/]+$/, `zz_${name}.html`);
    await Deno.writeTextFile(
      file,
      `<!doctype html><meta charset=utf-8><meta name=viewport content="width=device-width"><style>${CSS}</style><main>${
        md.render(text)
      }</main>`,
    );
    const page = await browser.newPage({ viewport: { width, height: 1600 } });
    await page.goto(`file://${file}`, { waitUntil: "domcontentloaded", timeout: 15000 }).catch(() => {});
    await page.waitForTimeout(500);
    await page.screenshot({ path: `/work/out/cmp/${name}-${width}.png` });
    await page.close();
    await Deno.remove(file);
  }
}
await browser.close();
