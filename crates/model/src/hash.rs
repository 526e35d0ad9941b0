//! Owns the hash that is the same on every node and in every release. It keeps no secret, and protects from no forgery.
//! Stores nothing.

/// FNV-1a, 64 bits.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let bytes = bytes.into_iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_has_the_published_values() {
        let of = |text: &str| fnv(text.bytes());
        assert_eq!(of(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of("foobar"), 0x8594_4171_f739_67e8);
    }
}
