// Generated from the stages that can limit a transfer: GODWIT_BLESS=1 cargo test --workspace --locked --test pages

/** The words for people of each stage; they follow `limited by`. */
export const BOTTLENECK_WORDS: Record<string, string> = {
  'source storage': 'source storage',
  'source CPU': 'source CPU',
  'network': 'network',
  'destination CPU': 'destination CPU',
  'destination storage': 'destination storage',
  'limit': 'the limit that is set',
};
