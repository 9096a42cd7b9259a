//! Codes in the format of a binary `COPY`, made by hand: it is the bulk of all that is ever written.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use storage::BatchId;

/// The signature, no flags, no extension.
const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// In the place of a number of columns, this is the end.
const TRAILER: i16 = -1;

/// A row is its number of columns, and for each column its length and a big-endian number.
const COLUMNS: i16 = 2;
const COLUMN_BYTES: i32 = 8;
const ROW_BYTES: usize = 2 + 2 * (4 + 8);

/// Rows of a piece, which has 64 KiB then.
const PIECE_ROWS: u64 = 2500;

/// The rows of some codes of a batch, piece by piece. `position` is that of the first one.
pub(crate) fn copy_pieces(
    batch: BatchId,
    serials: Range<u64>,
    position: u64,
) -> impl Iterator<Item = Bytes> + Send {
    let (first, end) = (serials.start, serials.end);
    let header = std::iter::once(Bytes::from_static(HEADER));
    let pieces = (0..(end - first).div_ceil(PIECE_ROWS)).map(move |piece| {
        let start = first + piece * PIECE_ROWS;
        rows(batch, start..end.min(start + PIECE_ROWS), position + (start - first))
    });
    let trailer = std::iter::once(Bytes::copy_from_slice(&TRAILER.to_be_bytes()));
    header.chain(pieces).chain(trailer)
}

fn rows(batch: BatchId, serials: Range<u64>, position: u64) -> Bytes {
    let mut piece = BytesMut::with_capacity(ROW_BYTES * serials.clone().count());
    for (serial, position) in serials.zip(position..) {
        piece.put_i16(COLUMNS);
        piece.put_i32(COLUMN_BYTES);
        piece.put_u64(serial);
        piece.put_i32(COLUMN_BYTES);
        piece.put_i64(batch.code_id(position));
    }
    piece.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_every_row_once_and_in_order() {
        let batch = BatchId::new(7, 1);
        for count in [1, PIECE_ROWS - 1, PIECE_ROWS, PIECE_ROWS + 1, 3 * PIECE_ROWS] {
            let bytes: Vec<u8> = copy_pieces(batch, 100..100 + count, 40).flatten().collect();
            let rows = &bytes[HEADER.len()..bytes.len() - 2];
            assert_eq!(&bytes[bytes.len() - 2..], [0xff, 0xff]);
            assert_eq!(rows.len(), ROW_BYTES * usize::try_from(count).unwrap());
            for (row, place) in rows.chunks(ROW_BYTES).zip(0_u64..) {
                assert_eq!(row[6..14], (100 + place).to_be_bytes());
                assert_eq!(row[18..], batch.code_id(40 + place).to_be_bytes());
            }
        }
    }
}
