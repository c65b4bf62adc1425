//! Which GPUs jobs get, with a scheduler that counts them.

use pinfold_policy::{Event, Instant, Machine, Request, Settings};
use pinfold_topo::PuOs;

use super::*;

fn gpu(vendor: Vendor, number: u32, cpus: &str) -> Gpu {
    let address = gpus::Address::parse(&format!("0000:{number:02x}:00.0")).expect("an address");
    let cpus = cpus.parse().expect("a list of PUs");
    Gpu { vendor, number, address, model: Some("X1".to_owned()), uuid: None, numa: None, cpus }
}

fn four() -> Resources {
    let gpus = vec![
        gpu(Vendor::Nvidia, 0, "0-3"),
        gpu(Vendor::Nvidia, 1, "0-3"),
        gpu(Vendor::Nvidia, 2, "4-7"),
        gpu(Vendor::Nvidia, 3, "4-7"),
    ];
    Resources { gpus, ..Resources::default() }
}

fn asks(name: &str, count: u64) -> Vec<Resource> {
    vec![Resource { name: name.to_owned(), count, numbers: Vec::new() }]
}

fn config(changes: &[&str]) -> Config {
    Config::default().with_changes(changes.iter().copied()).expect("a configuration").0
}

/// A scheduler that has started these jobs.
fn policy(jobs: &[u64]) -> Policy {
    let mut policy = Policy::default();
    policy.step(Instant(0), Event::Configure(Settings { factor_milli: 4000, ..Settings::default() }));
    let cores = (0..8).map(|pu| CpuSet::single(PuOs(pu))).collect();
    policy.step(Instant(0), Event::Machine(Machine::flat(cores)));
    for &job in jobs {
        policy.step(Instant(0), Event::Submit(Request::plain(JobId(job))));
    }
    policy
}

fn give(resources: &mut Resources, policy: &Policy, job: u64, count: u64, cpus: &str) -> Vec<u32> {
    let mut list = asks(GPU, count);
    let cpus = cpus.parse().expect("a list of PUs");
    resources.give(policy, &Config::default(), JobId(job), &mut list, &cpus);
    list.remove(0).numbers
}

#[test]
fn those_beside_its_cores_come_first() {
    let mut resources = four();
    let mut known = policy(&[1, 2, 3]);
    assert_eq!(give(&mut resources, &known, 1, 1, "5"), [2]);
    assert_eq!(give(&mut resources, &known, 2, 2, "4"), [0, 3]);
    assert_eq!(give(&mut resources, &known, 3, 1, ""), [1]);
    // What a job had that the scheduler does not know any more is free; what one has that is told again is not its own
    // rival.
    known.step(Instant(1), Event::Exited(JobId(2)));
    assert_eq!(give(&mut resources, &known, 3, 2, "1"), [0, 1]);
}

#[test]
fn a_daemon_that_comes_after_hands_no_gpu_out_twice() {
    let mut resources = four();
    let known = policy(&[1, 2]);
    resources.keep(JobId(1), &[Resource { name: GPU.to_owned(), count: 2, numbers: vec![0, 2] }]);
    assert_eq!(give(&mut resources, &known, 2, 2, "0-7"), [1, 3]);
}

#[test]
fn how_many_there_are() {
    let totals = |resources: &Resources, changes: &[&str]| -> Vec<String> {
        resources.totals(&config(changes)).iter().map(|one| format!("{}={}", one.name, one.count)).collect()
    };
    assert_eq!(totals(&four(), &["resources.licence.fluent=2"]), ["gpu=4", "licence.fluent=2"]);
    assert_eq!(totals(&four(), &["resources.gpu=1"]), ["gpu=1"]);
    assert_eq!(totals(&four(), &["resources.gpu=9"]), ["gpu=4"], "no more than there are");
    assert_eq!(
        totals(&Resources::default(), &["resources.gpu=2"]),
        ["gpu=2"],
        "of a kind that is not known here"
    );
    let mut both = four();
    both.gpus.push(gpu(Vendor::Amd, 0, ""));
    assert_eq!(totals(&both, &[]), ["gpu.amd=1", "gpu.nvidia=4"]);
}

#[test]
fn more_than_there_is_is_refused() {
    let check = |resources: &Resources, list: &str, changes: &[&str], want: &str| {
        let mut spec = JobSpec::default();
        spec.terms.resources = pinfold_proto::resource::parse_resources(list).expect("a list");
        let got = resources.admit(&config(changes), &spec).err().map_or(String::new(), |(_, text)| text);
        assert_eq!(got, want, "{list}");
    };
    check(&four(), "gpu=4,licence=1", &["resources.licence=1"], "");
    check(&four(), "gpu=5", &[], "--resource gpu=5: this host has 4 of it");
    check(
        &four(),
        "gpus=1",
        &[],
        "--resource gpus=1: this host has no such resource; it has gpu. `pinfold config set resources.gpus=N` adds one",
    );
    check(
        &Resources::default(),
        "gpu=1",
        &[],
        "--resource gpu=1: this host has no countable resources; `pinfold config set resources.gpu=N` makes it one, and \
         `pinfold doctor` tells which GPUs were found",
    );
}

#[test]
fn a_job_learns_its_numbers() {
    let has = |name: &str, numbers: &[u32]| {
        vec![Resource { name: name.to_owned(), count: 2, numbers: numbers.to_vec() }]
    };
    let words = |resources: &Resources, list: &[Resource]| -> Vec<String> {
        resources.variables(list).iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    assert_eq!(
        words(&four(), &has(GPU, &[1, 3])),
        ["CUDA_VISIBLE_DEVICES=1,3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"]
    );
    let amd = Resources { gpus: vec![gpu(Vendor::Amd, 0, "")], ..Resources::default() };
    assert_eq!(words(&amd, &has(GPU, &[0])), ["ROCR_VISIBLE_DEVICES=0"]);
    assert!(words(&four(), &has("licence", &[])).is_empty());
}

#[test]
fn what_is_shown() {
    let resources = four();
    let list = [Resource { name: GPU.to_owned(), count: 2, numbers: vec![0, 2] }];
    let holders = [(JobId(7), &list[..], true), (JobId(8), &list[..0], false)];
    let views = resources.views(&config(&["resources.licence=3"]), holders.into_iter());
    assert_eq!((views[0].total, views[0].used, views[0].jobs.as_slice()), (4, 2, &[7][..]));
    let jobs: Vec<Option<u64>> = views[0].devices.iter().map(|device| device.job).collect();
    assert_eq!(jobs, [Some(7), None, Some(7), None]);
    assert_eq!((views[1].resource.as_str(), views[1].used, views[1].devices.len()), ("licence", 0, 0));
    let hidden = resources.views(&Config::default(), [(JobId(7), &list[..], false)].into_iter());
    assert!(hidden[0].devices[0].used && hidden[0].jobs.is_empty() && hidden[0].devices[0].job.is_none());
    let finding = resources.finding(&config(&["resources.gpu=3"]));
    assert_eq!(finding.found, "4 of nvidia (X1) as the resource gpu, of which jobs get 3 (`resources.gpu`)");
}
