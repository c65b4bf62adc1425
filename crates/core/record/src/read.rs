//! Reads a recording, which may be damaged, truncated within a frame, or hostile.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;

use crate::frame::{FORM, Frame, Head};

/// Most bytes of an uncompressed frame; a state of a million jobs has fewer.
const FRAME_BYTES_MAX: u64 = 1 << 32;

/// Most bytes of the uncompressed head.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Why a recording cannot be read or played.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Reading failed.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The file does not begin like a recording.
    #[error("it is no recording: {0}")]
    NoRecording(String),
    /// The file ends before its state is complete.
    #[error("it holds nothing yet: it is being written, or its writer was killed as it began")]
    Begun,
    /// The format has another version.
    #[error("its form is {found}, this program reads {FORM}; pinfold {program} wrote it")]
    Form {
        /// The format of the file.
        found: u32,
        /// The version that wrote the file.
        program: String,
    },
    /// The state cannot be understood: another version's.
    #[error("pinfold {program} wrote it, and this version does not understand its state: {cause}")]
    State {
        /// The version that wrote the file.
        program: String,
        /// The decoder's message.
        cause: String,
    },
    /// A frame makes no sense.
    #[error("step {step} makes no sense: {cause}")]
    Step {
        /// Its number, from 1.
        step: u64,
        /// The decoder's message.
        cause: String,
    },
}

/// Why no frame could be had.
enum Missing {
    /// The recording ends between two frames or, after a kill, within a frame.
    End,
    Io(io::Error),
    Senseless(String),
}

/// A recording during reading.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: BufReader<MultiGzDecoder<R>>,
    head: Head,
    steps: u64,
    is_cut: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a recording and reads its head.
    ///
    /// # Errors
    /// When the file is no recording, or has an unknown format.
    pub fn open(input: R) -> Result<Self, RecordError> {
        let mut input = BufReader::new(MultiGzDecoder::new(input));
        let head = match next::<Frame>(&mut input, HEAD_BYTES_MAX) {
            Ok((Frame::Head(head), _)) => head,
            Ok(_) => return Err(RecordError::NoRecording("it does not begin with a head".to_owned())),
            Err(Missing::End) => return Err(RecordError::Begun),
            Err(Missing::Senseless(cause)) => return Err(RecordError::NoRecording(cause)),
            Err(Missing::Io(error)) if is_torn(&error) => return Err(RecordError::Begun),
            Err(Missing::Io(error)) if is_of_the_packing(&error) => {
                return Err(RecordError::NoRecording("it is not packed by gzip, or damaged".to_owned()));
            }
            Err(Missing::Io(error)) => return Err(RecordError::Read(error)),
        };
        if head.form != FORM {
            return Err(RecordError::Form { found: head.form, program: head.program });
        }
        Ok(Self { input, head, steps: 0, is_cut: false })
    }

    /// The program that wrote the recording, and the time of its start.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the file is truncated: its writer was killed, or still writes.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// When the frame cannot be read or decoded.
    pub fn frame(&mut self) -> Result<Option<Frame>, RecordError> {
        self.typed()
    }

    /// The next frame, decoded as a `T`.
    pub(crate) fn typed<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, RecordError> {
        let program = || self.head.program.clone();
        match next::<T>(&mut self.input, FRAME_BYTES_MAX) {
            Ok((frame, _)) => {
                self.steps += 1;
                Ok(Some(frame))
            }
            Err(Missing::End) => Ok(None),
            Err(Missing::Io(error)) if is_torn(&error) => {
                self.is_cut = true;
                Ok(None)
            }
            Err(Missing::Io(error)) => Err(RecordError::Read(error)),
            Err(Missing::Senseless(cause)) if self.steps == 0 => {
                Err(RecordError::State { program: program(), cause })
            }
            Err(Missing::Senseless(cause)) => Err(RecordError::Step { step: self.steps, cause }),
        }
    }
}

/// Whether the error lies in the file's content, not in the disk.
fn is_of_the_packing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput};
    matches!(error.kind(), InvalidData | InvalidInput)
}

/// Whether the file ends where more should follow.
fn is_torn(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Reads a frame of at most `most` bytes; returns its length too.
fn next<T: serde::de::DeserializeOwned>(
    input: &mut impl io::BufRead,
    most: u64,
) -> Result<(T, u64), Missing> {
    if input.fill_buf().map_err(Missing::Io)?.is_empty() {
        return Err(Missing::End);
    }
    let mut bounded = input.take(most);
    match ciborium::from_reader(&mut bounded) {
        Ok(frame) => Ok((frame, most - bounded.limit())),
        Err(_) if bounded.limit() == 0 => {
            Err(Missing::Senseless(format!("a frame of more than {most} bytes, and that is the most here")))
        }
        Err(error) => Err(match error {
            ciborium::de::Error::Io(error) => Missing::Io(error),
            ciborium::de::Error::Syntax(at) => {
                Missing::Senseless(format!("no CBOR at byte {at} of the frame"))
            }
            ciborium::de::Error::Semantic(_, words) => Missing::Senseless(words),
            ciborium::de::Error::RecursionLimitExceeded => Missing::Senseless("nested too deep".to_owned()),
        }),
    }
}
