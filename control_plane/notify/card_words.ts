/** The heading of a card. */
export const TITLE = "Access Broker — Approval Required";
/** What a card is about. */
export const EXPLANATION =
  "A command waits for the decision of a second person. Nothing runs until someone approves it.";
/** The label of the link. */
export const VIEW_REQUEST = "View request";
