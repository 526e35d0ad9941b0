//! Finds the first of many rules that matches a path: plain names by hashing, the others by automata over bytes. Does not
//! parse patterns (`pattern`) or interpret rules.
//!
//! The engine is the one used by `globset`. That crate accepts only UTF-8 patterns, and `**` only as a whole component;
//! rsync's rules, which users have, need more.

use std::collections::HashMap;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::pattern::{Begins, Part, Pattern};

/// Patterns in one automaton: enough to share the work, few enough that its states fit in a cache.
const SET_PATTERNS_MAX: usize = 64;

/// Most memory of one automaton.
const SET_BYTES_MAX: usize = 16 << 20;

/// Number of a rule, and whether it applies only to directories.
#[derive(Debug, Clone, Copy)]
struct Owner {
    rule: u32,
    directories_only: bool,
}

/// Patterns, each with the number of its rule.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Patterns that match the end of a path, from the start of a component.
    endings: HashMap<Box<[u8]>, Vec<Owner>>,
    /// Most components of any pattern.
    components_max: usize,
    /// Patterns that match the whole path.
    whole: HashMap<Box<[u8]>, Vec<Owner>>,
    sets: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    automaton: RegexSet,
    owners: Vec<Owner>,
}

/// The patterns need more memory than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the patterns are too large together; use fewer or shorter ones")]
pub struct TooLarge;

impl Rules {
    /// Prepares patterns, in the order of their rules.
    pub(crate) fn new(patterns: &[Pattern]) -> Result<Self, TooLarge> {
        let mut rules = Self::default();
        let mut waiting = Vec::new();
        for (rule, pattern) in (0..).zip(patterns) {
            let owner = |directories_only| Owner {
                rule,
                directories_only,
            };
            if let Some(literal) = pattern.literal() {
                let components = literal.split(|byte| *byte == b'/').count();
                let names = if pattern.begins == Begins::AtRoot {
                    &mut rules.whole
                } else {
                    rules.components_max = rules.components_max.max(components);
                    &mut rules.endings
                };
                let owners = names.entry(literal.into()).or_default();
                owners.push(owner(pattern.directories_only));
                continue;
            }
            if pattern.and_below {
                waiting.push((expression(pattern, ""), owner(true)));
                let below = expression(pattern, "/.*");
                waiting.push((below, owner(pattern.directories_only)));
            } else {
                waiting.push((expression(pattern, ""), owner(pattern.directories_only)));
            }
        }
        for patterns in waiting.chunks(SET_PATTERNS_MAX) {
            rules.sets.push(Set::new(patterns)?);
        }
        Ok(rules)
    }

    /// Number of the first rule that matches `path`.
    pub(crate) fn first_match(&self, path: &[u8], is_directory: bool) -> Option<usize> {
        let mut first: Option<u32> = None;
        let mut found = |owner: &Owner| {
            let holds = is_directory || !owner.directories_only;
            if holds && first.is_none_or(|first| owner.rule < first) {
                first = Some(owner.rule);
            }
        };
        if !self.whole.is_empty() {
            self.whole
                .get(path)
                .into_iter()
                .flatten()
                .for_each(&mut found);
        }
        let mut from = path.len();
        for _ in 0..self.components_max {
            let slash = path[..from].iter().rposition(|byte| *byte == b'/');
            let start = slash.map_or(0, |slash| slash + 1);
            let owners = self.endings.get(&path[start..]);
            owners.into_iter().flatten().for_each(&mut found);
            let Some(slash) = slash else { break };
            from = slash;
        }
        if self.sets.is_empty() {
            return first.map(|rule| rule as usize);
        }
        let mut subject = Vec::with_capacity(path.len() + 1);
        subject.push(b'/');
        subject.extend_from_slice(path);
        for set in &self.sets {
            if first.is_some_and(|first| set.first_rule() > first) {
                break;
            }
            for at in &set.automaton.matches(&subject) {
                let owner = set.owners[at];
                let holds = is_directory || !owner.directories_only;
                if holds && first.is_none_or(|first| owner.rule < first) {
                    first = Some(owner.rule);
                }
            }
        }
        first.map(|rule| rule as usize)
    }
}

impl Set {
    fn new(patterns: &[(String, Owner)]) -> Result<Self, TooLarge> {
        let expressions = patterns.iter().map(|(expression, _)| expression);
        let automaton = RegexSetBuilder::new(expressions)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(SET_BYTES_MAX)
            .build()
            .map_err(|_error| TooLarge)?;
        Ok(Self {
            automaton,
            owners: patterns.iter().map(|(_, owner)| *owner).collect(),
        })
    }

    fn first_rule(&self) -> u32 {
        self.owners.first().map_or(0, |owner| owner.rule)
    }
}

/// The pattern in the automaton's syntax, over a path with a slash in front, followed by `ending`.
fn expression(pattern: &Pattern, ending: &str) -> String {
    let mut text = match pattern.begins {
        Begins::AtRoot => "^/",
        Begins::BeforeRoot => "^",
        Begins::Anywhere => "/",
    }
    .to_owned();
    for part in &pattern.parts {
        match part {
            Part::Byte(byte) => push_byte(&mut text, *byte),
            Part::Star => text.push_str("[^/]*"),
            Part::Stars => text.push_str(".*"),
            Part::Class(class) => {
                text.push('[');
                let mut any = false;
                let mut byte = 0_u16;
                while let Ok(first) = u8::try_from(byte) {
                    let run = (first..=u8::MAX)
                        .take_while(|byte| class.holds(*byte))
                        .count();
                    if run > 0 {
                        any = true;
                        let last = byte + u16::try_from(run).unwrap_or(1) - 1;
                        push_byte(&mut text, first);
                        text.push('-');
                        push_byte(&mut text, u8::try_from(last).unwrap_or(u8::MAX));
                    }
                    byte += u16::try_from(run).unwrap_or(0).max(1);
                }
                if !any {
                    text.push_str("^\\x00-\\xff");
                }
                text.push(']');
            }
        }
    }
    text.push_str(ending);
    text.push('$');
    text
}

fn push_byte(text: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() {
        text.push(byte.into());
    } else {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        text.push_str("\\x");
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
}
