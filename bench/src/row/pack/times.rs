//! How long placing takes by the machine's size, and how long it takes to find who makes room.

use std::time::Instant;

use pinfold_place::pack::{Mover, Shape};

use super::{Dice, Grid, site};
use crate::record::Record;
use crate::stats::median;
use crate::table::{markdown, with_interval};

/// Each figure is the median of so many.
const ROUNDS: usize = 201;

/// From 2 cores to 1,024.
const GRIDS: [Grid; 6] = [
    Grid { sockets: 1, caches: 1, cores: 2 },
    Grid { sockets: 1, caches: 2, cores: 8 },
    Grid { sockets: 2, caches: 4, cores: 8 },
    Grid { sockets: 4, caches: 8, cores: 8 },
    Grid { sockets: 8, caches: 8, cores: 8 },
    Grid { sockets: 8, caches: 16, cores: 8 },
];

/// Cores wanted.
const COUNTS: [usize; 3] = [1, 8, 48];

pub(super) fn tell(record: &mut Record) -> anyhow::Result<()> {
    record.say(
        "Placing a job, half of the machine being held at random, in microseconds by the machine's size:\n",
    );
    let mut table = Vec::new();
    for grid in GRIDS {
        let cores = grid.all();
        let close = COUNTS.map(|count| place_times(grid, count, Shape::Compact));
        let apart = place_times(grid, 8, Shape::Spread);
        let room = repack_times(grid, 8);
        let times = serde_json::json!({ "cores": cores, "us": close, "spread_us": apart, "repack_us": room });
        record.add("time", &times)?;
        let words =
            |times: &[f64]| median(times).map_or_else(|| "-".to_owned(), |median| with_interval(&median, 1));
        let mut row = vec![format!("{cores} cores")];
        row.extend(close.iter().chain([&apart, &room]).map(|times| words(times)));
        table.push(row);
    }
    let head = ["machine", "1 core", "8 cores", "48 cores", "8 apart", "room for 8"];
    record.say(&markdown(&head, &table));
    Ok(())
}

fn half_free(grid: Grid, dice: &mut Dice) -> Vec<bool> {
    (0..grid.all()).map(|_| dice.next() & 1 == 1).collect()
}

/// Microseconds for a job of so many cores, over machines half held at random; none where they never fit.
fn place_times(grid: Grid, count: usize, shape: Shape) -> Vec<f64> {
    let site = site(grid);
    let mut dice = Dice(7);
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let free = half_free(grid, &mut dice);
        let began = Instant::now();
        let taken = std::hint::black_box(site.place(std::hint::black_box(&free), count, shape));
        let took = began.elapsed().as_secs_f64() * 1e6;
        if taken.is_some() {
            times.push(took);
        }
    }
    times
}

/// Microseconds to find who makes room for a job of so many cores, where no cache has them free; each held core is a job
/// of its own, as many as there can be.
fn repack_times(grid: Grid, count: usize) -> Vec<f64> {
    let site = site(grid);
    let mut dice = Dice(11);
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut free = half_free(grid, &mut dice);
        // One core of each cache is held, so that it takes a move at least.
        (0..grid.all()).step_by(grid.cores).for_each(|first| free[first] = false);
        let movers: Vec<Mover> = (0..free.len())
            .filter(|&core| !free[core])
            .map(|core| Mover { cores: vec![core], memory_bytes: dice.next() % (1 << 30) })
            .collect();
        let began = Instant::now();
        let found = std::hint::black_box(site.repack(std::hint::black_box(&free), &movers, count, 1 << 40));
        let took = began.elapsed().as_secs_f64() * 1e6;
        if found.is_some() {
            times.push(took);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_something_to_measure() {
        let grid = GRIDS[2];
        assert!(place_times(grid, 8, Shape::Compact).len() > ROUNDS / 2);
        assert!(place_times(grid, 8, Shape::Spread).len() > ROUNDS / 2);
        assert!(repack_times(grid, 8).len() > ROUNDS / 2);
        assert!(place_times(GRIDS[0], 8, Shape::Compact).is_empty(), "8 cores are not on a machine of 2");
    }
}
