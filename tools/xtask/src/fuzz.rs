//! `cargo xtask fuzz`: every parser of foreign input (the wire, configuration, topologies, cpu sets, logs and lists of
//! jobs, workflows, recordings, the kernel's files) gets valid texts with random changes. None may panic or take long, and
//! a value that a parser prints must be read as the same value.
//!
//! Random changes without feedback find less than a coverage-guided fuzzer in days, but something in a minute; they need no
//! other toolchain, and a seed reproduces them. An input that broke a parser goes into that parser's own tests.

use std::fs;
use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::job::Filter;
use pinfold_policy::{self as scheduler, Event, JobId, Policy, Settings};
use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, REQUEST_MAX_BYTES, Reply, Request};
use pinfold_record::frame::Step;
use pinfold_record::read::Reader;
use pinfold_record::write::Writer;
use pinfold_sim::dice::Dice;
use pinfold_sys::{cgroup, procfs};
use pinfold_topo::CpuSet;

/// The longest time for an input; the slowest valid input takes some milliseconds.
const SLOW: Duration = Duration::from_secs(2);
/// Inputs grow to this many bytes at most.
const BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArgs {
    /// Inputs for each parser
    #[arg(long, default_value_t = 20_000)]
    inputs: u64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only parsers with this in their name
    #[arg(long, default_value = "")]
    only: String,
}

/// A parser with valid inputs.
struct Target {
    name: &'static str,
    corpus: Vec<Vec<u8>>,
    parse: fn(&[u8]) -> Result<(), String>,
}

pub(crate) fn fuzz(args: &FuzzArgs) -> anyhow::Result<()> {
    let targets = targets()?;
    // A panic is reported with its input below.
    std::panic::set_hook(Box::new(|_| {}));
    let mut broken = Vec::new();
    for target in targets.iter().filter(|target| target.name.contains(&args.only)) {
        let started = Instant::now();
        let (mut tried, mut found) = (0, None);
        while tried < args.inputs && found.is_none() {
            let mut dice = Dice::new(args.seed.wrapping_mul(1_000_003).wrapping_add(tried));
            let input = twisted(&target.corpus, &mut dice);
            found = try_one(target, &input).map(|what| (what, input));
            tried += 1;
            if started.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        println!("{:24} {tried:6} inputs, {:.1} s", target.name, started.elapsed().as_secs_f64());
        if let Some((what, input)) = found {
            let file = std::env::temp_dir().join(format!("pinfold-fuzz-{}", target.name.replace(' ', "-")));
            fs::write(&file, &input).with_context(|| format!("failed to write {}", file.display()))?;
            println!("  {what}; the input is in {}", file.display());
            broken.push(target.name);
        }
    }
    let _ = std::panic::take_hook();
    if broken.is_empty() { Ok(()) } else { bail!("broken: {}", broken.join(", ")) }
}

/// The fault of a parser with this input, if any. The fastest of three tries counts, as other load may delay a try.
fn try_one(target: &Target, input: &[u8]) -> Option<String> {
    let mut took = Duration::MAX;
    for _ in 0..3 {
        took = took.min(match take(target, input) {
            Ok(took) => took,
            Err(wrong) => return Some(wrong),
        });
        if took <= SLOW {
            return None;
        }
    }
    Some(format!("it took {:.1} s", took.as_secs_f64()))
}

/// The parser's time for this input; an error: its fault.
fn take(target: &Target, input: &[u8]) -> Result<Duration, String> {
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| (target.parse)(input)));
    let took = started.elapsed();
    match result {
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
            Err(format!("it panicked: {}", words.unwrap_or_default()))
        }
        Ok(Err(wrong)) => Err(wrong),
        Ok(Ok(())) => Ok(took),
    }
}

/// One to eight changes to texts of the corpus.
fn twisted(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let any = |dice: &mut Dice| &corpus[index(dice, corpus.len())];
    let mut bytes = any(dice).clone();
    for _ in 0..dice.between(1, 8) {
        let at = index(dice, bytes.len() + 1);
        let to = (at + index(dice, 32)).min(bytes.len());
        match dice.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..to)),
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            3 => bytes.insert(at, byte(dice)),
            4 => {
                let part = bytes[at..to].to_vec();
                let copies = index(dice, 64);
                bytes.splice(at..at, part.iter().copied().cycle().take(part.len() * copies));
            }
            5 => {
                let other = any(dice);
                let from = index(dice, other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                // A number becomes another, at the edges as a rule.
                const NUMBERS: [&str; 10] = [
                    "0",
                    "-1",
                    "1",
                    "65535",
                    "65536",
                    "4294967295",
                    "4294967296",
                    "18446744073709551615",
                    "18446744073709551616",
                    "9e999",
                ];
                let start =
                    bytes[at..].iter().position(u8::is_ascii_digit).map_or(bytes.len(), |skip| at + skip);
                let end = bytes[start..]
                    .iter()
                    .position(|b| !b.is_ascii_digit())
                    .map_or(bytes.len(), |n| start + n);
                bytes.splice(start..end, dice.pick(&NUMBERS).bytes());
            }
            7 => {
                let lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
                let (a, b) = (index(dice, lines.len()), index(dice, lines.len()));
                let mut lines: Vec<Vec<u8>> = lines.into_iter().map(<[u8]>::to_vec).collect();
                lines.swap(a, b);
                bytes = lines.join(&b'\n');
            }
            _ => {
                const WORDS: [&str; 12] =
                    ["\0", "\u{feff}", "é", "\"", "{", "[", "<!--", "&#0;", "max", "\r\n", ":", ","];
                bytes.splice(at..at, dice.pick(&WORDS).bytes());
            }
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn index(dice: &mut Dice, length: usize) -> usize {
    usize::try_from(dice.below(u64::try_from(length.max(1)).unwrap_or(1))).unwrap_or(0)
}

fn byte(dice: &mut Dice) -> u8 {
    u8::try_from(dice.below(256)).unwrap_or(0)
}

/// Valid inputs, as bytes.
fn words(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn targets() -> anyhow::Result<Vec<Target>> {
    let mut all = machines()?;
    all.extend(typed());
    all.extend(kernels());
    all.extend(simulated());
    Ok(all)
}

/// Descriptions of machines.
fn machines() -> anyhow::Result<Vec<Target>> {
    let mut known = Vec::new();
    for entry in fs::read_dir("fixtures/topology/xml").context("to be run in the project's directory")? {
        let bytes = fs::read(entry?.path())?;
        if bytes.len() <= BYTES_MAX {
            known.push(bytes);
        }
    }
    Ok(vec![
        Target {
            name: "cpu set",
            corpus: words(&["0", "0-3,8", "0-1023", "1,3,5-7,64-127", "0-7:2", "\n"]),
            parse: cpu_set,
        },
        Target {
            name: "mask",
            corpus: words(&["0x3", "ff", "0x00000001,00000000", "0xffffffff,ffffffff"]),
            parse: |bytes| {
                let _ = CpuSet::from_mask(&text(bytes));
                Ok(())
            },
        },
        Target {
            name: "synthetic machine",
            corpus: words(&[
                "pack:2 numa:1 core:4 pu:2",
                "2 4 2",
                "pack:4(indexes=0,2,1,3) l3:1 core:8 pu:1",
            ]),
            parse: |bytes| {
                let _ = pinfold_sys::discover::synthetic(&text(bytes));
                Ok(())
            },
        },
        Target { name: "hwloc XML", corpus: known, parse: hwloc_xml },
    ])
}

/// Input from users and their programs.
fn typed() -> Vec<Target> {
    vec![
        Target {
            name: "configuration",
            corpus: words(&[
                "[slots]\nfactor = 1.5\nqueue_depth = 100\n[cpu]\npreemption = \"hard\"\n",
                "host.memory = \"2GiB\"\n[access]\noperators = [\"root\"]\n[profile]\ninterval = \"500ms\"\n",
            ]),
            parse: |bytes| {
                pinfold_proto::config::Config::default().with_file(&text(bytes)).map(drop).or(Ok(()))
            },
        },
        Target {
            name: "size, duration, line",
            corpus: words(&["2GiB", "1.5M", "100", "10 ms", "1h30m", "2d", "(a;[[ b'|c<<E"]),
            parse: |bytes| {
                let _ = pinfold_proto::quantity::parse_size(&text(bytes));
                let _ = pinfold_proto::quantity::parse_duration(&text(bytes));
                let _ = pinfold_proto::program::programs(&["sh", "-c", &text(bytes)].map(str::to_owned));
                Ok(())
            },
        },
        Target { name: "requests", corpus: requests(), parse: frames::<Request> },
        Target { name: "replies", corpus: replies(), parse: frames::<Reply> },
    ]
}

/// The kernel's files, as they are here.
fn kernels() -> Vec<Target> {
    let own =
        |files: &[&str]| -> Vec<Vec<u8>> { files.iter().filter_map(|file| fs::read(file).ok()).collect() };
    let groups = words(&[
        "populated 1\nfrozen 0\n",
        "max\n",
        "12\n7\n9\n",
        "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n",
        "anon 4096\nfile 8192\nfile_mapped 0\n",
    ]);
    let files = [
        "/proc/self/stat",
        "/proc/self/status",
        "/proc/self/io",
        "/proc/self/smaps_rollup",
        "/proc/stat",
        "/proc/meminfo",
        "/proc/pressure/memory",
    ];
    vec![
        Target { name: "process files", corpus: own(&files), parse: process_files },
        Target {
            name: "group files",
            corpus: [own(&["/proc/self/mountinfo", "/proc/self/cgroup"]), groups].concat(),
            parse: group_files,
        },
    ]
}

/// Input of `pinfold sim` and `pinfold replay`.
fn simulated() -> Vec<Target> {
    vec![
        Target {
            name: "job log",
            corpus: words(&[
                "; MaxProcs: 4\n; UnixStartTime: 5\n1 0 -1 100 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1\n",
                "; MaxNodes: 64\n2 1 0 50.5 4 -1 2048 4 50 4096 1 1 1 -1 -1 -1 -1 -1\n3 2 -1 10 1 -1 -1 1 10 -1 1 2 1 -1 \
                 -1 -1 -1 -1\n",
            ]),
            parse: job_log,
        },
        Target {
            name: "job list",
            corpus: words(&[
                "{\"wall_s\":1}\n{\"wall_s\":2.5,\"submit_s\":3,\"cores\":2,\"cpu_s\":1,\"after\":[1]}\n",
                "{\"job\":7,\"wall_s\":10,\"requested_s\":5,\"memory_peak_bytes\":4096,\"io_bytes\":9,\"user\":\"u\"}\n",
            ]),
            parse: job_list,
        },
        Target {
            name: "workflow",
            corpus: words(&[
                "id,runtime_s,parents,cores,memory_bytes\na,1.5,,1,4096\nb,2,a,2,\nc,1,a;b,1,1\n",
                "{\"name\":\"w\",\"schemaVersion\":\"1.5\",\"workflow\":{\"specification\":{\"tasks\":[{\"name\":\"a\",\
                 \"id\":\"a\",\"parents\":[]},{\"name\":\"b\",\"id\":\"b\",\"parents\":[\"a\"]}]},\"execution\":{\"tasks\":\
                 [{\"id\":\"a\",\"runtimeInSeconds\":1.5,\"coreCount\":1},{\"id\":\"b\",\"runtimeInSeconds\":2}]}}}",
            ]),
            parse: |bytes| {
                if let Ok(list) = pinfold_whatif::wfinstance::read(&text(bytes)) {
                    let _ = list.arrange(&Fleet::pool(64));
                }
                Ok(())
            },
        },
        Target { name: "recording", corpus: recordings(), parse: recording },
    ]
}

fn job_log(bytes: &[u8]) -> Result<(), String> {
    let (mut reader, mut filter) = (pinfold_cluster::swf::Reader::default(), Filter::new(Fleet::pool(64)));
    for line in text(bytes).lines() {
        match reader.line(line) {
            Ok(Some(record)) => filter.take(&record),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    let (jobs, _) = filter.finish();
    match jobs.iter().find(|job| job.run_us == 0 || job.processors == 0 || job.processors > 64) {
        Some(job) => Err(format!("a job that cannot be played is let through: {job:?}")),
        None => Ok(()),
    }
}

fn job_list(bytes: &[u8]) -> Result<(), String> {
    let mut list = pinfold_whatif::list::List::default();
    if text(bytes).lines().try_for_each(|line| list.line(line)).is_ok() {
        let _ = list.arrange(&Fleet::pool(64));
    }
    Ok(())
}

/// The frames of a short recording, uncompressed: a checksum would refuse every changed frame.
fn recordings() -> Vec<Vec<u8>> {
    let mut policy = Policy::default();
    let mut writer = Writer::begin(Vec::new(), policy.clone(), 7).expect("into memory");
    let events = [
        Event::Configure(Settings::default()),
        Event::Submit(scheduler::Request::plain(JobId(1))),
        Event::Tick,
    ];
    for (at, event) in (1..).zip(events) {
        let now = scheduler::Instant(at * 1_000_000);
        let decisions = policy.step(now, event.clone());
        writer.step(Step { now, event, decisions }).expect("into memory");
    }
    let packed = writer.finish().expect("into memory");
    let mut frames = Vec::new();
    MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut frames).expect("what was packed");
    vec![frames, packed]
}

fn recording(bytes: &[u8]) -> Result<(), String> {
    let read = |packed: &[u8]| {
        let Ok(mut reader) = Reader::open(packed) else { return };
        while let Ok(Some(_)) = reader.frame() {}
    };
    read(bytes);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).map_err(|error| error.to_string())?;
    read(&packed.finish().map_err(|error| error.to_string())?);
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A printed set is read as the same set.
fn cpu_set(bytes: &[u8]) -> Result<(), String> {
    let Ok(set) = text(bytes).parse::<CpuSet>() else { return Ok(()) };
    match set.to_string().parse::<CpuSet>() {
        Ok(again) if again == set => Ok(()),
        again => Err(format!("{set} is printed and read as {again:?}")),
    }
}

fn hwloc_xml(bytes: &[u8]) -> Result<(), String> {
    if let Ok(facts) = pinfold_topo::hwloc_xml::facts_of(&text(bytes)) {
        let _ = facts.assemble();
    }
    Ok(())
}

fn requests() -> Vec<Vec<u8>> {
    let all = [
        Request::Hello { version: wire::WIRE_VERSION },
        Request::Submit { ticket: 1, spec: Box::default(), pid: Some(7) },
        Request::Wait { jobs: vec![1, 2, 3] },
        Request::Status { jobs: Vec::new(), all: true, at_us: None },
        Request::Why { job: 3, at_us: Some(5) },
        Request::ConfigSet { changes: vec!["slots.factor=2".to_owned()] },
        Request::Presented,
    ];
    let mut frames: Vec<Vec<u8>> =
        all.iter().map(|request| encoded(|out| wire::encode(request, out))).collect();
    frames.push(frames.concat());
    frames
}

fn replies() -> Vec<Vec<u8>> {
    let all = [
        Reply::Queued { ticket: 1, job: 2 },
        Reply::Go {
            job: 2,
            doors: 3,
            variables: vec![("A".to_owned(), "b".to_owned())],
            wrap: vec!["/w".to_owned()],
            run: Some(1),
        },
        Reply::Recorded { job: 2, suspended_us: 1, memory_peak_bytes: 4096, end: None, cancelled: true },
        Reply::Done,
    ];
    all.iter().map(|reply| encoded(|out| wire::encode(reply, out))).collect()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), wire::FrameError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes).expect("a few words");
    bytes
}

/// Frames are the same however they are cut.
fn frames<T: serde::de::DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) -> Result<(), String> {
    let max = REQUEST_MAX_BYTES.max(REPLY_MAX_BYTES);
    let all = |step: usize| {
        let mut decoder = Decoder::new(max);
        let mut found = Vec::new();
        for part in bytes.chunks(step.max(1)) {
            decoder.push(part);
            loop {
                match decoder.take::<T>() {
                    Ok(Some(frame)) => found.push(format!("{frame:?}")),
                    Ok(None) => break,
                    Err(error) => {
                        found.push(error.to_string());
                        return found;
                    }
                }
            }
        }
        found
    };
    if all(bytes.len()) == all(7) {
        Ok(())
    } else {
        Err("cut otherwise, it is understood otherwise".to_owned())
    }
}

fn process_files(bytes: &[u8]) -> Result<(), String> {
    let text = text(bytes);
    let _ = procfs::parse_process_stat(&text);
    let _ = procfs::parse_thread_stat(&text);
    let _ = procfs::parse_process_status(&text);
    let _ = procfs::parse_process_io(&text);
    let _ = procfs::parse_rollup(&text);
    let _ = procfs::parse_host_cpu(&text);
    let _ = procfs::parse_memory_info(&text);
    let _ = procfs::parse_pressure(&text);
    Ok(())
}

fn group_files(bytes: &[u8]) -> Result<(), String> {
    let text = text(bytes);
    let _ = cgroup::parse_mounts(&text);
    let _ = cgroup::parse_events(&text);
    let _ = cgroup::parse_limit(&text);
    let _ = cgroup::parse_pids(&text);
    let _ = cgroup::parse_io_stat(&text);
    let _ = cgroup::keyed(&text, "anon");
    for generation in [cgroup::Generation::V1, cgroup::Generation::V2] {
        let _ = cgroup::own_group(&text, generation, "cpu");
    }
    Ok(())
}
