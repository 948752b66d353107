//! Little-endian integers, LEB128 varints and length-prefixed bytes. The decoder's input comes from disk. It checks every length
//! against the input, never allocates from a declared length, and never panics.

pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A varint length, then the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Decodes what the `put_` functions encode. Every method returns `None` if the input is too short or not canonical.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn new(input: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: input }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A varint in its shortest form.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.varint_tail(u64::from(first & 0x7f))
    }

    fn varint_tail(&mut self, mut value: u64) -> Option<u64> {
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return (byte != 0).then_some(value);
            }
        }
        None
    }

    pub fn varint_u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_have_one_form() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut decoder = Decoder::new(&out);
            assert_eq!(decoder.varint(), Some(value));
            assert!(decoder.is_empty());
            assert_eq!(Decoder::new(&out[..out.len() - 1]).varint(), None);
        }
        assert_eq!(Decoder::new(&[0x80, 0]).varint(), None, "an overlong zero");
        assert_eq!(Decoder::new(&[0xff; 10]).varint(), None, "more than 64 bits");
    }

    #[test]
    fn a_declared_length_is_not_believed() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        assert_eq!(Decoder::new(&out).bytes(), None);
    }
}
