//! Runs both ends in one process, connected by streams inside it. Encrypts nothing: the data stays inside this process.

use std::sync::Arc;
use std::time::Duration;

use godwit_net::{StreamOptions, local_pair};

use super::Engine;
use crate::{End, Receiver, Sender};

/// Runs a transfer between two ends of this process until it ends. `watch` is called several times a second and returns
/// whether to continue.
///
/// # Errors
/// The process is out of descriptors or threads.
pub fn run_local(
    sender: &Arc<Sender>,
    receiver: &Arc<Receiver>,
    streams: u32,
    watch: &mut dyn FnMut(&Engine) -> bool,
) -> std::io::Result<End> {
    let mut threads = Vec::new();
    for index in 0..streams.max(1) {
        let (mut near, mut far) = local_pair(&StreamOptions::default())?;
        let (sending, receiving) = (Arc::clone(sender), Arc::clone(receiver));
        // A stream over a socket pair breaks only when the other end has stopped.
        let send = move || drop(sending.run_stream(&mut near));
        let receive = move || drop(receiving.run_stream(&mut far));
        threads.push(
            std::thread::Builder::new()
                .name(format!("gw-send-{index}"))
                .spawn(send)?,
        );
        threads.push(
            std::thread::Builder::new()
                .name(format!("gw-recv-{index}"))
                .spawn(receive)?,
        );
    }
    let engine = Engine::Sender(Arc::clone(sender));
    let end = loop {
        if let Some(end) = sender.wait(Duration::from_millis(200)) {
            break end;
        }
        if let Some(end @ End::Failed { .. }) = receiver.end() {
            sender.cancel("the receiving end failed");
            break end;
        }
        receiver.live().set_background(sender.live().background());
        sender.tune();
        receiver.tune();
        if !watch(&engine) {
            sender.cancel("interrupted by the user");
            receiver.cancel("interrupted by the user");
        }
    };
    sender.join();
    if !matches!(end, End::Finished(_)) {
        receiver.cancel("the sending end stopped");
    }
    for thread in threads {
        // If a thread panicked, the panic was already printed.
        let _ = thread.join();
    }
    receiver.join();
    Ok(end)
}
