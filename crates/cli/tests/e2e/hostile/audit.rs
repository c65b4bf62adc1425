//! The audit under fire: a disk that is full for a moment, words without end about one's own job.
