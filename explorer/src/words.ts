/** A limit by the glossary's word. */
export function word(limit: string): string {
  return limit.replace("uop cache", "op cache").replace("retirement", "retire") || "nothing known";
}
