//! Owns the arithmetic of CRC-64/NVME: concatenation and runs of zeros, in time logarithmic in the length.
//! Does not compute the CRC of data: `crc-fast` does.
//!
//! CRCs are polynomials over GF(2) in reflected order: bit 63 is the coefficient of x^0. Appending n bytes multiplies the CRC before by
//! x^(8n) modulo the generator.

/// The CRC of `data`; of nothing it is 0.
pub(super) fn of(data: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, data)
}

/// The processor instructions that compute the CRC.
pub(super) fn implementation() -> String {
    crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc64Nvme)
}

/// The CRC of a concatenation from the CRCs of its two parts and the length of the second.
pub(super) fn combine(first: u64, second: u64, second_bytes: u64) -> u64 {
    shift(first, second_bytes) ^ second
}

/// The CRC of data with the CRC `crc`, followed by `bytes` zero bytes.
pub(super) fn append_zeros(crc: u64, bytes: u64) -> u64 {
    // The register starts as all ones and is inverted at the end: zeros shift the register, not the CRC.
    !shift(!crc, bytes)
}

/// `value` · x^(8 · `bytes`).
fn shift(value: u64, bytes: u64) -> u64 {
    let mut product = value;
    let mut rest = bytes;
    while rest != 0 {
        let bit = rest.trailing_zeros() as usize;
        product = multiply(POWERS[bit], product);
        rest &= rest - 1;
    }
    product
}

/// The product of two polynomials modulo the generator.
const fn multiply(left: u64, right: u64) -> u64 {
    let mut shifted = right;
    let mut rest = left;
    let mut product = 0;
    while rest != 0 {
        if rest >> 63 == 1 {
            product ^= shifted;
        }
        rest <<= 1;
        shifted = (shifted >> 1) ^ if shifted & 1 == 1 { GENERATOR } else { 0 };
    }
    product
}

/// The generator polynomial 0xAD93D23594C93659, reflected, without its leading term.
const GENERATOR: u64 = 0x9a6c_9329_ac4b_c9b5;

/// x^(8 · 2^k) for every k that a 64-bit length can have.
static POWERS: [u64; 64] = powers();

const fn powers() -> [u64; 64] {
    let mut powers = [0; 64];
    powers[0] = 1 << (63 - 8); // x^8
    let mut at = 1;
    while at < powers.len() {
        powers[at] = multiply(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::{append_zeros, combine, of};

    #[test]
    fn has_the_check_value_of_the_standard() {
        assert_eq!(of(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(of(b""), 0);
    }

    #[test]
    fn parts_combine_at_every_cut() {
        let data: Vec<u8> = (0..1000_u32).map(|n| (n * n % 251) as u8).collect();
        for cut in 0..=data.len() {
            let (first, second) = data.split_at(cut);
            let combined = combine(of(first), of(second), second.len() as u64);
            assert_eq!(combined, of(&data), "cut at {cut}");
        }
    }

    #[test]
    fn zeros_of_any_length_equal_real_ones() {
        for bytes in [0, 1, 7, 1024, 100_003] {
            let mut data = b"before".to_vec();
            data.resize(data.len() + bytes, 0);
            assert_eq!(append_zeros(of(b"before"), bytes as u64), of(&data));
        }
        let tebibyte = 1 << 40;
        let halves = append_zeros(append_zeros(5, tebibyte / 2), tebibyte / 2);
        assert_eq!(append_zeros(5, tebibyte), halves);
    }
}
