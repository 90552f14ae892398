import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icons.tsx";

/** The meaning of a color. */
export type Tone = "good" | "bad" | "warn" | "idle" | "accent";

/** A short state in a pill, such as `pending`. */
export function Badge(
  { tone, icon, children }: {
    readonly tone: Tone;
    readonly icon?: IconName;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return <span class={`badge ${tone}`}>{icon !== undefined && <Icon name={icon} />}{children}</span>;
}

/** A section with a heading in a frame. */
export function Card(
  { id, title, actions, tone, class: style = "", children }: {
    /** The ID of the heading. */
    readonly id: string;
    readonly title: ComponentChildren;
    /** Controls to the right of the heading. */
    readonly actions?: ComponentChildren;
    readonly tone?: Tone | undefined;
    readonly class?: string;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <section class={`card ${tone ?? ""} ${style}`} aria-labelledby={id}>
      <div class="head">
        <h2 id={id} tabIndex={-1}>{title}</h2>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** The place of a list without entries: it states why, and what to do. */
export function Empty(
  { icon = "empty", title, children }: {
    readonly icon?: IconName;
    readonly title: string;
    readonly children?: ComponentChildren;
  },
): JSX.Element {
  return (
    <div class="empty stack tight">
      <Icon name={icon} />
      <p>{title}</p>
      {children}
    </div>
  );
}

/** A problem that screen readers announce. */
export function Problem({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <p class="problem" role="alert" tabIndex={-1}>{children}</p>;
}

/** Text in a fixed-width font that scrolls, as for commands and results. */
export function Code({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <pre class="code" tabIndex={0}><code>{children}</code></pre>;
}

/** A column of a table. */
export interface Column<Row> {
  readonly name: string;
  /** True if only screen readers need the name. */
  readonly isNameHidden?: boolean;
  readonly show: (row: Row) => ComponentChildren;
}

/**
 * A table. On a narrow screen each row is a card, and each cell but the first has the name of its column. Roles are
 * explicit, because browsers drop the semantics of tables that are laid out as blocks.
 */
export function Table<Row>({ id, caption, columns, rows, keyOf }: {
  /** The ID of the heading. */
  readonly id: string;
  readonly caption: ComponentChildren;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
}): JSX.Element {
  return (
    <div class="table stack tight">
      <h2 id={id}>{caption}</h2>
      <table role="table" aria-labelledby={id}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ name, isNameHidden = false }) => (
              <th role="columnheader" scope="col" key={name}>
                {isNameHidden ? <span class="unseen">{name}</span> : name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr role="row" key={keyOf(row)}>
              {columns.map(({ name, isNameHidden = false, show }, index) => (
                <td role="cell" key={name} data-label={index === 0 || isNameHidden ? undefined : name}>
                  {show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
