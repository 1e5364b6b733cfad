/** A limit, or that none is known. */
export function word(limit: string): string {
  return limit || "nothing known";
}
