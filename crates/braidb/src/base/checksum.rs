//! CRC-32C (Castagnoli), in hardware where the machine has it. A checksum of a block or frame covers its place as well as its content,
//! so that a correct block in the wrong place counts as damage.

/// The checksum of `parts`, one after the other, which lie at `offset` of file `file`.
pub fn at_place(file: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut crc = 0;
    if !super::mutant::mutant!("checksum_without_place") {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&file.to_le_bytes());
        place[8..].copy_from_slice(&offset.to_le_bytes());
        crc = crc32c::crc32c(&place);
    }
    parts.iter().fold(crc, |crc, part| crc32c::crc32c_append(crc, part))
}

/// The checksum of a value. It covers the bytes and not their place, so it stays valid when the value is copied to another file.
pub fn of_value(value: &[u8]) -> u32 {
    crc32c::crc32c(value)
}

/// Extends the checksum `crc` of a file by `data`.
pub fn extend(crc: u32, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, data)
}
