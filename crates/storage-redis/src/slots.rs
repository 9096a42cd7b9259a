//! Which slot of a cluster a hash tag belongs to.

/// Slots that a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM, as the cluster specification asks for.
pub(crate) fn slot(tag: &str) -> u16 {
    let mut crc = 0_u16;
    for byte in tag.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that the specification gives, and what `CLUSTER KEYSLOT` answers for two tags.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("1:"), slot("1:"));
    }
}
