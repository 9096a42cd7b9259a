//! Bodies of requests, which are in memory as a whole: there is a limit for each, and one for all of them
//! together.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::observe::within;

/// So many bytes of each body are not counted. Most have no more and should not pay for it, and the number
/// of connections is a bound for these.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// Why a body was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TooLarge,
    /// Nothing came for too long.
    Silent,
    /// Others take up the room.
    NoRoom,
    CutOff,
}

/// Reads bodies.
pub(super) struct Bodies {
    /// A permit is a byte.
    room: Arc<Semaphore>,
    /// For how long nothing may come. How long all of it may take is up to whoever asks.
    silence: Duration,
}

impl Bodies {
    pub(super) fn new(bytes_max: usize, silence: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(bytes_max)), silence }
    }

    /// Reads a body to its end. It takes up room as it comes, until nobody has it any more.
    pub(super) async fn read<B>(&self, body: B, limit: usize) -> Result<Bytes, Refused>
    where
        B: Body<Data = Bytes>,
    {
        let mut body = pin!(body);
        let (mut taken, mut read) = (Taken::Piece(Bytes::new()), 0);
        while let Some(piece) = self.next(body.as_mut()).await? {
            read += piece.len();
            if read > limit {
                return Err(Refused::TooLarge);
            }
            let left = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
            taken = taken.with(piece, limit.min(read + left), &self.room);
        }
        match taken {
            Taken::Piece(piece) => Ok(piece),
            Taken::Held(held) => Ok(Bytes::from_owner(held)),
            Taken::Nothing => Err(Refused::NoRoom),
        }
    }

    /// Reads a body to its end and keeps nothing. One that is too large or too slow is left.
    pub(super) async fn pass_over<B: Body<Data = Bytes>>(&self, body: B, limit: usize) {
        let (mut body, mut read) = (pin!(body), 0);
        while let Ok(Some(piece)) = self.next(body.as_mut()).await {
            read += piece.len();
            if read > limit {
                return;
            }
        }
    }

    /// The next piece; none at the end.
    async fn next<B>(&self, mut body: Pin<&mut B>) -> Result<Option<Bytes>, Refused>
    where
        B: Body<Data = Bytes>,
    {
        loop {
            let frame = within(self.silence, pin!(body.frame())).await.ok_or(Refused::Silent)?;
            let Some(frame) = frame else { return Ok(None) };
            // What may follow a body is of no use here.
            if let Ok(piece) = frame.map_err(|_| Refused::CutOff)?.into_data() {
                return Ok(Some(piece));
            }
        }
    }
}

/// What has come of a body.
enum Taken {
    /// One small piece at most, as it came.
    Piece(Bytes),
    Held(Held),
    /// There was no room. The rest is read all the same, because a client that is cut off while it sends may
    /// never see the answer.
    Nothing,
}

impl Taken {
    /// Takes another piece. `expected` is how many bytes there will be, as far as that is known.
    fn with(self, piece: Bytes, expected: usize, room: &Arc<Semaphore>) -> Self {
        let mut held = match self {
            Self::Piece(first) if first.is_empty() && piece.len() <= UNCOUNTED_BYTES => {
                return Self::Piece(piece);
            }
            Self::Piece(first) => Held::new(&first, expected),
            Self::Held(held) => held,
            Self::Nothing => return Self::Nothing,
        };
        if held.add(&piece, room) { Self::Held(held) } else { Self::Nothing }
    }
}

/// Bytes that take up room.
struct Held {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl Held {
    fn new(first: &[u8], expected: usize) -> Self {
        let mut bytes = Vec::with_capacity(expected);
        bytes.extend_from_slice(first);
        Self { bytes, room: None }
    }

    /// Whether there is room for more.
    fn add(&mut self, piece: &[u8], room: &Arc<Semaphore>) -> bool {
        let counted = |bytes: usize| bytes.saturating_sub(UNCOUNTED_BYTES);
        let more = counted(self.bytes.len() + piece.len()) - counted(self.bytes.len());
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(room).try_acquire_many_owned(more) else { return false };
        match &mut self.room {
            Some(room) => room.merge(more),
            None => self.room = Some(more),
        }
        self.bytes.extend_from_slice(piece);
        true
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    fn body(pieces: &[usize]) -> impl Body<Data = Bytes> + use<> {
        let frame = |bytes: &usize| Ok::<_, Infallible>(Frame::data(vec![b'x'; *bytes].into()));
        StreamBody::new(futures_util::stream::iter(pieces.iter().map(frame).collect::<Vec<_>>()))
    }

    #[tokio::test]
    async fn bodies_share_a_room_until_nobody_has_them() {
        let bodies = Bodies::new(50_000, Duration::from_secs(60));
        let read = |pieces: &[usize]| bodies.read(body(pieces), 100_000);
        let large = read(&[9_000, 30_000, 20_000]).await.unwrap();
        assert_eq!(large.len(), 59_000);
        assert_eq!(read(&[30_000]).await, Err(Refused::NoRoom));
        assert_eq!(read(&[90_000, 20_000]).await, Err(Refused::TooLarge), "whatever else");
        // Small ones always have room.
        assert_eq!(read(&[UNCOUNTED_BYTES]).await.unwrap().len(), UNCOUNTED_BYTES);
        assert_eq!(read(&[1, 2, 3]).await.unwrap().len(), 6);
        assert_eq!(read(&[]).await.unwrap(), "");
        let part = large.slice(..10);
        drop(large);
        assert_eq!(read(&[30_000]).await, Err(Refused::NoRoom), "a part of it is in use");
        drop(part);
        assert_eq!(read(&[30_000]).await.unwrap().len(), 30_000);
        assert_eq!(bodies.room.available_permits(), 50_000);
    }
}
