//! Countable resources in words.

use pinfold_proto::Resource;
use pinfold_proto::view::{DeviceView, ResourceView};

use super::table::plain;

/// Usage of each resource in a line: `gpu 1 of 2, licence.fluent 0 of 4`; `None` without resources.
#[must_use]
pub fn resources_in_use(resources: &[ResourceView]) -> Option<String> {
    let one = |view: &ResourceView| format!("{} {} of {}", plain(&view.resource), view.used, view.total);
    let words: Vec<String> = resources.iter().map(one).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A resource with its jobs in a line, then a line per device.
#[must_use]
pub fn resource_lines(view: &ResourceView) -> Vec<String> {
    let name = plain(&view.resource);
    let jobs: Vec<String> = view.jobs.iter().map(ToString::to_string).collect();
    let by = match (jobs.as_slice(), view.used) {
        (_, 0) => String::new(),
        ([], _) => ", by others' jobs".to_owned(),
        ([job], _) => format!(", by job {job}"),
        (jobs, _) => format!(", by jobs {}", jobs.join(" ")),
    };
    let mut lines = vec![format!("resource {name}: {} of {} used{by}", view.used, view.total)];
    lines.extend(view.devices.iter().map(|device| format!("  {}", device_line(&name, device))));
    lines
}

fn device_line(name: &str, device: &DeviceView) -> String {
    let holder = match (device.used, device.job) {
        (false, _) => "free".to_owned(),
        (true, Some(job)) => format!("job {job}"),
        (true, None) => "another user's job".to_owned(),
    };
    let model = device.model.as_ref().map_or_else(|| device.vendor.clone(), |model| plain(model));
    let beside = match (&device.cpus, device.numa) {
        (Some(cpus), Some(node)) => format!(", beside PUs {} (NUMA node {node})", plain(cpus)),
        (Some(cpus), None) => format!(", beside PUs {}", plain(cpus)),
        (None, Some(node)) => format!(", beside NUMA node {node}"),
        (None, None) => String::new(),
    };
    format!("{name} {}: {holder}; {model} at {}{beside}", device.number, plain(&device.address))
}

/// A job's resources in words.
#[must_use]
pub(super) fn resource_words(resources: &[Resource]) -> Option<String> {
    let words: Vec<String> = resources.iter().map(|one| plain(&one.to_string())).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_in_words() {
        let device = |number, used, job| DeviceView {
            number,
            vendor: "nvidia".to_owned(),
            model: Some("L4\x1b[2J".to_owned()),
            address: format!("0000:0{number}:00.0"),
            numa: Some(1),
            cpus: Some("8-15".to_owned()),
            used,
            job,
        };
        let devices = vec![device(0, true, Some(7)), device(1, true, None), device(2, false, None)];
        let gpu = ResourceView { resource: "gpu".to_owned(), total: 3, used: 2, jobs: vec![7], devices };
        let licence = ResourceView {
            resource: "licence".to_owned(),
            total: 4,
            used: 2,
            jobs: vec![7, 9],
            devices: vec![],
        };
        assert_eq!(resources_in_use(&[gpu.clone(), licence.clone()]).unwrap(), "gpu 2 of 3, licence 2 of 4");
        assert_eq!(resources_in_use(&[]), None);
        let lines = resource_lines(&gpu);
        assert_eq!(lines[0], "resource gpu: 2 of 3 used, by job 7");
        assert_eq!(
            lines[1].replace(char::from(0x1b), "ESC"),
            format!("  gpu 0: job 7; {} at 0000:00:00.0, beside PUs 8-15 (NUMA node 1)", plain("L4\x1b[2J"))
        );
        assert!(lines[2].contains("another user's job") && lines[3].contains("gpu 2: free"));
        assert_eq!(resource_lines(&licence), ["resource licence: 2 of 4 used, by jobs 7 9"]);
    }
}
