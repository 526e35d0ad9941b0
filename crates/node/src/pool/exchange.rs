//! Gets one extent from another node of the pool, part by part, and checks each part on arrival. Chooses no node, and judges none: the
//! caller does.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskExtent, AskSites, ExtentPart, Peer, Question, code};
use godwit_buffer::extent::FileKey;
use godwit_buffer::pool::flights::Limits;
use godwit_buffer::pool::watch::Misdeed;
use godwit_buffer::pool::{Extent, checksum};

/// The pause before a node is asked again that reads the extent now, or has too many questions.
const ASKS_AGAIN: Duration = Duration::from_millis(20);

/// Why there is no extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node answered that it does not have it, and is not to blame.
    Refused,
    /// The node is to blame.
    Did(Misdeed),
}

/// The whole extent. `sign` is called at each answer.
pub(super) fn whole(
    sites: &dyn AskSites,
    peer: &Peer,
    asked: &AskExtent,
    file: &FileKey,
    limits: Limits,
    sign: &dyn Fn(),
) -> Result<Extent, Fault> {
    let until = Instant::now() + limits.all;
    let length = usize::try_from(asked.length).unwrap_or(usize::MAX);
    let mut extent = Extent {
        bytes: Vec::with_capacity(length),
        filled: false,
    };
    while extent.bytes.len() < length {
        let from = u32::try_from(extent.bytes.len()).unwrap_or(u32::MAX);
        let question = Question::Extent(Box::new(AskExtent {
            from,
            // Once is enough.
            next: match from {
                0 => asked.next.clone(),
                _ => Vec::new(),
            },
            ..asked.clone()
        }));
        let by = until.min(Instant::now() + limits.silent);
        let answer = sites.ask(Some(peer), &question, &mut |_| Instant::now() < by);
        let silent = [code::UNREACHABLE, code::GIVEN_UP, code::BROKEN];
        match answer {
            Ok(Answer::Extent(part)) if !part.bytes.is_empty() => {
                sign();
                take(&mut extent, part, length, (file, asked.offset))?;
                continue;
            }
            // The node reads the extent now.
            Ok(Answer::Extent(_)) => sign(),
            Ok(_) => return Err(Fault::Did(Misdeed::Lied)),
            Err(refusal) if refusal.code == code::BUSY => sign(),
            Err(refusal) if refusal.code.is_one_of(&silent) => {
                return Err(Fault::Did(Misdeed::Silent));
            }
            Err(_) => return Err(Fault::Refused),
        }
        if Instant::now() + ASKS_AGAIN >= until {
            return Err(Fault::Did(Misdeed::Slow));
        }
        std::thread::sleep(ASKS_AGAIN);
    }
    Ok(extent)
}

/// Adds a part that has the checksum of its bytes and its place.
fn take(
    extent: &mut Extent,
    part: ExtentPart,
    length: usize,
    (file, offset): (&FileKey, u64),
) -> Result<(), Fault> {
    let begin = offset + extent.bytes.len() as u64;
    let fits = extent.bytes.len() + part.bytes.len() <= length;
    if !fits || checksum(file, begin, &part.bytes) != part.checksum {
        return Err(Fault::Did(Misdeed::Lied));
    }
    extent.filled |= part.filled;
    extent.bytes.extend_from_slice(&part.bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use godwit_api::ask::{GoOn, Refusal};
    use godwit_api::grant::Mandate;
    use godwit_api::job::Text;
    use godwit_buffer::extent::{Generation, SourceId};

    use super::*;

    const LENGTH: usize = 1000;
    const PART: usize = 400;

    /// A node that answers questions about an extent as the test wants.
    struct Node<F>(F, Mutex<Vec<AskExtent>>);

    impl<F: Fn(&AskExtent, &mut GoOn<'_>) -> Result<Answer, Refusal> + Send + Sync> AskSites
        for Node<F>
    {
        fn ask_for(
            &self,
            _: Option<&Mandate>,
            _: Option<&Peer>,
            question: &Question,
            go_on: &mut GoOn<'_>,
        ) -> Result<Answer, Refusal> {
            let Question::Extent(asked) = question else {
                panic!("{question:?}");
            };
            self.1.lock().expect("noted").push((**asked).clone());
            (self.0)(asked, go_on)
        }

        fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
            Ok(())
        }
    }

    fn key() -> FileKey {
        FileKey {
            source: SourceId([1; 16]),
            path: b"run42/a".to_vec(),
            generation: Generation {
                bytes: 5000,
                stamp: 3,
            },
        }
    }

    fn content() -> Vec<u8> {
        (0..LENGTH)
            .map(|at| u8::try_from(at % 251).expect("small"))
            .collect()
    }

    /// The part that an honest node gives.
    fn part(asked: &AskExtent) -> ExtentPart {
        let from = asked.from as usize;
        let bytes = content()[from..LENGTH.min(from + PART)].to_vec();
        ExtentPart {
            filled: from == 0,
            checksum: checksum(&key(), asked.offset + u64::from(asked.from), &bytes),
            bytes,
        }
    }

    fn asked() -> AskExtent {
        AskExtent {
            export: "data".to_owned(),
            path: Text::from("run42/a"),
            bytes: 5000,
            stamp: 3,
            offset: 1000,
            length: 1000,
            from: 0,
            fill: true,
            keep_ms: None,
            next: vec![2000],
        }
    }

    fn fetch(
        answer: impl Fn(&AskExtent, &mut GoOn<'_>) -> Result<Answer, Refusal> + Send + Sync,
    ) -> (Result<Extent, Fault>, Vec<AskExtent>, usize) {
        let node = Node(answer, Mutex::default());
        let peer = Peer {
            name: "n2".to_owned(),
            addresses: Vec::new(),
            identity: "gw1-n2".to_owned(),
        };
        let limits = Limits {
            silent: Duration::from_millis(30),
            all: Duration::from_millis(100),
        };
        let signs = AtomicUsize::new(0);
        let sign = || {
            signs.fetch_add(1, Ordering::SeqCst);
        };
        let fetched = whole(&node, &peer, &asked(), &key(), limits, &sign);
        let questions = node.1.into_inner().expect("noted");
        (fetched, questions, signs.into_inner())
    }

    fn lies(change: impl Fn(&mut ExtentPart) + Send + Sync) {
        let (fetched, ..) = fetch(|asked, _| {
            let mut part = part(asked);
            if asked.from > 0 {
                change(&mut part);
            }
            Ok(Answer::Extent(part))
        });
        assert_eq!(fetched, Err(Fault::Did(Misdeed::Lied)));
    }

    #[test]
    fn an_extent_comes_in_parts_and_further_extents_are_named_once() {
        let (fetched, questions, signs) = fetch(|asked, _| Ok(Answer::Extent(part(asked))));
        let extent = Extent {
            bytes: content(),
            filled: true,
        };
        assert_eq!(fetched, Ok(extent));
        let named: Vec<(u32, usize)> = questions
            .iter()
            .map(|asked| (asked.from, asked.next.len()))
            .collect();
        assert_eq!(named, [(0, 1), (400, 0), (800, 0)]);
        assert_eq!(signs, 3);
    }

    #[test]
    fn bytes_that_are_not_those_of_the_question_are_not_used() {
        lies(|part| part.bytes[7] ^= 1);
        lies(|part| part.checksum ^= 1);
        lies(|part| part.bytes.truncate(PART - 1));
        lies(|part| part.bytes.extend_from_slice(&[0; LENGTH]));
        // A true part of another place.
        lies(|part| {
            part.bytes = content()[..PART].to_vec();
            part.checksum = checksum(&key(), 1000, &part.bytes);
        });
        let (fetched, ..) = fetch(|_, _| Ok(Answer::Done {}));
        assert_eq!(fetched, Err(Fault::Did(Misdeed::Lied)));
    }

    #[test]
    fn a_silent_node_and_one_that_never_ends_its_work_are_given_up() {
        let (fetched, ..) = fetch(|_, go_on| {
            while go_on(0) {
                std::thread::yield_now();
            }
            Err(Refusal::new(code::GIVEN_UP, "given up"))
        });
        assert_eq!(fetched, Err(Fault::Did(Misdeed::Silent)));
        let reads_it = |_: &AskExtent, _: &mut GoOn<'_>| Ok(Answer::Extent(ExtentPart::default()));
        let (fetched, questions, signs) = fetch(reads_it);
        assert_eq!(fetched, Err(Fault::Did(Misdeed::Slow)));
        assert_eq!(questions.len(), signs);
    }

    #[test]
    fn a_node_without_the_extent_is_not_to_blame() {
        for code in [code::NOT_FOUND, code::UNSUPPORTED, code::NO_SUCH_EXPORT] {
            let (fetched, questions, _) = fetch(|_, _| Err(Refusal::new(code, "no")));
            assert_eq!(fetched, Err(Fault::Refused));
            assert_eq!(questions.len(), 1);
        }
    }
}
