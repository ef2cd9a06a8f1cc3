//! What gathers while a commit runs goes into the next one: no timers, and a lone caller waits for nobody.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The most that goes into one transaction.
pub(super) const GROUP: usize = 256;

/// Waits for something to write and takes what else is there, up to [`GROUP`]. Empty: closed, and nothing is left.
pub(super) async fn next<T>(
    receiver: &mut mpsc::Receiver<T>,
    closing: &CancellationToken,
) -> Vec<T> {
    let mut group = Vec::new();
    loop {
        tokio::select! {
            biased;
            // What was sent before is still received.
            () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
            _ = receiver.recv_many(&mut group, GROUP) => return group,
        }
    }
}
