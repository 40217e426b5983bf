//! Messages as frames: a tag, a length that counts itself, a body ("Protocol, Message Formats").
//!
//! Forwarding looks at headers only, because it must see where a session ends; bodies pass unread and may be moved by
//! the kernel without passing this process at all.

use std::fmt;

/// The longest message that a server takes from a client: one less than its largest allocation (`MaxAllocSize`).
pub const LONGEST: usize = 0x3fff_fffe;

/// The bytes of a tag and a length.
pub const HEADER: usize = 5;

/// Where a client's stream stands between its frames. It sees headers, never bodies, and keeps no bytes.
#[derive(Clone, Debug, Default)]
pub struct Walker {
    body_left: usize,
    lost: bool,
}

/// What may be done with the bytes that were walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// So many bytes, from the first, may be forwarded now. What remains behind them, if there is no `Terminate`, is the
    /// beginning of a header, at most four bytes: keep it, and walk it again with what follows.
    pub forward: usize,
    /// Whether a `Terminate` follows right behind them. It is for the gate, and what comes after it is for nobody.
    pub terminate: bool,
}

/// A frame whose length cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What the frame claimed to be.
    pub tag: u8,
    /// How long it claimed to be.
    pub length: i32,
}

impl Walker {
    /// At the beginning of a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Walks on over the next bytes of the stream, and those that were left of the last walk before them.
    pub fn walk(&mut self, bytes: &[u8]) -> Result<Walk, Malformed> {
        let mut at = self.skip(bytes.len());
        while let Some(header) = bytes[at..].first_chunk::<HEADER>() {
            let (tag, body) = read_header(header, LONGEST).inspect_err(|_| self.lost = true)?;
            if tag == TERMINATE && body == 0 {
                return Ok(Walk { forward: at, terminate: true });
            }
            self.body_left = body;
            at += HEADER;
            at += self.skip(bytes.len() - at);
        }
        // Only a header's beginning can be left: bodies are skipped as far as there are bytes.
        Ok(Walk { forward: at, terminate: false })
    }

    /// How many bytes of the present frame's body are still to come: so many may be moved unseen.
    pub fn body_left(&self) -> usize {
        self.body_left
    }

    /// Notes that up to `moved` bytes of the present body passed without being walked; returns how many of them were the
    /// body's.
    pub fn skip(&mut self, moved: usize) -> usize {
        let skipped = moved.min(self.body_left);
        self.body_left -= skipped;
        skipped
    }

    /// Whether everything that was forwarded ends with a whole frame; never again after a malformed one, since the bytes
    /// before it were not forwarded. Bytes that [`Walker::walk`] left are the beginning of a frame that the server does
    /// not know of.
    pub fn at_boundary(&self) -> bool {
        self.body_left == 0 && !self.lost
    }
}

/// A whole message at the beginning of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub tag: u8,
    /// What it says.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first message in `bytes`, if it is complete and neither too short nor longer than `longest` (counted as the
    /// protocol counts: without the tag).
    pub fn next(bytes: &'a [u8], longest: usize) -> Result<Option<Self>, Malformed> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let (tag, length) = read_header(header, longest)?;
        Ok(rest.get(..length).map(|body| Self { tag, body }))
    }

    /// How many bytes of the buffer the message took.
    pub fn consumed(&self) -> usize {
        HEADER + self.body.len()
    }

    /// Appends the message as it was.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.tag);
        // A length that was read fits into what it was read from.
        out.extend(u32::try_from(self.body.len() + 4).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(self.body);
    }
}

/// A body may hold a password.
impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:?}, {} bytes)", char::from(self.tag), self.body.len())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message of type {:?} claims a length of {} bytes", char::from(self.tag), self.length)
    }
}

impl std::error::Error for Malformed {}

/// The end of a session, from the client.
const TERMINATE: u8 = b'X';

/// A header's tag and the length of the body behind it.
fn read_header(header: &[u8; HEADER], longest: usize) -> Result<(u8, usize), Malformed> {
    let &[tag, a, b, c, d] = header;
    let length = i32::from_be_bytes([a, b, c, d]);
    match usize::try_from(length) {
        Ok(whole @ 4..) if whole <= longest => Ok((tag, whole - 4)),
        _ => Err(Malformed { tag, length }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Frame { tag, body }.write(&mut out);
        out
    }

    /// Walks a stream that arrives in pieces, as a session does; returns what was forwarded and whether it ended.
    fn forward(walker: &mut Walker, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), Malformed> {
        let (mut forwarded, mut held) = (Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            let walk = walker.walk(&held)?;
            forwarded.extend(held.drain(..walk.forward));
            if walk.terminate {
                return Ok((forwarded, true));
            }
            assert!(held.len() < HEADER);
        }
        Ok((forwarded, false))
    }

    #[test]
    fn a_terminate_is_seen_wherever_it_comes_and_what_is_behind_it_is_for_nobody() {
        let query = frame(b'Q', b"SELECT 'X\0\0\0\x04'\0");
        for before in [vec![], query.clone(), [query.clone(), frame(b'S', b"")].concat()] {
            let bytes = [&before[..], b"X\0\0\0\x04behind"].concat();
            assert_eq!(Walker::new().walk(&bytes), Ok(Walk { forward: before.len(), terminate: true }));
        }
    }

    #[test]
    fn bytes_that_look_like_a_terminate_inside_a_body_are_just_bytes() {
        let copied = frame(b'd', b"X\0\0\0\x04");
        assert_eq!(Walker::new().walk(&copied), Ok(Walk { forward: copied.len(), terminate: false }));
    }

    #[test]
    fn a_body_that_moves_unseen_is_accounted_for() {
        let mut walker = Walker::new();
        assert_eq!(walker.walk(b"d\0\x10\0\x04ab"), Ok(Walk { forward: 7, terminate: false }));
        assert_eq!(walker.body_left(), 0x10_0000 - 2);
        assert!(!walker.at_boundary());
        assert_eq!(walker.skip(0x10_0000 - 3), 0x10_0000 - 3);
        assert_eq!(walker.skip(9), 1);
        assert!(walker.at_boundary());
        assert!(walker.walk(b"X\0\0\0\x04").unwrap().terminate);
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_and_the_boundary_is_lost() {
        for length in [i32::MIN, -1, 0, 3, 0x3fff_ffff, i32::MAX] {
            let mut walker = Walker::new();
            let bytes = [&b"S\0\0\0\x04Q"[..], &length.to_be_bytes()].concat();
            assert_eq!(walker.walk(&bytes), Err(Malformed { tag: b'Q', length }));
            assert!(!walker.at_boundary());
        }
        let longest = [&b"Q"[..], &0x3fff_fffe_i32.to_be_bytes()].concat();
        assert!(Walker::new().walk(&longest).is_ok());
    }

    #[test]
    fn a_frame_is_read_once_it_is_whole_and_never_awaited_if_it_is_too_long() {
        let bytes = [frame(b'p', b"secret\0"), frame(b'Q', b"")].concat();
        for cut in 0..12 {
            assert_eq!(Frame::next(&bytes[..cut], 100), Ok(None));
        }
        let read = Frame::next(&bytes, 100).unwrap().unwrap();
        assert_eq!((read.tag, read.body, read.consumed()), (b'p', &b"secret\0"[..], 12));
        assert_eq!(format!("{read:?}"), "Frame('p', 7 bytes)");
        assert_eq!(Frame::next(&bytes[..5], 10), Err(Malformed { tag: b'p', length: 11 }));
    }

    proptest! {
        #[test]
        fn frames_in_any_pieces_pass_unchanged(
            frames in vec((any::<u8>(), vec(any::<u8>(), 1..40)), 0..8),
            cuts in vec(any::<prop::sample::Index>(), 0..12),
            ends in any::<bool>(),
        ) {
            let stream: Vec<u8> = frames.iter().flat_map(|(tag, body)| frame(*tag, body)).collect();
            let whole = if ends { [&stream[..], b"X\0\0\0\x04Q"].concat() } else { stream.clone() };
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]).collect();
            let mut walker = Walker::new();
            prop_assert_eq!(forward(&mut walker, &pieces), Ok((stream, ends)));
            prop_assert!(walker.at_boundary());
        }

        #[test]
        fn any_stream_in_any_two_pieces_is_walked_the_same(bytes in vec(any::<u8>(), 0..60), cut in any::<prop::sample::Index>()) {
            let (one, other) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = forward(&mut Walker::new(), &[&bytes]);
            prop_assert_eq!(forward(&mut Walker::new(), &[one, other]), whole);
        }
    }
}
