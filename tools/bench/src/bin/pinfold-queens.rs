//! Counts the ways to put N queens on a board of N x N so that none attacks another, by integer operations on registers
//! alone: a code that needs a core and nothing else, so that all variation of its time comes from outside.
//!
//! Prints the count, and the seconds from its first to its last step, without its start. Owns nothing.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use clap::Parser;
use pinfold_proto::quantity::whole;

/// Counts the solutions of the queens' problem, several times over.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Queens.
    #[arg(long, default_value_t = 12, value_parser = whole::<u32>(1..=20))]
    queens: u32,
    /// Number of repetitions of the whole.
    #[arg(long, default_value_t = 1)]
    times: u32,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let start = Instant::now();
    let count = (0..args.times).map(|_| solutions(black_box(args.queens))).sum::<u64>();
    let seconds = start.elapsed().as_secs_f64();
    writeln!(std::io::stdout(), "{count} {seconds:.9}")
}

/// Solutions for a board of `queens` rows, at most 20.
fn solutions(queens: u32) -> u64 {
    place((1 << queens) - 1, 0, 0, 0)
}

/// Solutions for the remaining rows: `columns` are taken, and `left` and `right` the squares of this row that a queen above
/// attacks.
fn place(board: u32, columns: u32, left: u32, right: u32) -> u64 {
    if columns == board {
        return 1;
    }
    let mut free = board & !(columns | left | right);
    let mut count = 0;
    while free != 0 {
        let square = free & free.wrapping_neg();
        free ^= square;
        count += place(board, columns | square, (left | square) << 1, (right | square) >> 1);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published numbers (OEIS A000170).
    #[test]
    fn as_many_as_known() {
        let known = [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680];
        for (queens, known) in (1..).zip(known) {
            assert_eq!(solutions(queens), known, "{queens}");
        }
    }
}
