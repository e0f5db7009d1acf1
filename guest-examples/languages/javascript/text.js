// The exports of `wit/text.wit`. A `result` is what is returned, or what is thrown.

// An option that is not given is null.
export function slug(text, separator) {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.split(/[^\p{L}\p{N}]+/u).filter(Boolean).join(separator ?? '-');
}

export function table(rows) {
  const [head, ...body] = rows;
  if (!head) throw 'there is no row';
  const odd = body.findIndex((row) => row.length !== head.length);
  if (odd >= 0) throw `row ${odd + 2} has ${body[odd].length} cells, the head has ${head.length}`;
  const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', '<br>');
  const line = (row) => `| ${row.map(cell).join(' | ')} |`;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...body.map(line)].join('\n');
}
