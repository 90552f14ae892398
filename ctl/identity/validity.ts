/** How long a certificate is good for when nobody says otherwise, in days. */
export const LEAF_DAYS = 90;

/** How long before its end a certificate is warned of. */
export const WARN_DAYS = 14;

/** How long before its end a certificate is renewed, of those that are due. */
export const RENEW_DAYS = 30;
