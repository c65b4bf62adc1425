//! Replays a recording: the same policy handles the same events, and its decisions are compared with the recorded
//! decisions.

use std::io::Read;

use pinfold_policy::{Decision, Event, Instant, Policy};

use crate::frame::{Frame, Head, Step};
use crate::read::{Reader, RecordError};

/// A replayed step.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// Its number in the recording, from 1.
    pub step: u64,
    /// The time.
    pub now: Instant,
    /// The recorded event.
    pub event: Event,
    /// The recorded decisions.
    pub recorded: Vec<Decision>,
    /// The replay's decisions.
    pub made: Vec<Decision>,
}

impl Played {
    /// Whether the replay decided as recorded.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.recorded == self.made
    }
}

/// A recording during its replay.
#[derive(Debug)]
pub struct Player<R: Read> {
    reader: Reader<R>,
    policy: Policy,
    steps: u64,
    /// The step that was read and not yet replayed.
    ahead: Option<Step>,
}

impl<R: Read> Player<R> {
    /// Reads the state at the start of a recording.
    ///
    /// # Errors
    /// When the file is no recording, or has another version.
    pub fn open(input: R) -> Result<Self, RecordError> {
        let mut reader = Reader::open(input)?;
        match reader.frame()? {
            Some(Frame::State(state)) => Ok(Self { reader, policy: *state, steps: 0, ahead: None }),
            Some(_) => Err(RecordError::NoRecording("no state follows its head".to_owned())),
            None => Err(RecordError::Begun),
        }
    }

    /// The program that wrote the recording, and the time of its start.
    pub fn head(&self) -> &Head {
        self.reader.head()
    }

    /// The scheduler after the replayed steps.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// See [`Reader::is_cut`].
    pub fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }

    /// How many steps were played.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The time of the next step; `None` at the end.
    ///
    /// # Errors
    /// When the rest of the recording cannot be read.
    pub fn next_at(&mut self) -> Result<Option<Instant>, RecordError> {
        if self.ahead.is_none() {
            self.ahead = match self.reader.frame()? {
                Some(Frame::Step(step)) => Some(*step),
                None => None,
                Some(_) => {
                    let cause = "a second beginning".to_owned();
                    return Err(RecordError::Step { step: self.steps + 1, cause });
                }
            };
        }
        Ok(self.ahead.as_ref().map(|step| step.now))
    }

    /// Replays the next step; `None` at the end.
    ///
    /// # Errors
    /// When the rest of the recording cannot be read.
    pub fn step(&mut self) -> Result<Option<Played>, RecordError> {
        self.next_at()?;
        let Some(Step { now, event, decisions: recorded }) = self.ahead.take() else { return Ok(None) };
        let made = self.policy.step(now, event.clone());
        self.steps += 1;
        Ok(Some(Played { step: self.steps, now, event, recorded, made }))
    }
}
