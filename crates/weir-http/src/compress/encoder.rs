//! Encoders with pushed input and appended output: gzip by zlib-rs, brotli by its Rust port, zstd
//! by its reference library. Their windows are bounded, and therefore their memory.

use brotli::CompressorWriter;
use flate2::{Compress, FlushCompress, Status};
use std::io::Write as _;
use weir_config::ContentCoding;
use zstd::stream::raw::{CParameter, InBuffer, Operation as _, OutBuffer};

/// An encoder of any coding, reused for further bodies if the coding supports it.
pub enum Encoder {
    /// gzip (RFC 1952).
    Gzip(Gzip),
    /// Brotli (RFC 7932).
    Br(Box<CompressorWriter<Vec<u8>>>),
    /// Zstandard (RFC 8878).
    Zstd(Box<Zstd>),
}

/// Maximum window of brotli and zstd, as a power of two: 512 KiB. Every decoder supports more (RFC
/// 7932 section 9.1: 16 MiB, RFC 9659: 8 MiB); an encoder takes a few times as much.
const WINDOW_LOG: u32 = 19;

impl Encoder {
    /// Creates an encoder with this level, 1 to 9.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(coding: ContentCoding, level: u32) -> Result<Self, EncoderError> {
        let level = level.clamp(1, 9);
        Ok(match coding {
            ContentCoding::Gzip => Self::Gzip(Gzip::new(level)),
            ContentCoding::Br => {
                let writer = CompressorWriter::new(Vec::new(), Zstd::STEP, level, WINDOW_LOG);
                Self::Br(Box::new(writer))
            }
            ContentCoding::Zstd => Self::Zstd(Box::new(Zstd::new(level)?)),
        })
    }

    /// Prepares the encoder for another body; `None` if it cannot be reused.
    pub fn reset(mut self) -> Option<Self> {
        match &mut self {
            Self::Gzip(gzip) => gzip.reset(),
            Self::Zstd(zstd) => zstd.raw.reinit().ok()?,
            Self::Br(_) => return None,
        }
        Some(self)
    }

    /// Consumes all of `input`; appends the output that is ready, which may be empty.
    ///
    /// # Errors
    /// Used after its end.
    pub fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), EncoderError> {
        match self {
            Self::Gzip(gzip) => gzip.write(input, out),
            Self::Br(writer) => {
                writer.write_all(input).map_err(|_| EncoderError)?;
                out.append(writer.get_mut());
                Ok(())
            }
            Self::Zstd(zstd) => zstd.write(input, out),
        }
    }

    /// Appends the output of all input up to now, so that the client can decode it.
    ///
    /// # Errors
    /// Used after its end.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderError> {
        match self {
            Self::Gzip(gzip) => gzip.flush(out),
            Self::Br(writer) => {
                writer.flush().map_err(|_| EncoderError)?;
                out.append(writer.get_mut());
                Ok(())
            }
            Self::Zstd(zstd) => zstd.drain(out, |raw, room| raw.flush(room)),
        }
    }

    /// Appends the remaining output and the trailer.
    ///
    /// # Errors
    /// Used after its end.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderError> {
        match self {
            Self::Gzip(gzip) => gzip.finish(out),
            Self::Br(writer) => {
                let spent = CompressorWriter::new(Vec::new(), 1, 0, 10);
                out.append(&mut std::mem::replace(&mut **writer, spent).into_inner());
                Ok(())
            }
            Self::Zstd(zstd) => zstd.drain(out, |raw, room| raw.finish(room, true)),
        }
    }
}

/// A zstd encoder.
pub struct Zstd {
    raw: zstd::stream::raw::Encoder<'static>,
}

impl Zstd {
    /// Output space reserved at a time, in bytes.
    const STEP: usize = 8 * 1024;

    fn new(level: u32) -> Result<Self, EncoderError> {
        let level = i32::try_from(level).unwrap_or(1);
        let mut raw = zstd::stream::raw::Encoder::new(level).map_err(|_| EncoderError)?;
        raw.set_parameter(CParameter::WindowLog(WINDOW_LOG)).map_err(|_| EncoderError)?;
        Ok(Self { raw })
    }

    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), EncoderError> {
        let mut input = InBuffer::around(input);
        while input.pos() < input.src.len() {
            out.reserve(Self::STEP);
            let end = out.len();
            let mut room = OutBuffer::around_pos(out, end);
            self.raw.run(&mut input, &mut room).map_err(|_| EncoderError)?;
        }
        Ok(())
    }

    /// Runs until the encoder has no more output.
    fn drain(
        &mut self,
        out: &mut Vec<u8>,
        mut step: impl FnMut(
            &mut zstd::stream::raw::Encoder<'static>,
            &mut OutBuffer<'_, Vec<u8>>,
        ) -> std::io::Result<usize>,
    ) -> Result<(), EncoderError> {
        loop {
            out.reserve(Self::STEP);
            let end = out.len();
            let mut room = OutBuffer::around_pos(out, end);
            if step(&mut self.raw, &mut room).map_err(|_| EncoderError)? == 0 {
                return Ok(());
            }
        }
    }
}

/// A gzip encoder with pushed input and appended output.
///
/// It takes about 256 KiB, so a worker keeps a few and [`Gzip::reset`]s them.
#[derive(Debug)]
pub struct Gzip {
    deflate: Compress,
}

/// The state of the encoder is lost: it was used after its end, or memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encoder is finished or out of memory")]
pub struct EncoderError;

impl Gzip {
    /// Output space reserved at a time, in bytes.
    const STEP: usize = 8 * 1024;
    /// 32 KiB, the largest window, which every decoder supports.
    const WINDOW_BITS: u8 = 15;

    /// Creates an encoder with this level, 1 to 9.
    pub fn new(level: u32) -> Self {
        let level = flate2::Compression::new(level.clamp(1, 9));
        Self { deflate: Compress::new_gzip(level, Self::WINDOW_BITS) }
    }

    /// Prepares the encoder for another body, with the same memory.
    pub fn reset(&mut self) {
        self.deflate.reset();
    }

    /// Consumes all of `input`; appends the output that is ready, which may be empty.
    ///
    /// # Errors
    /// Used after [`Gzip::finish`].
    pub fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), EncoderError> {
        let mut rest = input;
        while !rest.is_empty() {
            let before = self.deflate.total_in();
            self.run(rest, out, FlushCompress::None)?;
            let taken = (self.deflate.total_in() - before) as usize;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Appends the output of all input up to now, so that the client can decode it.
    ///
    /// # Errors
    /// Used after [`Gzip::finish`].
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderError> {
        self.drain(out, FlushCompress::Sync)
    }

    /// Appends the remaining output and the trailer.
    ///
    /// # Errors
    /// The encoder is finished already.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderError> {
        self.drain(out, FlushCompress::Finish)
    }

    /// Runs until the output no longer fills the given space: then the encoder has no more output.
    fn drain(&mut self, out: &mut Vec<u8>, flush: FlushCompress) -> Result<(), EncoderError> {
        loop {
            let status = self.run(&[], out, flush)?;
            if status == Status::StreamEnd || out.len() < out.capacity() {
                return Ok(());
            }
        }
    }

    fn run(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        flush: FlushCompress,
    ) -> Result<Status, EncoderError> {
        if out.capacity() - out.len() < Self::STEP / 8 {
            out.reserve(Self::STEP);
        }
        self.deflate.compress_vec(input, out, flush).map_err(|_| EncoderError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn decoded(coding: ContentCoding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            ContentCoding::Gzip => GzDecoder::new(bytes).read_to_end(&mut plain),
            ContentCoding::Br => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain),
            ContentCoding::Zstd => {
                zstd::Decoder::new(bytes).and_then(|mut d| d.read_to_end(&mut plain))
            }
        }
        .expect("well formed");
        plain
    }

    #[test]
    fn a_flush_makes_everything_readable() {
        for coding in ContentCoding::ALL {
            let mut encoder = Encoder::new(coding, 1).unwrap();
            let mut out = Vec::new();
            encoder.write(b"first event", &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            let mut seen = [0; 11];
            match coding {
                ContentCoding::Gzip => GzDecoder::new(&out[..]).read_exact(&mut seen),
                ContentCoding::Br => brotli::Decompressor::new(&out[..], 64).read_exact(&mut seen),
                ContentCoding::Zstd => {
                    zstd::Decoder::new(&out[..]).and_then(|mut d| d.read_exact(&mut seen))
                }
            }
            .expect("readable before the end");
            assert_eq!(&seen, b"first event", "{coding:?}");
        }
    }

    #[test]
    fn an_empty_body_and_a_used_encoder() {
        for coding in ContentCoding::ALL {
            let mut encoder = Some(Encoder::new(coding, 9).unwrap());
            for body in [&b""[..], b"again"] {
                let mut used = encoder.take().unwrap_or_else(|| Encoder::new(coding, 9).unwrap());
                let mut out = Vec::new();
                used.write(body, &mut out).unwrap();
                used.finish(&mut out).unwrap();
                assert_eq!(decoded(coding, &out), body, "{coding:?}");
                encoder = used.reset();
            }
        }
    }

    proptest! {
        #[test]
        fn any_body_in_any_pieces_comes_back(
            body in prop::collection::vec(any::<u8>(), 0..40_000),
            repeat in 1usize..4,
            piece in 1usize..9_000,
            flush_every in 1usize..5,
            room in 0usize..3_000,
            level in 1u32..=9,
            coding in 0usize..3,
        ) {
            let body = body.repeat(repeat);
            let coding = ContentCoding::ALL[coding];
            let mut encoder = Encoder::new(coding, level).unwrap();
            let mut out = Vec::with_capacity(room);
            for (number, part) in body.chunks(piece).enumerate() {
                encoder.write(part, &mut out).unwrap();
                if number % flush_every == 0 {
                    encoder.flush(&mut out).unwrap();
                }
            }
            encoder.finish(&mut out).unwrap();
            prop_assert_eq!(decoded(coding, &out), body);
        }
    }
}
