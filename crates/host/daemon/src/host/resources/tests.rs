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

/// As a daemon without addresses wrote it.
fn has(name: &str, count: u64, numbers: &[u32]) -> Vec<Resource> {
    vec![Resource { numbers: numbers.to_vec(), ..Resource::asked(name, count) }]
}

fn asks(name: &str, count: u64) -> Vec<Resource> {
    vec![Resource::asked(name, count)]
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
    give_named(resources, policy, job, (GPU, count), cpus, "").numbers
}

fn give_named(
    resources: &mut Resources,
    policy: &Policy,
    job: u64,
    (name, count): (&str, u64),
    cpus: &str,
    environ: &str,
) -> Resource {
    let (mut list, uses) = (asks(name, count), resources.seen_by(environ.as_bytes()));
    let cpus = cpus.parse().expect("a list of PUs");
    let start = Start { list: &mut list, cpus: &cpus, uses: &uses };
    resources.give(policy, &Config::default(), JobId(job), start);
    list.remove(0)
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
    let mut list = has(GPU, 2, &[0, 2]);
    resources.keep(JobId(1), &mut list);
    assert_eq!(list[0].addresses, ["0000:00:00.0", "0000:02:00.0"]);
    assert_eq!(give(&mut resources, &known, 2, 2, "0-7"), [1, 3]);
}

/// GPUs by bus and number, as they are after something was changed.
fn host(gpus: &[(Vendor, u32, u32)]) -> Vec<Gpu> {
    let at = |&(vendor, bus, number)| Gpu {
        address: gpus::Address::parse(&format!("0000:{bus:02x}:00.0")).expect("an address"),
        ..gpu(vendor, number, "")
    };
    gpus.iter().map(at).collect()
}

fn counts(resources: &Resources, policy: &Policy) -> Vec<String> {
    let all = resources.for_scheduler(policy, &Config::default());
    all.iter().map(|one| format!("{}={}", one.name, one.count)).collect()
}

#[test]
fn other_numbers_hand_no_gpu_out_twice() {
    use Vendor::Nvidia;
    let known = policy(&[1, 2, 3]);
    let mut before = Resources { gpus: host(&[(Nvidia, 2, 0), (Nvidia, 3, 1)]), ..Resources::default() };
    let mut list = vec![give_named(&mut before, &known, 1, (GPU, 1), "", "")];
    assert_eq!(
        (list[0].numbers.as_slice(), list[0].addresses.as_slice()),
        (&[0][..], &["0000:02:00.0".to_owned()][..])
    );
    // One with a lower address is there after a restart: what was number 0 is number 1.
    let mut after =
        Resources { gpus: host(&[(Nvidia, 1, 0), (Nvidia, 2, 1), (Nvidia, 3, 2)]), ..Resources::default() };
    after.keep(JobId(1), &mut list);
    assert_eq!(give(&mut after, &known, 2, 2, ""), [0, 2]);
    assert_eq!(counts(&after, &known), ["gpu=3"]);
    // The one that job 1 has is gone: it counts as had, and the two others are both there for others.
    let mut fewer = Resources { gpus: host(&[(Nvidia, 1, 0), (Nvidia, 3, 1)]), ..Resources::default() };
    fewer.keep(JobId(1), &mut list);
    assert!(fewer.has_odd(&Config::default()));
    assert_eq!(counts(&fewer, &known), ["gpu=3"]);
    assert_eq!(give(&mut fewer, &known, 2, 2, ""), [0, 1]);
    assert!(fewer.job_over(&Config::default(), JobId(1)));
    assert_eq!(counts(&fewer, &known), ["gpu=2"]);
    assert!(!fewer.job_over(&Config::default(), JobId(2)));
}

#[test]
fn another_name_hands_no_gpu_out_twice() {
    use Vendor::{Amd, Nvidia};
    let known = policy(&[1, 2, 3]);
    let mut resources = Resources { gpus: host(&[(Nvidia, 2, 0), (Nvidia, 3, 1)]), ..Resources::default() };
    let first = give_named(&mut resources, &known, 1, (GPU, 1), "", "");
    // The driver of another vendor's is loaded: what was `gpu` is `gpu.nvidia`.
    resources.gpus = host(&[(Nvidia, 2, 0), (Nvidia, 3, 1), (Amd, 4, 0)]);
    assert_eq!(counts(&resources, &known), ["gpu.amd=1", "gpu.nvidia=1"]);
    let second = give_named(&mut resources, &known, 2, ("gpu.nvidia", 1), "", "");
    assert_eq!((first.numbers.as_slice(), second.numbers.as_slice()), (&[0][..], &[1][..]));
    // Nor to one that asks for more than is free: it sees none of those that others have.
    let third = give_named(&mut resources, &known, 3, ("gpu.nvidia", 1), "", "");
    assert!(third.numbers.is_empty());
    let seen = resources.variables(&[third]);
    assert_eq!(seen[0], ("CUDA_VISIBLE_DEVICES".to_owned(), String::new()));
}

#[test]
fn processes_that_run_keep_the_gpu_that_they_use() {
    let mut resources = four();
    let known = policy(&[1, 2, 3]);
    let environ = "PATH=/bin\0CUDA_VISIBLE_DEVICES=2\0";
    assert_eq!(give_named(&mut resources, &known, 1, (GPU, 1), "0-1", environ).numbers, [2]);
    // Where another job has that, one that is free.
    assert_eq!(give_named(&mut resources, &known, 2, (GPU, 1), "0-1", environ).numbers, [0]);
    assert_eq!(give_named(&mut resources, &known, 3, (GPU, 1), "", "CUDA_VISIBLE_DEVICES=9\0").numbers, [1]);
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
    let has = |name: &str, numbers: &[u32]| has(name, 2, numbers);
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
    let addresses = vec!["0000:00:00.0".to_owned(), "0000:02:00.0".to_owned()];
    let list = [Resource { numbers: vec![0, 2], addresses, ..Resource::asked(GPU, 2) }];
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

/// A job's first process that holds the readers of its environment up; later it answers.
#[test]
fn a_job_starts_once_it_is_known_what_its_processes_use() {
    /// No user of this host: threads are shared with other tests.
    const USER: u32 = 4_200_001;
    let root = tempfile::tempdir().expect("a directory");
    let environ = root.path().join("7/environ");
    std::fs::create_dir(root.path().join("7")).expect("a process");
    let made = std::process::Command::new("mkfifo").arg(&environ).status().expect("mkfifo");
    assert!(made.success());
    let (proc, job) = (Proc::open(root.path()).expect("a tree"), JobId(1));
    let mut resources = four();
    let used = |resources: &mut Resources, list: &[Resource], first| {
        resources.used_by(&proc, (job, USER), list, first)
    };
    assert_eq!(
        used(&mut resources, &asks("tape", 1), Some(7)),
        Some(BTreeSet::new()),
        "no GPUs are asked for"
    );
    assert_eq!(used(&mut resources, &asks(GPU, 1), None), Some(BTreeSet::new()), "nothing ran before");
    assert_eq!(
        (used(&mut resources, &asks(GPU, 1), Some(7)), resources.put_off(job).is_some()),
        (None, true)
    );
    // The reader is let go, and finds nothing.
    drop(std::fs::OpenOptions::new().write(true).open(&environ).expect("it is read"));
    let new = root.path().join("7/new");
    std::fs::write(&new, "A=1\0CUDA_VISIBLE_DEVICES=2\0").expect("an environment");
    std::fs::rename(new, &environ).expect("it is there");
    // The loop waits for a part of all time only, and is told again and again that it is late.
    let until_read = |resources: &mut Resources| {
        let began = std::time::Instant::now();
        loop {
            assert!(began.elapsed().as_secs() < 120, "it is not read");
            if let Some(uses) = used(resources, &asks(GPU, 1), Some(7)) {
                return uses;
            }
            std::thread::yield_now();
        }
    };
    let uses = until_read(&mut resources);
    assert_eq!(resources.put_off(job), None);
    let (mut list, cpus) = (asks(GPU, 1), CpuSet::default());
    let start = Start { list: &mut list, cpus: &cpus, uses: &uses };
    resources.give(&policy(&[1]), &Config::default(), job, start);
    assert_eq!(list[0].numbers, [2]);
    std::fs::rename(root.path().join("7"), root.path().join("gone")).expect("it ends");
    assert_eq!(until_read(&mut resources), BTreeSet::new(), "it has ended");
}
