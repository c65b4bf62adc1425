//! Reads one recording, which may be damaged, cut off in mid-frame, or made to do harm.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;

use crate::frame::{FORM, Frame, Head};

/// So many bytes a frame may have, unpacked. A state of a million jobs has fewer.
const FRAME_BYTES_MAX: u64 = 1 << 32;

/// And so many the head, which names the program that wrote the rest.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Why a recording cannot be read or played.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Reading failed.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// It does not begin as a recording does.
    #[error("it is no recording: {0}")]
    NoRecording(String),
    /// It ends before the state that it begins with.
    #[error("it holds nothing yet: it is being written, or its writer was killed as it began")]
    Begun,
    /// Another version's.
    #[error("its form is {found}, this program reads {FORM}; pinfold {program} wrote it")]
    Form {
        /// The form it has.
        found: u32,
        /// The version that wrote it.
        program: String,
    },
    /// The state cannot be understood: another version's.
    #[error("pinfold {program} wrote it, and this version does not understand its state: {cause}")]
    State {
        /// The version that wrote it.
        program: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A frame makes no sense.
    #[error("step {step} makes no sense: {cause}")]
    Step {
        /// Its number, from 1.
        step: u64,
        /// What is wrong with it.
        cause: String,
    },
}

/// Why no frame could be had.
enum Missing {
    /// The recording ends here, between two frames or, as after a kill, within one.
    End,
    Io(io::Error),
    Senseless(String),
}

/// A recording that is being read.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: BufReader<MultiGzDecoder<R>>,
    head: Head,
    steps: u64,
    is_cut: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read, up to the head.
    ///
    /// # Errors
    /// When it is no recording, or one of a form that this version does not know.
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

    /// Which program wrote it, and when.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the end that was reached is one that the writer did not make: it was killed, or the file is still written.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// When it cannot be read, or makes no sense.
    pub fn frame(&mut self) -> Result<Option<Frame>, RecordError> {
        self.typed()
    }

    /// The next frame, in whatever form it is wanted.
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

/// Whether it is the file that is wrong, not the disk.
fn is_of_the_packing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput};
    matches!(error.kind(), InvalidData | InvalidInput)
}

/// Whether the file ends where more should follow.
fn is_torn(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Reads one frame of at most so many bytes; says how many it had.
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
