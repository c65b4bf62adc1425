//! Frames: four bytes of length, little endian, then a JSON value.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::REPLY_MAX_BYTES;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than the reader takes.
    #[error("a message of {bytes} bytes is longer than the {max} allowed")]
    TooLong {
        /// Its announced length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// The frame's content has another form.
    #[error("a message is not understood")]
    Content(#[source] serde_json::Error),
}

/// Appends `value` as a frame to `out`.
///
/// # Errors
/// When the frame would exceed [`REPLY_MAX_BYTES`], the longest that clients read; serialization stops there and
/// `out` is unchanged.
pub fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let end = start + 4 + REPLY_MAX_BYTES;
    let written = serde_json::to_writer(Bounded { out: &mut *out, end }, value);
    let length = u32::try_from(out.len() - start - 4).ok().filter(|_| written.is_ok());
    let Some(length) = length else {
        out.truncate(start);
        out.shrink_to(start);
        return Err(too_long());
    };
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// A frame of [`Reply::Report`] built a report at a time, because thousands of reports take long.
#[derive(Debug, Default)]
pub struct ReportsFrame {
    /// The reports, with a comma behind each.
    bytes: Vec<u8>,
    /// Range of each job's report.
    places: BTreeMap<u64, Range<usize>>,
}

impl ReportsFrame {
    const HEAD: &[u8] = br#"{"report":["#;
    const TAIL: &[u8] = b"]}";

    /// Appends the report of a job, a [`ReportView`](crate::view::ReportView).
    ///
    /// # Errors
    /// When the frame would exceed [`REPLY_MAX_BYTES`]; the frame is then unusable.
    pub fn push<T: Serialize>(&mut self, job: u64, view: &T) -> Result<(), FrameError> {
        let start = self.bytes.len();
        let end = REPLY_MAX_BYTES - Self::HEAD.len() - Self::TAIL.len();
        serde_json::to_writer(Bounded { out: &mut self.bytes, end }, view).map_err(|_| too_long())?;
        self.bytes.push(b',');
        self.places.insert(job, start..self.bytes.len());
        Ok(())
    }

    /// Appends the report of a job once more; `None`: the job has no report yet.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn repeat(&mut self, job: u64) -> Option<Result<(), FrameError>> {
        let place = self.places.get(&job)?.clone();
        if self.bytes.len() + place.len() > REPLY_MAX_BYTES - Self::HEAD.len() - Self::TAIL.len() {
            return Some(Err(too_long()));
        }
        self.bytes.extend_from_within(place);
        Some(Ok(()))
    }

    /// How long the reports are so far, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The whole frame, in the form of [`encode`].
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let reports = self.bytes.strip_suffix(b",").unwrap_or(&self.bytes);
        let bytes = Self::HEAD.len() + reports.len() + Self::TAIL.len();
        let length = u32::try_from(bytes).expect("no frame is longer than REPLY_MAX_BYTES");
        [&length.to_le_bytes(), Self::HEAD, reports, Self::TAIL].concat()
    }
}

const fn too_long() -> FrameError {
    FrameError::TooLong { bytes: REPLY_MAX_BYTES + 1, max: REPLY_MAX_BYTES }
}

/// Bytes up to a bound.
struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    end: usize,
}

impl std::io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.end.saturating_sub(self.out.len()) < bytes.len() {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How long a value is as JSON, in bytes.
#[must_use]
pub fn json_bytes<T: Serialize>(value: &T) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting never fails.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Most bytes of buffer that a drained reader keeps.
const KEPT_BYTES: usize = 16 * 1024;

/// Collects arriving bytes and returns whole frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
    max_bytes: usize,
}

impl Decoder {
    /// A decoder for frames of up to `max_bytes`.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { buffer: Vec::new(), taken: 0, max_bytes }
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if complete.
    ///
    /// # Errors
    /// When a frame is too long or malformed; the connection is then unusable.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        Ok(self.take_sized()?.map(|(value, _)| value))
    }

    /// How many bytes arrived and are not taken yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// As [`Self::take`], with the length of the frame in bytes.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_sized<T: DeserializeOwned>(&mut self) -> Result<Option<(T, usize)>, FrameError> {
        let rest = &self.buffer[self.taken..];
        let Some((head, body)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*head) as usize;
        if bytes > self.max_bytes {
            return Err(FrameError::TooLong { bytes, max: self.max_bytes });
        }
        let Some(body) = body.get(..bytes) else { return Ok(None) };
        let value = serde_json::from_slice(body).map_err(FrameError::Content)?;
        self.taken += 4 + bytes;
        if self.pending() == 0 {
            // Releases the memory of a long frame, because the connection may last.
            self.buffer.clear();
            self.taken = 0;
            self.buffer.shrink_to(KEPT_BYTES);
        }
        Ok(Some((value, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let requests = [
            Request::Hello { version: WIRE_VERSION },
            Request::Wait { jobs: vec![1, 2] },
            Request::Control { job: 3, verb: Verb::Cancel { signal: 15 } },
        ];
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| encode(request, &mut bytes).unwrap());
        for cut in 1..=bytes.len() {
            let mut decoder = Decoder::new(REQUEST_MAX_BYTES);
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                while let Some(request) = decoder.take::<Request>().unwrap() {
                    got.push(request);
                }
            }
            assert_eq!(got, requests, "cut into pieces of {cut}");
        }
    }

    #[test]
    fn a_long_frame_is_refused_before_it_is_read() {
        let mut decoder = Decoder::new(10);
        decoder.push(&11u32.to_le_bytes());
        assert!(matches!(decoder.take::<Request>(), Err(FrameError::TooLong { bytes: 11, max: 10 })));
    }

    #[test]
    fn a_value_that_nobody_reads_is_no_frame() {
        let mut out = vec![7];
        let long = "x".repeat(REPLY_MAX_BYTES);
        assert!(matches!(encode(&long, &mut out), Err(FrameError::TooLong { .. })));
        assert_eq!(out, [7]);
        encode(&Reply::Done, &mut out).unwrap();
        assert_eq!(json_bytes(&Reply::Done), (out.len() - 5) as u64);
    }

    #[test]
    fn no_room_is_kept_for_a_long_frame() {
        let (mut decoder, mut bytes) = (Decoder::new(REQUEST_MAX_BYTES), Vec::new());
        encode(&Request::SetRemove { name: "x".repeat(200_000) }, &mut bytes).unwrap();
        decoder.push(&bytes[..9]);
        assert_eq!((decoder.pending(), decoder.take::<Request>().unwrap()), (9, None));
        decoder.push(&bytes[9..]);
        let taken = decoder.take_sized::<Request>().unwrap();
        assert_eq!(taken.map(|(_, length)| length), Some(bytes.len() - 4));
        assert!(decoder.pending() == 0 && decoder.buffer.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn a_frame_of_reports_is_as_if_it_were_made_at_once() {
        let view = |job: &u64| serde_json::json!({ "job": job, "name": "a, b]," });
        let check = |jobs: &[u64]| {
            let mut frame = ReportsFrame::default();
            for &job in jobs {
                frame.repeat(job).unwrap_or_else(|| frame.push(job, &view(&job))).unwrap();
            }
            let mut whole = Vec::new();
            let views: Vec<_> = jobs.iter().map(view).collect();
            encode(&serde_json::json!({ "report": views }), &mut whole).unwrap();
            assert!(frame.size() + 64 > whole.len());
            assert_eq!(frame.finish(), whole, "{jobs:?}");
        };
        check(&[]);
        let mut none = Vec::new();
        encode(&Reply::Report(Vec::new()), &mut none).unwrap();
        assert_eq!(ReportsFrame::default().finish(), none);
        check(&[1]);
        check(&[3, 1, 3, 3, 2, 1]);
    }

    #[test]
    fn a_frame_of_reports_is_no_longer_than_is_read() {
        let mut frame = ReportsFrame::default();
        let long = "x".repeat(REPLY_MAX_BYTES / 4);
        frame.push(1, &long).unwrap();
        assert!(frame.repeat(1).unwrap().is_ok() && frame.repeat(1).unwrap().is_ok());
        assert!(frame.repeat(2).is_none());
        let size = frame.size();
        assert!(frame.repeat(1).unwrap().is_err() && frame.size() == size);
        assert!(frame.push(1, &long).unwrap_err().to_string().contains("longer than"));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut decoder = Decoder::new(REQUEST_MAX_BYTES);
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<Request>() {}
        }
    }
}
