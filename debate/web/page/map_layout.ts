import type { Hypothesis, Review } from "../../engine/graph/state.ts";

/** The columns of the map, in SVG units: the incident, the hypotheses, and what speaks for or against them. */
const COLUMNS = {
  topic: { x: 4, width: 84, height: 44 },
  hypothesis: { x: 136, width: 244, height: 76 },
  leaf: { x: 432, width: 236, height: 48 },
} as const;
export const WIDTH = 672;
const GAP = 10;
const MARGIN = 6;
/** The maximum number of drawn evidence lines and objections of one hypothesis. The cards show all. */
const MAX_LEAVES = 6;

type Leaf =
  & { readonly key: string; readonly hypothesis: Hypothesis }
  & (
    | { readonly kind: "evidence"; readonly callId: string; readonly counts: boolean }
    | { readonly kind: "objection"; readonly review: Review }
  );
/** A mark of the map with its place. */
export type MapNode =
  & (
    | { readonly key: string; readonly kind: "topic" }
    | { readonly key: string; readonly kind: "hypothesis"; readonly hypothesis: Hypothesis }
    | Leaf
  )
  & { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
export interface MapEdge {
  readonly from: string;
  readonly to: string;
  readonly kind: Hypothesis["state"] | "for" | "against" | "void";
}

/**
 * Computes the positions. Each edge leads from one column to the next, so it crosses no mark. A hypothesis is in the
 * middle of its evidence and objections.
 */
export function mapOf(hypotheses: readonly Hypothesis[]): {
  readonly nodes: readonly MapNode[];
  readonly edges: readonly MapEdge[];
  readonly height: number;
} {
  const nodes: MapNode[] = [];
  const edges: MapEdge[] = [];
  const step = COLUMNS.leaf.height + GAP;
  let top = MARGIN;
  for (const hypothesis of hypotheses) {
    const key = `h:${hypothesis.id}`;
    const leaves = leavesOf(hypothesis).slice(0, MAX_LEAVES);
    // A result that supports several hypotheses has one mark.
    const own = leaves.filter((leaf) => !nodes.some((node) => node.key === leaf.key));
    const size = Math.max(COLUMNS.hypothesis.height, own.length * step - GAP);
    const middle = top + size / 2;
    const first = middle - (own.length - 1) * step / 2;
    nodes.push(
      { key, kind: "hypothesis", hypothesis, ...placed("hypothesis", middle) },
      ...own.map((leaf, index) => ({ ...leaf, ...placed("leaf", first + index * step) })),
    );
    edges.push({ from: "topic", to: key, kind: hypothesis.state });
    for (const leaf of leaves) {
      const kind = leaf.kind === "objection" ? "against" : leaf.counts ? "for" : "void";
      edges.push({ from: key, to: leaf.key, kind });
    }
    top += size + 2 * GAP;
  }
  const height = Math.max(top - 2 * GAP, COLUMNS.topic.height + MARGIN) + MARGIN;
  return {
    nodes: [{ key: "topic", kind: "topic", ...placed("topic", height / 2) }, ...nodes],
    edges,
    height,
  };
}

function placed(column: keyof typeof COLUMNS, middle: number) {
  const { x, width, height } = COLUMNS[column];
  return { x, y: middle - height / 2, width, height };
}

function leavesOf(hypothesis: Hypothesis): readonly Leaf[] {
  const { id, evidence = [], reviews = [] } = hypothesis;
  const calls = [...new Set(evidence.flatMap(({ call_ids }) => call_ids))].map((callId): Leaf => {
    const counts = evidence.some(({ call_ids, status }) =>
      call_ids.includes(callId) && status === "grounded"
    );
    return { key: `e:${callId}`, kind: "evidence", hypothesis, callId, counts };
  });
  const objections = reviews.flatMap((review, index): Leaf[] =>
    review.verdict === "accepted" ? [] : [{ key: `o:${id}:${index}`, kind: "objection", hypothesis, review }]
  );
  return [...calls, ...objections];
}
