//! Questions to a learner, its answers, and its settings.

/// A request fits if it is at most so many times the advice.
const FITS: f64 = 1.25;
/// Bytes of the inner unit, GB.
pub(crate) const GB: f64 = 1e9;

/// How the runs of a class follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they ended, at a site: short jobs end first, and later runs may differ from earlier runs.
    #[default]
    Time,
    /// Shuffled: the next run is drawn from the same lot as the known runs.
    Exchangeable,
}

/// How a [`Learner`] weighs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The largest share of jobs that may need more than advised, in (0, 1). The cost of failures keeps it lower
    /// where memory is cheap compared with them.
    pub risk: f64,
    /// The cost of a failed attempt besides the memory it held, in GB x hours: the queue, the reader's attention.
    pub failure_gbh: f64,
    /// How runs follow each other.
    pub order: Order,
    /// Chooses which runs of a long history are scored.
    pub seed: u64,
}

impl Settings {
    /// The risk where nothing is said.
    pub const RISK: f64 = 0.1;

    /// The usual settings for runs in this order.
    #[must_use]
    pub fn of(order: Order) -> Self {
        let failure_gbh = match order {
            Order::Time => 10.0,
            Order::Exchangeable => 1.1,
        };
        Self { risk: Self::RISK, failure_gbh, order, seed: 0 }
    }
}

/// How many numbers of a job count, besides the size of its inputs.
pub const NUMBERS: usize = 4;

/// The features of a job, known before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Features {
    /// Size of its inputs, in bytes.
    pub input_bytes: Option<f64>,
    /// Numbers that its needs may follow, as arguments of its command; each place means the same in all jobs of a
    /// class.
    pub numbers: [Option<f64>; NUMBERS],
}

/// A run that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Known before the start.
    pub features: Features,
    /// The most memory it held, in bytes.
    pub peak_bytes: u64,
    /// How long it ran, in seconds; finite and not negative.
    pub wall_s: f64,
}

/// The allocation for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Bytes; with runs in the order of time at most 1.25 times the largest peak, unless `grows`.
    pub bytes: u64,
    /// The expected probability, from the fits' own errors, that the job needs more; at most 0.5.
    pub risk: f64,
    /// The 95 % interval (Wilson) of the share of earlier jobs that needed more than was advised for them.
    pub interval: (f64, f64),
    /// How many runs this rests on.
    pub runs: usize,
    /// The largest peak of these runs, in bytes.
    pub largest_bytes: u64,
    /// Whether the job's input, or its number, is larger than all before: the needs may be larger too.
    pub grows: bool,
    /// The estimator with the largest weight, the misses so far, and whether `grows`, in words.
    pub why: String,
}

/// A request beside the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too few runs for advice.
    Unknown,
    /// No memory was requested.
    Unasked,
    /// More than 1.25 times the advice.
    TooMuch,
    /// Less than the advice, and less than a run held.
    TooLittle,
    /// About the advice.
    Fits,
}

impl Advice {
    /// This advice beside a request.
    #[must_use]
    pub fn verdict(&self, request: Option<u64>) -> Verdict {
        match request {
            None => Verdict::Unasked,
            Some(request) if request < self.bytes.min(self.largest_bytes) => Verdict::TooLittle,
            Some(request) if request as f64 > self.bytes as f64 * FITS => Verdict::TooMuch,
            Some(_) => Verdict::Fits,
        }
    }
}

/// Whether the needs of a class changed lately: how many of its last runs needed more than the runs before them had
/// advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drift {
    /// So many did.
    pub missed: usize,
    /// Of so many.
    pub of: usize,
    /// Whether the misses are more than chance explains.
    pub drifts: bool,
}
