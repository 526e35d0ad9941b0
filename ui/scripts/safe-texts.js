// Owns that each text of each view is safe to show: it puts what a view shows through `lib/safe`, when the view is compiled.
// Leaves values alone that are not shown as text: those of fields, options, links and components.
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'svelte/compiler';

const SAFE = join(dirname(fileURLToPath(import.meta.url)), '../src/lib/safe');

/** Attributes that people read or hear. */
const SHOWN = new Set(['alt', 'aria-description', 'aria-label', 'aria-valuetext', 'label', 'placeholder', 'title']);

/** All expressions of a component that become text, each with whether its lines are shown as lines. */
function* shown(node, inside = { lines: false, value: false }) {
  if (!node || typeof node !== 'object') return;
  if (Array.isArray(node)) {
    for (const one of node) yield* shown(one, inside);
    return;
  }
  if (node.type === 'ExpressionTag') {
    // A text that is written in the view needs nothing.
    if (!inside.value && node.expression.type !== 'Literal') yield { ...node.expression, lines: inside.lines };
    return;
  }
  if (node.type === 'RegularElement') {
    for (const one of node.attributes) {
      if (one.type !== 'Attribute' || !SHOWN.has(one.name) || one.value === true) continue;
      for (const part of [one.value].flat()) {
        if (part.type === 'ExpressionTag') yield { ...part.expression, lines: false, shorthand: source(part, one) };
      }
    }
    inside = { lines: inside.lines || node.name === 'pre', value: node.name === 'textarea' };
  }
  // Attributes of components, and scripts, are no text of this component.
  for (const [name, child] of Object.entries(node)) {
    if (!['attributes', 'expression', 'metadata', 'parent'].includes(name)) yield* shown(child, inside);
  }
}

/** The name of an attribute that is written as `{name}`. */
const source = (part, attribute) => (attribute.start === part.start ? attribute.name : undefined);

/** Puts every text of the component through `safe`. */
export function safeTexts(content, filename) {
  const { fragment, instance } = parse(content, { modern: true, filename });
  const cuts = [...shown(fragment)].sort((a, b) => b.start - a.start);
  if (cuts.length === 0) return content;
  let text = content;
  for (const { start, end, lines, shorthand } of cuts) {
    const wrapped = `${lines ? '__safeLines' : '__safe'}(${content.slice(start, end)})`;
    if (shorthand) text = `${text.slice(0, start - 1)}${shorthand}={${wrapped}}${text.slice(end + 1)}`;
    else text = `${text.slice(0, start)}${wrapped}${text.slice(end)}`;
  }
  const from = relative(dirname(filename), SAFE);
  const line = `import { safe as __safe, safeLines as __safeLines } from '${from.startsWith('.') ? from : `./${from}`}';`;
  if (!instance) return `<script lang="ts">${line}</script>${text}`;
  // The script comes before the first text of every component here, so its place has not moved.
  const at = instance.content.start;
  if (cuts.some((cut) => cut.start < at)) throw new Error(`${filename}: put the script first`);
  return `${text.slice(0, at)}${line}${text.slice(at)}`;
}

/** For the configuration of Svelte. */
export const preprocess = { markup: ({ content, filename }) => ({ code: safeTexts(content, filename) }) };
