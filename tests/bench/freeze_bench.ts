import type { Stage } from "../stage/stage.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { signBody } from "./sign_request.ts";
import { BROKER } from "./large_stage.ts";
import { median } from "./statistics.ts";

const FREEZES = 200;
const CONNECTIONS = 32;
const SUBJECT = { kind: "caller", value: BROKER };

/** Freezes of a caller that signs over many connections: how soon they are durable, and what slips through. */
export async function benchFreeze({ dir }: SectionContext): Promise<readonly Row[]> {
  await using stage = await createStage(dir);
  await stage.startSigner();
  const hammer = new Hammer();
  const workers = Array.from({ length: CONNECTIONS }, () => hammer.run(stage));
  const operator = await stage.signerClient("operator");
  const change = async (path: string) => {
    const { status, text } = await operator.request({ method: "POST", path, body: SUBJECT });
    if (status !== 200) throw new Error(`${path} answered ${status}: ${text}`);
  };
  const times: number[] = [];
  for (let i = 0; i < FREEZES; i++) {
    await hammer.count("issued", CONNECTIONS);
    const from = performance.now();
    await change("/v1/freeze");
    times.push(performance.now() - from);
    hammer.isFrozen = true;
    await hammer.count("refused", CONNECTIONS);
    hammer.isFrozen = false;
    await change("/v1/unfreeze");
  }
  hammer.isDone = true;
  await Promise.all(workers);
  return [{
    what: `certificates after ${FREEZES} acknowledged freezes, ${CONNECTIONS} connections`,
    measured: `${hammer.late} of ${hammer.issued + hammer.refused} requests`,
    baseline: `freeze acknowledged in ${median(times).toFixed(0)} ms, median`,
    ratio: "",
    target: "none",
    met: hammer.late === 0,
  }];
}

/** Asks for certificates without end, and counts. */
class Hammer {
  isFrozen = false;
  isDone = false;
  issued = 0;
  refused = 0;
  /** Certificates for requests that were sent after an acknowledgement. */
  late = 0;

  async run(stage: Stage): Promise<void> {
    const client = await stage.signerClient("broker");
    const body: unknown = JSON.parse(signBody());
    while (!this.isDone) {
      const sentFrozen = this.isFrozen;
      const { status } = await client.request({ method: "POST", path: "/v1/sign", body });
      if (status !== 200 && status !== 403) throw new Error(`sign answered ${status}`);
      if (status === 200) this.issued += 1;
      else this.refused += 1;
      if (status === 200 && sentFrozen) this.late += 1;
    }
  }

  /** Waits for so many more answers of a kind. */
  async count(kind: "issued" | "refused", more: number): Promise<void> {
    const until = this[kind] + more;
    while (this[kind] < until) await new Promise((resolve) => setTimeout(resolve, 0));
  }
}
