//! A part that is on its way to its provider isn't cut off: nobody would hear that it arrived, and it might be paid twice.

use tokio::sync::watch;

/// Whether a part is on its way now.
#[derive(Debug, Default)]
pub(in crate::worker) struct Way(watch::Sender<bool>);

/// A part that is; until it is dropped.
pub(super) struct OnItsWay<'a>(&'a Way);

impl Way {
    /// A part sets out.
    pub(super) fn begin(&self) -> OnItsWay<'_> {
        self.0.send_replace(true);
        OnItsWay(self)
    }

    /// What waits until no part is on its way.
    pub(super) fn clear(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_taken = self.0.subscribe();
        async move {
            // An error says that the lane is gone, and its parts with it.
            drop(is_taken.wait_for(|taken| !taken).await);
        }
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.0.0.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_way_is_clear_but_for_the_time_that_a_part_takes() {
        let way = Way::default();
        assert!(way.clear().now_or_never().is_some());
        let part = way.begin();
        let waits = way.clear();
        assert!(way.clear().now_or_never().is_none());
        drop(part);
        assert!(waits.now_or_never().is_some());
    }
}
