//! What was decided, counted by its reason and told apart by its codes and figures.

use pinfold_policy::code::{Figure, Value};
use pinfold_policy::{Decision, Instant, MemoryReason, Reason, ShareReason};

/// The names of all reasons, as [`crate::Outcome::tally`] has them.
pub const REASONS: [&str; 32] = [
    "home core free",
    "backfill slot free",
    "backfill asked",
    "unscheduled",
    "promoted",
    "promoted to free core",
    "preempted",
    "idler core",
    "cpus gone",
    "cpus changed",
    "exclusive",
    "exclusive over",
    "slots shrank",
    "slot free",
    "asked",
    "priority changed",
    "queue full",
    "expired",
    "too large",
    "withdrawn",
    "adopted",
    "restored",
    "retry",
    "guaranteed",
    "taken back",
    "protected",
    "made room",
    "set free",
    "set aside",
    "interferes",
    "last of list",
    "not last of list",
];

pub(crate) fn name(reason: &Reason) -> &'static str {
    let index = match reason {
        Reason::HomeCoreFree { .. } => 0,
        Reason::BackfillSlotFree { .. } => 1,
        Reason::BackfillAsked { .. } => 2,
        Reason::Unscheduled => 3,
        Reason::Promoted { .. } => 4,
        Reason::PromotedToFreeCore => 5,
        Reason::Preempted { .. } => 6,
        Reason::IdlerCore { .. } => 7,
        Reason::CpusGone => 8,
        Reason::CpusChanged => 9,
        Reason::Exclusive { .. } => 10,
        Reason::ExclusiveOver => 11,
        Reason::SlotsShrank { .. } => 12,
        Reason::SlotFree => 13,
        Reason::Asked => 14,
        Reason::PriorityChanged { .. } => 15,
        Reason::QueueFull { .. } => 16,
        Reason::Expired { .. } => 17,
        Reason::TooLarge { .. } => 18,
        Reason::Withdrawn => 19,
        Reason::Adopted => 20,
        Reason::Restored => 21,
        Reason::BeginsAnew { .. } | Reason::Retry { .. } => 22,
        Reason::Share(ShareReason::Guaranteed { .. }) => 23,
        Reason::Share(ShareReason::Reclaimed { .. }) => 24,
        Reason::Protected { .. } => 25,
        Reason::MadeRoom { .. } => 26,
        Reason::SetFree { .. } => 27,
        Reason::SetAside { .. } => 28,
        Reason::Interferes { .. } => 29,
        Reason::LastOfList => 30,
        Reason::NotLastOfList => 31,
        // This host has no memory: see `pressure`.
        Reason::Memory(MemoryReason::Short { .. })
        | Reason::Share(ShareReason::MemoryReclaimed { .. })
        | Reason::Memory(MemoryReason::Needed { .. })
        | Reason::Memory(MemoryReason::Probed { .. })
        | Reason::Memory(MemoryReason::Overcommitted { .. })
        | Reason::Memory(MemoryReason::NextLacks { .. })
        | Reason::Memory(MemoryReason::Suffices { .. })
        | Reason::Memory(MemoryReason::NoOtherWay { .. })
        | Reason::Memory(MemoryReason::GrowsTooFast { .. })
        | Reason::Memory(MemoryReason::MayGrow { .. })
        | Reason::Memory(MemoryReason::Binding { .. })
        | Reason::Memory(MemoryReason::GoesFirst)
        | Reason::Memory(MemoryReason::NoRoomSoon { .. })
        | Reason::Memory(MemoryReason::Checkpointed)
        | Reason::Memory(MemoryReason::NotCheckpointed { .. })
        | Reason::Memory(MemoryReason::GoesFirstNoMore) => return "memory",
    };
    REASONS[index]
}

/// FNV-1a over all decisions: when, which job, and the codes and figures of action and reason. It does not depend on
/// sentences or on the names of types, so that it stays the same where only words change.
#[derive(Debug, Clone)]
pub(crate) struct Fnv(pub(crate) u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn add(&mut self, now: Instant, decision: &Decision) {
        self.number(now.0);
        self.number(decision.job.0);
        self.text(decision.action.code());
        decision.action.figures().iter().for_each(|figure| self.figure(figure));
        self.text(decision.reason.code());
        decision.reason.figures().iter().for_each(|figure| self.figure(figure));
    }

    fn figure(&mut self, figure: &Figure) {
        self.text(figure.name);
        match &figure.value {
            Value::Number(number) => self.number(*number),
            Value::Signed(number) => self.bytes(&number.to_le_bytes()),
            Value::Time(time) => self.bytes(&time.as_micros().to_le_bytes()),
            Value::Job(job) => self.number(job.0),
            Value::Code(code) => self.text(code),
            // What went wrong is a sentence; that something did is in the code of the reason.
            Value::Text(_) if figure.name == "error" => {}
            Value::Text(text) => self.text(text.as_deref().unwrap_or("-")),
            Value::Cpus(cpus) => self.text(&cpus.to_string()),
            Value::Nodes(nodes) => nodes.iter().for_each(|&node| self.number(node.into())),
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
