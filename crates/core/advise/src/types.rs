//! What a learner is told and asked, what it answers, and how it weighs.

/// Bytes of the inner unit, GB.
pub(crate) const GB: f64 = 1e9;

/// How the runs of a class follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they ended, at a site: short jobs end first, and what comes may differ from what was.
    #[default]
    Time,
    /// Shuffled: the next run is drawn from the same lot as those known.
    Exchangeable,
}

/// How a [`Learner`] weighs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The largest share of jobs that may need more than advised, in (0, 1). The cost of failures keeps it lower
    /// where memory is cheap compared with them.
    pub risk: f64,
    /// What a failed attempt costs besides the memory it held, in GB x hours: the queue, the reader's attention.
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

/// What is known of a job before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Features {
    /// Size of its inputs, in bytes.
    pub input_bytes: Option<f64>,
    /// What it asks for, in bytes.
    pub request_bytes: Option<u64>,
    /// A number for its user: what one user asks for and needs says nothing of another's.
    pub user: Option<u32>,
    /// Numbers that may tell what it needs, as arguments of its command; each place means the same in all jobs of a
    /// class.
    pub numbers: [Option<f64>; NUMBERS],
}

/// A run that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// What was known before.
    pub features: Features,
    /// The most memory it held, in bytes.
    pub peak_bytes: u64,
    /// How long it ran, in seconds; finite and not negative.
    pub wall_s: f64,
}

/// What to allocate for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Bytes; with runs in the order of time never above the request where there is one.
    pub bytes: u64,
    /// The expected probability, from the fits' own errors, that the job needs more; at most 0.5.
    pub risk: f64,
    /// The 95 % interval (Wilson) of the share of earlier jobs that needed more than was advised for them.
    pub interval: (f64, f64),
    /// How many runs this rests on.
    pub runs: usize,
    /// Which estimator weighs most and why it is trusted, as a sentence.
    pub why: String,
}

/// Whether the needs of a class changed lately: how many of its last runs needed more than what the runs before them had
/// advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drift {
    /// So many did.
    pub missed: usize,
    /// Of so many.
    pub of: usize,
    /// Whether these are more than chance explains: advice then has more room.
    pub drifts: bool,
}
