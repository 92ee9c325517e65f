/** Where a line of a text went when the text was edited. */

/** The line of `after`, from 1 on, that line `line` of `before` became; 0 where it was taken out and nothing is near. */
export function movedLine(before: readonly string[], after: readonly string[], line: number): number {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && isSame(before[head], after[head])) head += 1;
  let tail = 0;
  while (tail < most - head && isSame(before[before.length - 1 - tail], after[after.length - 1 - tail])) tail += 1;
  if (line <= head) return line;
  if (line > before.length - tail) return line + after.length - before.length;
  // Between them is what was edited: the same text nearest to its place, else what stands in its place.
  const end = after.length - tail;
  const text = before[line - 1].trim();
  let found = 0;
  for (let place = head; place < end; place += 1)
    if (text !== '' && after[place].trim() === text && Math.abs(place + 1 - line) < Math.abs(found - line))
      found = place + 1;
  if (found > 0) return found;
  return end > head ? Math.min(line, end) : Math.min(head, after.length);
}

function isSame(one: string, other: string): boolean {
  return one.trimEnd() === other.trimEnd();
}

export function linesOf(text: string): readonly string[] {
  return text.split(/\r\n|\r|\n/);
}
