//! Tracks chunked bodies (RFC 9112 section 7.1).

use super::{BARE_LF, Consumed, Framing, State, take};

/// Maximum digits of a chunk size: 16 hexadecimal digits fill 64 bits.
const CHUNK_SIZE_DIGITS: u8 = 16;

impl Framing {
    /// Within a chunked body (RFC 9112 section 7.1).
    pub(super) fn chunked(&mut self, rest: &[u8]) -> Consumed {
        let byte = rest[0];
        self.state = match self.state {
            State::ChunkSize { digits, value } => match (byte, (byte as char).to_digit(16)) {
                (_, Some(_)) if digits == CHUNK_SIZE_DIGITS => {
                    return Err((0, "a chunk's size has too many digits"));
                }
                (_, Some(digit)) => {
                    State::ChunkSize { digits: digits + 1, value: value << 4 | u64::from(digit) }
                }
                _ if digits == 0 => State::Lost,
                (b' ' | b'\t', _) => State::ChunkSpace(value),
                (b';', _) => State::ChunkExtension(value),
                (b'\r', _) => State::ChunkSizeLf(value),
                _ => State::Lost,
            },
            State::ChunkSpace(value) => match byte {
                b' ' | b'\t' => State::ChunkSpace(value),
                b';' => State::ChunkExtension(value),
                b'\r' => return Err((0, "white space follows a chunk's size")),
                _ => State::Lost,
            },
            State::ChunkExtension(value) => match byte {
                b'\r' => State::ChunkSizeLf(value),
                b'\n' => State::Lost,
                b'\t' => State::ChunkExtension(value),
                _ if byte.is_ascii_control() => {
                    return Err((0, "a chunk's extension has a control character"));
                }
                _ => State::ChunkExtension(value),
            },
            State::ChunkSizeLf(0) => return self.expect(byte, b'\n', |_| State::TrailerStart),
            State::ChunkSizeLf(n) => return self.expect(byte, b'\n', |_| State::ChunkData(n)),
            State::ChunkData(left) => {
                let (taken, left) = take(rest, left);
                self.state = if left == 0 { State::ChunkDataCr } else { State::ChunkData(left) };
                return Ok(taken);
            }
            State::ChunkDataCr => return self.expect(byte, b'\r', |_| State::ChunkDataLf),
            State::ChunkDataLf => {
                return self.expect(byte, b'\n', |_| State::ChunkSize { digits: 0, value: 0 });
            }
            State::TrailerStart if byte == b'\r' => State::EndLf,
            State::TrailerStart | State::Trailer => match byte {
                b'\r' => State::TrailerLf,
                b'\n' => return Err((0, BARE_LF)),
                _ => State::Trailer,
            },
            State::TrailerLf => return self.expect(byte, b'\n', |_| State::TrailerStart),
            State::EndLf => return self.expect(byte, b'\n', |_| State::Start),
            _ => State::Lost,
        };
        Ok(1)
    }
}
