// Owns how Svelte files are compiled. Runes everywhere; each text of a view is made safe to show.
import { preprocess } from './scripts/safe-texts.js';

export default { compilerOptions: { runes: true }, preprocess };
