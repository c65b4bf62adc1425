//! The host's temperatures and the PUs' frequencies, below `/sys`, if it has them: virtual machines mostly do not.

use std::fs;
use std::path::{Path, PathBuf};

/// Readings outside this range, in thousandths of a degree, come from broken sensors or other quantities.
const SENSIBLE_MILLI: std::ops::Range<u64> = 1..150_000;

/// The temperature of the hottest sensor, in thousandths of a degree Celsius; `None`: there is none. `sys` is `/sys`.
#[must_use]
pub fn temperature_milli(sys: &Path) -> Option<u64> {
    let zones = entries(&sys.join("class/thermal"), "thermal_zone").into_iter().map(|zone| zone.join("temp"));
    let chips = entries(&sys.join("class/hwmon"), "hwmon");
    let sensors = chips.iter().flat_map(|chip| entries(chip, "temp"));
    let sensors = sensors.filter(|file| file.to_string_lossy().ends_with("_input"));
    zones.chain(sensors).filter_map(|file| number(&file)).filter(|milli| SENSIBLE_MILLI.contains(milli)).max()
}

/// The mean frequency of the PUs, in kHz; `None`: unknown.
#[must_use]
pub fn frequency_khz(sys: &Path) -> Option<u64> {
    let pus = entries(&sys.join("devices/system/cpu"), "cpu").into_iter();
    let all: Vec<u64> = pus.filter_map(|pu| number(&pu.join("cpufreq/scaling_cur_freq"))).collect();
    let sum: u64 = all.iter().copied().fold(0, u64::saturating_add);
    sum.checked_div(u64::try_from(all.len()).unwrap_or(u64::MAX))
}

/// The entries of a directory with this beginning of their names; empty if the directory does not exist.
fn entries(directory: &Path, beginning: &str) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(directory) else { return Vec::new() };
    let begins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    found.flatten().map(|entry| entry.path()).filter(begins).collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_sensor_and_the_mean_frequency() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!((temperature_milli(dir.path()), frequency_khz(dir.path())), (None, None));
        put("class/thermal/thermal_zone0/temp", "41000\n");
        put("class/thermal/thermal_zone1/temp", "-274000\n");
        put("class/thermal/cooling_device0/temp", "99000\n");
        put("class/hwmon/hwmon1/temp2_input", "63500\n");
        put("class/hwmon/hwmon1/temp2_crit", "100000\n");
        put("class/hwmon/hwmon1/temp3_input", "255000\n");
        assert_eq!(temperature_milli(dir.path()), Some(63_500));
        put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
        put("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
        put("devices/system/cpu/cpufreq/boost", "1\n");
        assert_eq!(frequency_khz(dir.path()), Some(2_500_000));
    }
}
