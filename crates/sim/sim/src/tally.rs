//! A hash of decisions by their codes and figures.

use pinfold_policy::code::{Figure, Value};
use pinfold_policy::{Decision, Instant};

/// FNV-1a over all decisions: time, job, and the codes and figures of action and reason. Independent of sentences and names
/// of types, so that it stays the same where only words change.
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
            // An error's text is a sentence; the reason's code already shows the failure.
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
