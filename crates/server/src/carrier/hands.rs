//! Work that may never come to an end, such as that on a file system which hangs. A call like that cannot be
//! ended, so what is bounded is how many of them hang.

use super::room::{Bounds, Full, Room};

/// Threads that do what may hang. The pool that they are from also serves others.
pub(super) struct Hands {
    room: Room,
}

/// Why something was not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    /// Too much hangs already.
    Full(Full),
    Interrupted,
}

impl Hands {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { room: Room::new(bounds) }
    }

    /// Does something on a thread that may block. Says so if too many hang already, in this place or
    /// anywhere.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        place: &str,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let permit = self.room.enter(place).await.map_err(NotDone::Full)?;
        let done = tokio::task::spawn_blocking(move || {
            // Given back when the step is over, whether or not anybody still waits for it.
            let _permit = permit;
            step()
        });
        done.await.map_err(|_| NotDone::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    const BOUNDS: Bounds = Bounds { in_all: 64, in_place: 4, wait_max: Duration::ZERO };

    #[tokio::test]
    async fn a_place_that_hangs_holds_up_no_other() {
        let hands = Arc::new(Hands::new(BOUNDS));
        let (entered, mut hanging) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for _ in 0..BOUNDS.in_place {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (hands, entered) = (Arc::clone(&hands), entered.clone());
            let hang = move || {
                entered.send(()).unwrap();
                ended.recv()
            };
            let given_up = tokio::spawn(async move { hands.run("away", hang).await });
            hanging.recv().await.unwrap();
            // It hangs all the same.
            given_up.abort();
        }
        let refused = hands.run("away", || ()).await.unwrap_err();
        assert_eq!(refused, NotDone::Full(Full::There));
        assert_eq!(hands.run("here", || 7).await, Ok(7));
        // What hung comes to an end.
        drop(ends);
        while hands.run("away", || ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
