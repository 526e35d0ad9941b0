// Owns how Svelte files are compiled. Runes everywhere.
export default { compilerOptions: { runes: true } };
