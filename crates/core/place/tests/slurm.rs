//! The layout against what Slurm answered: 11,859 requests put to running clusters, in
//! `fixtures/slurm-layouts` (pretended hosts) and `fixtures/slurm-layouts-real` (masks read from the kernel).
//!
//! `LAYOUT_SHOW=20 LAYOUT_FILE=24.11 cargo test -p pinfold-place --test slurm -- --nocapture` shows
//! differences.
#![expect(clippy::unwrap_used, reason = "a test stops where its fixtures are not as they should be")]
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "only the library is pure")]

mod rows;

use rows::{compare, files};

/// How many rows of each file are equal; these may rise, never fall. Slurm 24.11 is the one to follow; of
/// 22.05 the settings with a plug-in parameter or another unit than core and CPU have no option here, and
/// their rows are compared with the default setting.
const EQUAL: [(&str, usize, usize); 15] = [
    ("real-2x2x2-split", 67, 67),
    ("real-2x4x1-4numa", 29, 29),
    ("real-2x4x2-adjacent", 114, 114),
    ("real-2x4x2-split", 58, 58),
    ("real-2x4x2-split-crcpu", 30, 30),
    ("slurm-22.05.8-CR_CPU", 648, 703),
    ("slurm-22.05.8-CR_CPU-occupied", 566, 578),
    ("slurm-22.05.8-CR_Core", 2895, 3080),
    ("slurm-22.05.8-CR_Core+CR_CORE_DEFAULT_DIST_BLOCK", 534, 741),
    ("slurm-22.05.8-CR_Core+CR_ONE_TASK_PER_CORE", 424, 686),
    ("slurm-22.05.8-CR_Core-autobind_cores", 642, 734),
    ("slurm-22.05.8-CR_Core-autobind_threads", 615, 716),
    ("slurm-22.05.8-CR_Core-occupied", 525, 544),
    ("slurm-22.05.8-CR_Socket", 245, 699),
    ("slurm-24.11.5-CR_Core", 3071, 3080),
];

#[test]
fn layouts_are_slurms() {
    let variable = |name: &str| std::env::var(name).ok();
    let show: usize = variable("LAYOUT_SHOW").and_then(|count| count.parse().ok()).unwrap_or(0);
    let only = variable("LAYOUT_FILE").unwrap_or_default();
    let names: Vec<String> = files().iter().map(|file| file.name.clone()).collect();
    assert_eq!(names, EQUAL.map(|(name, ..)| name), "the table names all files");
    for (file, (name, floor, count)) in files().iter().zip(EQUAL) {
        let rows = file.rows();
        assert_eq!(rows.len(), count, "{name}");
        let differences: Vec<String> = rows.iter().filter_map(|row| compare(row).err()).collect();
        let equal = count - differences.len();
        println!("{name}: {equal} of {count}");
        if name.contains(&only) {
            for difference in differences.iter().take(show) {
                println!("{difference}\n");
            }
        }
        assert!(equal >= floor, "{name}: {equal} rows are equal, {floor} were");
    }
}
