//! Tests of a verification's state after a connection dies.
//! Opens no real connection.

use super::*;
use crate::session::receive_frame;
use godwit_net::{
    Connection, StreamCounters, StreamError, StreamOptions, TcpInfo, Waker, local_pair,
};
use godwit_proto::Prelude;

/// A stream that dies silently while it sends the frame after a given number of frames.
struct Dying {
    inner: Connection,
    left: u32,
}

impl Stream for Dying {
    fn send(&mut self, _head: &[u8], _payload: &[u8]) -> Result<(), StreamError> {
        if self.left == 0 {
            return Err(StreamError::Closed { peer: self.peer() });
        }
        self.left -= 1;
        Ok(())
    }
    fn send_all(&mut self, frames: &[u8]) -> Result<(), StreamError> {
        self.send(frames, &[])
    }
    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        Ok(None)
    }
    fn recv_payload(&mut self, into: &mut [u8]) -> Result<(), StreamError> {
        self.inner.recv_payload(into)
    }
    fn wait(&mut self, timeout: Duration) -> Result<godwit_net::Wake, StreamError> {
        self.inner.wait(timeout)
    }
    fn wait_woken(&mut self, timeout: Duration) -> Result<godwit_net::Wake, StreamError> {
        self.inner.wait_woken(timeout)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn peer(&self) -> String {
        self.inner.peer()
    }
    fn set_plain_payload(&mut self, plain: bool) {
        self.inner.set_plain_payload(plain);
    }
    fn set_stall_limit(&mut self, limit: Duration) {
        self.inner.set_stall_limit(limit);
    }
    fn counters(&self) -> StreamCounters {
        self.inner.counters()
    }
    fn meter(&self) -> std::sync::Arc<godwit_net::StreamMeter> {
        self.inner.meter()
    }

    fn measure(&mut self) {
        self.inner.measure();
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        self.inner.tcp_info()
    }
    fn shutdown(&mut self) {
        self.inner.shutdown();
    }
}

/// Yields batches of one entry each until the check is interrupted.
#[derive(Default)]
struct Batches {
    given: u64,
    is_interrupted: bool,
}

impl Expectations for Batches {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Refusal> {
        self.given += 1;
        Ok(Some(vec![Record::default()]))
    }
    fn checked(&mut self, _record: &Record, _fault: Option<&Fault>) {}
    fn extra(&mut self, _path: &[u8]) {}
    fn goes_on(&mut self) -> bool {
        !self.is_interrupted
    }
}

fn asking() -> Asking {
    Asking {
        unanswered: BTreeMap::new(),
        next_seq: 1,
        over: false,
    }
}

#[test]
fn a_daemon_that_never_pauses_does_not_put_off_the_interrupt() {
    let (mut near, mut far) = local_pair(&StreamOptions::default()).expect("a pair");
    let mut frames = Vec::new();
    for nonce in 0..3 * FRAMES_A_TURN as u64 {
        Ping { nonce }.encode(&mut frames);
    }
    far.send_all(&frames).expect("sent");
    let mut batches = Batches {
        is_interrupted: true,
        ..Batches::default()
    };
    let end = asking().run(&mut near, TransferId([7; 16]), &mut batches);
    assert!(matches!(end, Ok(VerifyEnd::Interrupted)));
    let mut receive = || receive_frame(&mut far, Duration::from_secs(10)).expect("a frame");
    for _ in 0..FRAMES_A_TURN {
        assert!(matches!(receive(), Frame::Pong(_)));
    }
    assert!(matches!(receive(), Frame::Cancel(_)));
}

#[test]
fn an_announcement_cut_by_a_dead_connection_is_repeated() {
    for left in [0, 1, 5] {
        let (inner, _other) = local_pair(&StreamOptions::default()).expect("a pair");
        let mut asking = asking();
        let mut batches = Batches::default();
        let end = asking.run(
            &mut Dying { inner, left },
            TransferId([7; 16]),
            &mut batches,
        );
        assert!(matches!(end, Err(Trouble::Lost(_))));
        assert_eq!(batches.given, u64::from(left) + 1);
        assert_eq!(asking.unanswered.len() as u64, batches.given);
    }
}
