import { benchDebateWeb } from "/work/main/tests/bench/debate_web_bench.ts";
import { formatTable } from "/work/main/tests/bench/row.ts";
const dir = await Deno.makeTempDir({dir:"/tmp/web"});
console.log(formatTable(await benchDebateWeb({dir, say: console.error})));
Deno.removeSync(dir,{recursive:true});
