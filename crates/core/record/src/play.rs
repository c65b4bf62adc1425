//! Plays a recording: the same policy takes the same events in, and what it decides is compared with what was recorded.

use std::io::Read;

use pinfold_policy::{Decision, Event, Instant, Policy};

use crate::frame::{Frame, Head, Step};
use crate::read::{Reader, RecordError};

/// A step that was played.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// Its number in the recording, from 1.
    pub step: u64,
    /// The time.
    pub now: Instant,
    /// What happened.
    pub event: Event,
    /// What was decided then.
    pub recorded: Vec<Decision>,
    /// What is decided now.
    pub made: Vec<Decision>,
}

impl Played {
    /// Whether both are the same.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.recorded == self.made
    }
}

/// A recording that is being played.
#[derive(Debug)]
pub struct Player<R: Read> {
    reader: Reader<R>,
    policy: Policy,
    steps: u64,
    /// The step that was read and is not played yet.
    ahead: Option<Step>,
}

impl<R: Read> Player<R> {
    /// Reads the state that a recording begins with.
    ///
    /// # Errors
    /// When it is no recording, or another version's.
    pub fn open(input: R) -> Result<Self, RecordError> {
        let mut reader = Reader::open(input)?;
        match reader.frame()? {
            Some(Frame::State(state)) => Ok(Self { reader, policy: *state, steps: 0, ahead: None }),
            Some(_) => Err(RecordError::NoRecording("no state follows its head".to_owned())),
            None => Err(RecordError::Begun),
        }
    }

    /// Which program wrote it, and when.
    pub fn head(&self) -> &Head {
        self.reader.head()
    }

    /// The scheduler as it is after the steps that were played.
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

    /// When the next step is; `None` at the end.
    ///
    /// # Errors
    /// When the recording cannot be read further.
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

    /// Plays the next step; `None` at the end.
    ///
    /// # Errors
    /// When the recording cannot be read further.
    pub fn step(&mut self) -> Result<Option<Played>, RecordError> {
        self.next_at()?;
        let Some(Step { now, event, decisions: recorded }) = self.ahead.take() else { return Ok(None) };
        let made = self.policy.step(now, event.clone());
        self.steps += 1;
        Ok(Some(Played { step: self.steps, now, event, recorded, made }))
    }
}
